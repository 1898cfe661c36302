//! What events of the library's middlewares are about.

use serde::{Deserialize, Serialize};

/// How an agent repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoopPattern {
    /// The same calls with the same results, turn after turn.
    SameCalls,
    /// Two or three turns that alternate, with the same calls and results each time.
    Alternation,
    /// Edits of a file that undo each other.
    UndoneEdits,
    /// Turns in which every call failed.
    Errors,
}

/// Where data was redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RedactedPlace {
    /// In text from people.
    Input,
    /// In an answer of the model.
    Output,
    /// In the result of a tool.
    ToolResult,
    /// In messages stored earlier.
    History,
}

/// A limit of calls that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReachedLimit {
    /// What is counted.
    pub scope: LimitScope,
    /// Number of calls so far.
    pub count: u64,
    /// The limit.
    pub limit: u64,
}

impl ReachedLimit {
    /// Creates a reached limit.
    pub fn new(scope: LimitScope, count: u64, limit: u64) -> Self {
        Self { scope, count, limit }
    }
}

/// What a limit of calls counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// Calls of all runs of the thread.
    Thread,
    /// Calls of one run.
    Run,
}

/// The result of loading a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum LoadedFile {
    /// The file was read.
    Read {
        /// Its path.
        path: String,
        /// Number of characters shown.
        chars: usize,
        /// Whether the file is longer than that.
        cut: bool,
    },
    /// The file could not be read.
    Unreadable {
        /// Its path.
        path: String,
        /// The reason.
        problem: String,
    },
    /// The file no longer exists.
    Missing {
        /// Its path.
        path: String,
        /// Always `true`.
        missing: bool,
    },
}

impl LoadedFile {
    /// Returns the file's path.
    pub fn path(&self) -> &str {
        match self {
            Self::Read { path, .. } | Self::Unreadable { path, .. } | Self::Missing { path, .. } => path,
        }
    }
}
