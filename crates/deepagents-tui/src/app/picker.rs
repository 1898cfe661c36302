//! A list to choose from.

use super::event::{Choice, Choices, ListOf};

/// A list, what is typed to narrow it, and what is selected.
#[derive(Clone, Debug)]
pub(crate) struct Picker {
    pub(crate) of: ListOf,
    rows: Vec<Choice>,
    pub(crate) filter: String,
    pub(crate) selected: usize,
    /// A question about the selected one, such as whether files go back too.
    pub(crate) stage: Stage,
}

/// How far the choice is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Choose,
    /// Going back: files too, or the conversation alone.
    Confirm { files: bool },
}

impl Picker {
    pub(crate) fn new(choices: Choices) -> Self {
        Self { of: choices.of, rows: choices.rows, filter: String::new(), selected: 0, stage: Stage::Choose }
    }

    pub(crate) fn title(&self) -> &'static str {
        match (self.of, self.stage) {
            (ListOf::Threads, _) => "Threads of this directory",
            (ListOf::Models, _) => "Models",
            (ListOf::Checkpoints, Stage::Choose) => "Go back to before",
            (ListOf::Checkpoints, Stage::Confirm { .. }) => "Go back",
        }
    }

    /// The rows that the filter lets through.
    pub(crate) fn rows(&self) -> Vec<&Choice> {
        let words = self.filter.to_lowercase();
        let fits = |row: &&Choice| {
            words
                .split_whitespace()
                .all(|word| row.label.to_lowercase().contains(word) || row.key.to_lowercase().contains(word))
        };
        self.rows.iter().filter(fits).collect()
    }

    pub(crate) fn current(&self) -> Option<Choice> {
        self.rows().get(self.selected).map(|row| (*row).clone())
    }

    pub(crate) fn step(&mut self, by: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    pub(crate) fn narrow(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.filter);
        self.selected = 0;
    }
}
