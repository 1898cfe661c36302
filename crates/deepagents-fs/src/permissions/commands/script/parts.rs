//! The parts of a parsed script, and reasons it cannot be parsed.

use std::collections::BTreeSet;

use crate::permissions::commands::directory::Directories;
use crate::permissions::commands::is_stream;
use crate::permissions::commands::word::Word;

/// Reason it is unknown what a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::permissions::commands) enum Doubt {
    #[error("it is no text that all shells read alike")]
    NotRead,
    #[error("it is too long or too deeply nested to be judged")]
    TooMuch,
    #[error("the name of a program in it is computed")]
    Program,
    #[error("it evaluates text that is computed")]
    Evaluation,
    #[error("an expansion in it may run commands")]
    Expansion,
    #[error("arithmetic on variables in it may run commands")]
    Arithmetic,
    #[error("what it runs is read from its input or a list")]
    Input,
    #[error("the options of a program in it that runs others are not known")]
    Options,
    #[error("it sets what git or tar runs by a way that is not read")]
    Settings,
    #[error("it gives the name of a standard command to a function")]
    Renames,
    #[error("it runs a file whose text it puts together from pieces")]
    Assembled,
}

/// Input of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::permissions::commands) enum Document {
    /// The input of the whole script.
    #[default]
    None,
    /// Text written in the script.
    Known(String),
    /// Unknown input.
    Unknown,
}

/// A program with its arguments.
#[derive(Clone, Debug, Default)]
pub(in crate::permissions::commands) struct Simple {
    pub(in crate::permissions::commands) assignments: Vec<(String, Word)>,
    /// The program and its arguments. Empty if the command only sets variables or opens files.
    pub(in crate::permissions::commands) words: Vec<Word>,
    pub(in crate::permissions::commands) redirections: Vec<Redirection>,
    /// Whether it only runs another command, which is listed too.
    pub(in crate::permissions::commands) transparent: bool,
    /// Whether it is part of another command, which may run it.
    pub(in crate::permissions::commands) guessed: bool,
    /// Whether its input is text in the script, such as a here-document.
    pub(in crate::permissions::commands) reads_text: bool,
    /// That text, as written.
    pub(in crate::permissions::commands) texts: Vec<String>,
    /// Whether it runs nothing of its input, or only what is listed too.
    pub(in crate::permissions::commands) inert: bool,
    /// Whether its output or variables are available to later commands.
    pub(in crate::permissions::commands) kept: bool,
    /// Words from its text that may be commands to it.
    pub(in crate::permissions::commands) mentions: Vec<Vec<Word>>,
    /// The ends of its computed words, as far as they are written.
    pub(in crate::permissions::commands) tails: Vec<String>,
    /// The same number for commands whose output may go to the same place.
    pub(in crate::permissions::commands) flow: usize,
}

/// A file opened for a command.
#[derive(Clone, Debug)]
pub(in crate::permissions::commands) struct Redirection {
    pub(in crate::permissions::commands) writes: bool,
    pub(in crate::permissions::commands) to: Word,
    /// Where a relative path starts.
    pub(in crate::permissions::commands) from: Directories,
    /// The end of a computed path, as far as it is written there.
    pub(in crate::permissions::commands) tail: String,
}

impl Redirection {
    /// Returns the paths it may stand for; `None` if they are unknown.
    pub(in crate::permissions::commands) fn paths(&self) -> Option<BTreeSet<String>> {
        self.from.joined(self.to.known()?)
    }
}

impl Simple {
    /// Returns whether it may run its input.
    pub(super) fn is_live(&self) -> bool {
        !self.inert && !self.guessed
    }

    pub(super) fn writes_a_file(&self) -> bool {
        self.redirections.iter().any(|redirection| redirection.writes && !is_stream(&redirection.to))
    }

    /// Formats the command for people.
    pub(in crate::permissions::commands) fn shown(&self) -> String {
        let assignments = self.assignments.iter().map(|(name, value)| format!("{name}={}", value.shown()));
        assignments.chain(self.words.iter().map(Word::shown)).collect::<Vec<_>>().join(" ")
    }
}
