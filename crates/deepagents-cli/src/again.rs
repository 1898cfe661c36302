//! The command that goes on with a thread, as it is told.

use std::path::Path;

use crate::args::Database;

/// What a command has to say again: without it, it looks for the thread elsewhere, or works in another directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Again {
    places: String,
    is_json: bool,
}

impl Again {
    /// For a thread of this directory in this database, as the command line has named them.
    pub(crate) fn new(root: Option<&Path>, database: &Database) -> Self {
        let options = [("--root", root), ("--db", database.db.as_deref())];
        let said = options.into_iter().filter_map(|(option, path)| Some(format!(" {option} {}", word(path?))));
        Self { places: said.collect(), is_json: false }
    }

    /// For whoever reads and answers JSON.
    pub(crate) fn json(self, is_json: bool) -> Self {
        Self { is_json, ..self }
    }

    /// The command, for the same thread.
    pub(crate) fn command(&self, command: &str) -> String {
        format!("{command}{}", self.places)
    }

    /// The command that asks what is open in a thread, of whoever was asked before.
    pub(crate) fn asking(&self, thread: &str) -> String {
        let json = if self.is_json { " --json" } else { "" };
        self.command(&format!("deepagents run --resume {thread} --approve ask{json}"))
    }
}

/// A path as a word of a shell.
fn word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | ':' | '@' | '%');
    if !path.is_empty() && path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}
