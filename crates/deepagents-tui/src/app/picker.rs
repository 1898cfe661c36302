//! A list to choose from.

use std::sync::Arc;

use super::effect::{ListOf, RewindScope};
use super::event::{Choice, Choices};
use super::menu::next_row;
use super::transcript::Item;
use crate::input::Editor;

/// A list, its filter and its selection.
#[derive(Clone, Debug)]
pub(crate) struct Picker {
    pub(crate) of: ListOf,
    rows: Vec<Choice>,
    pub(crate) filter: String,
    pub(crate) selected: usize,
    /// A question about the selected entry, such as what to rewind.
    pub(crate) stage: Stage,
    /// The preview of an entry, by its key.
    preview: Option<(String, Arc<Vec<Item>>)>,
}

/// The stage of the choice.
#[derive(Clone, Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Choose,
    /// Confirms a rewind with this scope.
    Confirm(RewindScope),
    /// Confirms the deletion of a thread.
    Delete,
    /// Edits the title of a thread.
    Rename(Editor),
}

impl Picker {
    pub(crate) fn new(Choices { of, rows }: Choices) -> Self {
        Self { of, rows, filter: String::new(), selected: 0, stage: Stage::Choose, preview: None }
    }

    pub(crate) fn title(&self) -> &'static str {
        match (self.of, &self.stage) {
            (ListOf::Threads, _) => "Threads of this directory",
            (ListOf::Models, _) => "Models",
            (ListOf::Efforts, _) => "How much the model thinks",
            (ListOf::Themes, _) => "Colours",
            (ListOf::SubAgents, _) => "Sub-agents of this conversation",
            (ListOf::Providers, _) => "Which provider do you have a key for?",
            (ListOf::Checkpoints, Stage::Confirm(_)) => "Go back",
            (ListOf::Checkpoints, _) => "Go back to before",
        }
    }

    /// Returns the rows that match the filter: first by name, then by details.
    pub(crate) fn rows(&self) -> Vec<&Choice> {
        let words = self.filter.to_lowercase();
        let all_in = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
            words.split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
        };
        let by_name = |row: &&Choice| all_in(&[&row.label, &row.key]);
        let by_detail = |row: &&Choice| !by_name(row) && all_in(&[&row.label, &row.key, &row.detail]);
        self.rows.iter().filter(by_name).chain(self.rows.iter().filter(by_detail)).collect()
    }

    pub(crate) fn current(&self) -> Option<Choice> {
        self.rows().get(self.selected).map(|row| (*row).clone())
    }

    /// Moves the selection up or down. Wraps around, as in completions.
    pub(crate) fn move_selection(&mut self, down: bool) {
        self.selected = next_row(self.selected, self.rows().len(), down);
    }

    /// Moves the selection by `by` rows, stopping at the ends.
    pub(crate) fn step(&mut self, by: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    pub(crate) fn narrow(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.filter);
        self.selected = 0;
    }

    /// Replaces the entries and keeps the selected one selected, if it is still there.
    pub(super) fn refresh(&mut self, choices: Choices) {
        if self.of != choices.of {
            return;
        }
        let key = self.current().map(|choice| choice.key);
        self.rows = choices.rows;
        let again = self.rows().iter().position(|row| Some(&row.key) == key.as_ref());
        if again.is_none() {
            self.stage = Stage::Choose;
        }
        self.selected = again.unwrap_or(self.selected).min(self.rows().len().saturating_sub(1));
    }

    /// Returns the selected entry if it has a preview that is not loaded yet.
    pub(super) fn wants_preview(&self) -> Option<(ListOf, String)> {
        let wanted = match (self.of, &self.stage) {
            (ListOf::Threads, Stage::Choose) | (ListOf::Checkpoints, Stage::Confirm(_)) => self.current()?.key,
            _ => return None,
        };
        let is_known = self.preview.as_ref().is_some_and(|(key, _)| *key == wanted);
        (!is_known).then_some((self.of, wanted))
    }

    pub(super) fn previewed(&mut self, of: ListOf, key: String, items: Vec<Item>) {
        // It may come after the selection has moved on; that of the present entry is then still loading.
        if self.of == of && self.current().is_some_and(|current| current.key == key) {
            self.preview = Some((key, Arc::new(items)));
        }
    }

    /// Returns the preview of the selected entry.
    pub(crate) fn preview(&self) -> &[Item] {
        match (&self.preview, self.current()) {
            (Some((known, items)), Some(current)) if *known == current.key => items,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: &[&str]) -> Choices {
        let row = |key: &&str| Choice { key: (*key).to_owned(), label: (*key).to_owned(), detail: String::new() };
        Choices { of: ListOf::Threads, rows: keys.iter().map(row).collect() }
    }

    fn items(text: &str) -> Vec<Item> {
        vec![Item::User(text.to_owned())]
    }

    #[test]
    fn a_preview_that_comes_late_does_not_replace_that_of_the_selected_entry() {
        let mut picker = Picker::new(rows(&["one", "two"]));
        picker.move_selection(true);
        picker.previewed(ListOf::Threads, "two".to_owned(), items("second"));
        picker.previewed(ListOf::Threads, "one".to_owned(), items("first"));
        assert_eq!(picker.preview(), items("second"));
        assert_eq!(picker.wants_preview(), None);
    }

    #[test]
    fn a_list_that_grows_keeps_its_selected_entry_and_its_preview() {
        let mut picker = Picker::new(rows(&["one", "two"]));
        picker.move_selection(true);
        picker.previewed(ListOf::Threads, "two".to_owned(), items("second"));
        picker.refresh(rows(&["new", "one", "two", "three"]));
        assert_eq!(picker.current().map(|choice| choice.key).as_deref(), Some("two"));
        assert_eq!(picker.preview(), items("second"));
        assert_eq!(picker.wants_preview(), None);
    }
}
