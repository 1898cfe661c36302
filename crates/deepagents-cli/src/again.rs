//! The command line that resumes a thread, as it is shown to the user.

use std::path::Path;

use crate::args::Database;

/// The options that a suggested command has to repeat; without them it would look for the thread elsewhere, or work in
/// another directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Again {
    places: String,
    /// The options for the format in which the thread's questions are asked and answered.
    form: &'static str,
}

impl Again {
    /// Repeats the root and the database as the command line named them.
    pub(crate) fn new(root: Option<&Path>, database: &Database) -> Self {
        let options = [("--root", root), ("--db", database.db.as_deref())];
        let said = options.into_iter().filter_map(|(option, path)| Some(format!(" {option} {}", word(path?))));
        Self { places: said.collect(), form: "" }
    }

    /// For a caller that reads and answers JSON.
    pub(crate) fn json(self) -> Self {
        Self { form: " --json", ..self }
    }

    /// For a caller that also sends its messages as lines of JSON.
    pub(crate) fn stream_json(self) -> Self {
        Self { form: " --json --input-format stream-json", ..self }
    }

    /// Returns the command with the options for the same thread.
    pub(crate) fn command(&self, command: &str) -> String {
        format!("{command}{}", self.places)
    }

    /// Returns the command that resumes a thread and asks its open questions, in the caller's format.
    pub(crate) fn asking(&self, thread: &str) -> String {
        self.command(&format!("deepagents run --resume {thread} --approve ask{}", self.form))
    }
}

/// Quotes a path for a shell.
fn word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | ':' | '@' | '%');
    if !path.is_empty() && path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}
