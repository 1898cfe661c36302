//! The completions shown below the input.

use super::commands::{COMMANDS, is_known};
use crate::host::CommandFile;

/// Maximum number of rows shown.
pub(crate) const MAX_MENU_ROWS: usize = 8;

/// The completions and the selected one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Menu {
    pub(crate) kind: MenuKind,
    pub(crate) rows: Vec<MenuRow>,
    pub(crate) selected: usize,
    /// The position in the input where the word to complete begins.
    pub(crate) start: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MenuKind {
    #[default]
    Command,
    File,
}

/// A completion and its description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MenuRow {
    pub(crate) text: String,
    pub(crate) detail: String,
}

impl Menu {
    /// Returns the commands that complete a text. Returns `None` if the text is not a command or no command matches.
    pub(crate) fn commands(text: &str, files: &[CommandFile], skills: &[(String, String)]) -> Option<Self> {
        let typed = text.strip_prefix('/')?;
        if typed.contains(char::is_whitespace) {
            return None;
        }
        let row = |text: String, detail: &str| MenuRow { text, detail: detail.to_owned() };
        let own = COMMANDS.iter().map(|command| row(format!("/{}", command.name), command.about));
        let files = files.iter().filter(|command| !is_known(&command.name));
        let files = files.map(|command| row(format!("/{}", command.name), &command.about));
        let skills = skills.iter().map(|(name, about)| row(format!("/skill:{name}"), about));
        let all: Vec<MenuRow> = own.chain(files).chain(skills).collect();
        let begins = |row: &&MenuRow| row.text.get(1..).is_some_and(|name| name.starts_with(typed));
        let has = |row: &&MenuRow| !begins(row) && typed.len() > 1 && row.text.contains(typed);
        let rows: Vec<MenuRow> = all.iter().filter(begins).chain(all.iter().filter(has)).cloned().collect();
        (!rows.is_empty()).then_some(Self { kind: MenuKind::Command, rows, selected: 0, start: 0 })
    }

    /// Returns file completions for the word that begins at this position of the input.
    pub(crate) fn files(found: Vec<String>, start: usize) -> Option<Self> {
        let rows: Vec<MenuRow> =
            found.into_iter().map(|file| MenuRow { text: mention(&file), detail: String::new() }).collect();
        (!rows.is_empty()).then_some(Self { kind: MenuKind::File, rows, selected: 0, start })
    }

    /// Removes the files that no longer match the query. Until the new search ends, only a matching file must be
    /// selectable.
    pub(crate) fn narrowed(mut self, query: &str) -> Option<Self> {
        self.rows.retain(|row| {
            let mut text = row.text.chars().flat_map(char::to_lowercase);
            query.chars().flat_map(char::to_lowercase).all(|typed| text.any(|c| c == typed))
        });
        self.selected = 0;
        (!self.rows.is_empty()).then_some(self)
    }

    pub(crate) fn current(&self) -> Option<&MenuRow> {
        self.rows.get(self.selected)
    }

    pub(crate) fn step(&mut self, down: bool) {
        self.selected = next_row(self.selected, self.rows.len(), down);
    }

    /// Returns the visible rows, which include the selected one, and the index of the first.
    pub(crate) fn visible(&self, rows: usize) -> (usize, &[MenuRow]) {
        let first = self.selected.saturating_sub(rows.saturating_sub(1));
        (first, self.rows.get(first..(first + rows).min(self.rows.len())).unwrap_or_default())
    }
}

/// Returns the row after or before another one, around the ends.
pub(super) fn next_row(at: usize, rows: usize, down: bool) -> usize {
    let last = rows.saturating_sub(1);
    match down {
        true if at >= last => 0,
        true => at + 1,
        false => at.checked_sub(1).unwrap_or(last),
    }
}

/// Returns a file as mentioned in a message: quoted if its name contains white space.
fn mention(file: &str) -> String {
    if file.contains(char::is_whitespace) {
        format!("@\"{}\"", file.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("@{file}")
    }
}
