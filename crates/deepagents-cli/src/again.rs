//! The command that goes on with a thread, as it is told.

use std::path::Path;

use crate::args::Database;

/// What a command has to say again: without it, it looks for the thread elsewhere, or works in another directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Again {
    places: String,
    /// The options that say in which form the questions of a thread are asked and answered.
    form: &'static str,
}

impl Again {
    /// For a thread of this directory in this database, as the command line has named them.
    pub(crate) fn new(root: Option<&Path>, database: &Database) -> Self {
        let options = [("--root", root), ("--db", database.db.as_deref())];
        let said = options.into_iter().filter_map(|(option, path)| Some(format!(" {option} {}", word(path?))));
        Self { places: said.collect(), form: "" }
    }

    /// For whoever reads and answers JSON.
    pub(crate) fn json(self) -> Self {
        Self { form: " --json", ..self }
    }

    /// For whoever says what is to be done in lines of JSON, too.
    pub(crate) fn stream_json(self) -> Self {
        Self { form: " --json --input-format stream-json", ..self }
    }

    /// The command, for the same thread.
    pub(crate) fn command(&self, command: &str) -> String {
        format!("{command}{}", self.places)
    }

    /// The command that asks what is open in a thread, of whoever was asked before.
    pub(crate) fn asking(&self, thread: &str) -> String {
        self.command(&format!("deepagents run --resume {thread} --approve ask{}", self.form))
    }
}

/// A path as a word of a shell.
fn word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | ':' | '@' | '%');
    if !path.is_empty() && path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}
