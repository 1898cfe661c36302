//! Identities of threads, records and calls.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names a thread of conversation.
pub type ThreadId = String;

/// A place in a log: how many records were appended before it, those that have since been pruned included.
pub type LogPosition = u64;

/// Our own identity of a call: which agent, which turn of its thread, which call of the turn. Providers repeat their
/// ids; this one is unique within a thread and stays the same over a resume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId {
    /// Path of the agent, empty for the main one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Count of model answers in the agent's thread.
    pub turn: u32,
    /// Position among the calls of the turn.
    pub index: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.path {
            write!(f, "{part}/")?;
        }
        write!(f, "{}.{}", self.turn, self.index)
    }
}
