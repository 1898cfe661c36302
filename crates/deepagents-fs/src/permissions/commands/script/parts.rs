//! What a text is taken apart into, and why it may not be.

use crate::permissions::commands::is_stream;
use crate::permissions::commands::word::Word;

/// Why it cannot be said what a command runs.
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
}

/// What a command is given to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::permissions::commands) enum Document {
    /// What the whole is given.
    #[default]
    None,
    /// A text that is written in the command.
    Known(String),
    /// Something that is not known here.
    Unknown,
}

/// One program with its arguments.
#[derive(Clone, Debug, Default)]
pub(in crate::permissions::commands) struct Simple {
    pub(in crate::permissions::commands) assignments: Vec<(String, Word)>,
    /// The program first. None where variables are set or files are opened and no more.
    pub(in crate::permissions::commands) words: Vec<Word>,
    pub(in crate::permissions::commands) redirections: Vec<Redirection>,
    /// Whether it only runs another command, which is listed as well.
    pub(in crate::permissions::commands) transparent: bool,
    /// Whether it is a part of another command, which may run it.
    pub(in crate::permissions::commands) guessed: bool,
    /// Whether it is given a text to read, such as a script.
    pub(in crate::permissions::commands) reads_text: bool,
    /// What it is given to read, as it is written.
    pub(in crate::permissions::commands) texts: Vec<String>,
    /// Whether it runs nothing, whatever it is given, or only what is listed as well.
    pub(in crate::permissions::commands) inert: bool,
    /// Whether what it prints or sets is there for commands that come later.
    pub(in crate::permissions::commands) kept: bool,
    /// What stands in it and may be a command to it, word by word.
    pub(in crate::permissions::commands) mentions: Vec<Vec<Word>>,
}

/// A file that is opened for a command.
#[derive(Clone, Debug)]
pub(in crate::permissions::commands) struct Redirection {
    pub(in crate::permissions::commands) writes: bool,
    pub(in crate::permissions::commands) to: Word,
}

impl Simple {
    /// Whether it may run what it is given.
    pub(super) fn is_live(&self) -> bool {
        !self.inert && !self.guessed
    }

    pub(super) fn writes_a_file(&self) -> bool {
        self.redirections.iter().any(|redirection| redirection.writes && !is_stream(&redirection.to))
    }

    /// As it is shown to people.
    pub(in crate::permissions::commands) fn shown(&self) -> String {
        let assignments = self.assignments.iter().map(|(name, value)| format!("{name}={}", value.shown()));
        assignments.chain(self.words.iter().map(Word::shown)).collect::<Vec<_>>().join(" ")
    }
}
