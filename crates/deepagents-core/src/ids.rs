//! Identities of threads, records and calls.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// Names a thread of conversation.
pub type ThreadId = String;

/// A place in a log: how many records were appended before it, those that have since been pruned included.
pub type LogPosition = u64;

/// The id of a run, which stays the same when another process goes on with it.
#[derive(Clone, Debug)]
pub(crate) struct RunId(Arc<RunIdInner>);

#[derive(Debug)]
struct RunIdInner {
    /// Of this process' part of the run.
    own: Arc<str>,
    /// Of the run that it goes on with, once the thread has been read, and how often a process has gone on with it.
    resumed: OnceLock<(Arc<str>, u32)>,
    /// What keys of its calls begin with, if not with its id.
    keys: OnceLock<Arc<str>>,
}

impl RunId {
    pub(crate) fn new(own: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(RunIdInner { own: own.into(), resumed: OnceLock::new(), keys: OnceLock::new() }))
    }

    pub(crate) fn get(&self) -> &Arc<str> {
        self.0.resumed.get().map_or(&self.0.own, |(id, _)| id)
    }

    /// What no other process' part of the run has.
    pub(crate) fn own(&self) -> &str {
        &self.0.own
    }

    /// 0 for the process that began the run, counted up by each that goes on with it.
    pub(crate) fn attempt(&self) -> u32 {
        self.0.resumed.get().map_or(0, |(_, attempt)| *attempt)
    }

    pub(crate) fn resume(&self, id: &str, attempt: u32) {
        // Set once: a process reads the thread of a run once.
        let _ = self.0.resumed.set((id.into(), attempt));
    }

    /// What keys of calls begin with: the id, but where the run goes on in a copy of its thread.
    pub(crate) fn keys(&self) -> &Arc<str> {
        self.0.keys.get().unwrap_or_else(|| self.get())
    }

    /// What keys of calls begin with in a copy, if this is one.
    pub(crate) fn keys_of_copy(&self) -> Option<&str> {
        self.0.keys.get().map(|keys| &**keys)
    }

    pub(crate) fn set_keys_of_copy(&self, keys: &str) {
        // Set once: a process reads the thread of a run once.
        let _ = self.0.keys.set(keys.into());
    }
}

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
