//! Identifiers of threads, records and calls.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// Identifies a thread.
pub type ThreadId = String;

/// A position in a log: the number of records appended before it, including those pruned since.
pub type LogPosition = u64;

/// The id of a run. It stays the same when another process resumes the run.
#[derive(Clone, Debug)]
pub(crate) struct RunId(Arc<RunIdInner>);

#[derive(Debug)]
struct RunIdInner {
    /// The id of this process's part of the run.
    own: Arc<str>,
    /// The id of the resumed run, set once the thread has been read, with the number of times a process has resumed it.
    resumed: OnceLock<(Arc<str>, u32)>,
    /// The prefix of the keys of its calls, if it is not the id.
    keys: OnceLock<Arc<str>>,
}

impl RunId {
    pub(crate) fn new(own: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(RunIdInner { own: own.into(), resumed: OnceLock::new(), keys: OnceLock::new() }))
    }

    pub(crate) fn get(&self) -> &Arc<str> {
        self.0.resumed.get().map_or(&self.0.own, |(id, _)| id)
    }

    /// Returns the id that only this process's part of the run has.
    pub(crate) fn own(&self) -> &str {
        &self.0.own
    }

    /// Returns 0 in the process that started the run; each process that resumes it adds one.
    pub(crate) fn attempt(&self) -> u32 {
        self.0.resumed.get().map_or(0, |(_, attempt)| *attempt)
    }

    pub(crate) fn resume(&self, id: &str, attempt: u32) {
        // Cannot fail: a process reads the run's thread once.
        let _ = self.0.resumed.set((id.into(), attempt));
    }

    /// Returns the prefix of call keys: the id, unless the run was resumed in a copy of its thread.
    pub(crate) fn keys(&self) -> &Arc<str> {
        self.0.keys.get().unwrap_or_else(|| self.get())
    }

    /// Returns the prefix of call keys in a copy, if this is one.
    pub(crate) fn keys_of_copy(&self) -> Option<&str> {
        self.0.keys.get().map(|keys| &**keys)
    }

    pub(crate) fn set_keys_of_copy(&self, keys: &str) {
        // Cannot fail: a process reads the run's thread once.
        let _ = self.0.keys.set(keys.into());
    }
}

/// The harness's own identifier of a call: the agent, the turn of its thread, and the call's index in the turn.
/// Providers repeat their ids; this one is unique within a thread and stays the same when a run is resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId {
    /// Path of the agent; empty for the main agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// The turn: the number of earlier model answers in the agent's thread.
    pub turn: u32,
    /// Index of the call within the turn.
    pub index: u32,
}

impl CallId {
    /// Returns the path of a sub-agent that this call runs: the agent's path and `LABEL:TURN.INDEX`. The label is that
    /// of its [`ChildScope`](crate::agent::ChildScope); those of the tool `task` are labelled `task`.
    ///
    /// ```
    /// use deepagents_core::tool::CallId;
    /// let call = CallId { path: vec!["task:0.1".to_owned()], turn: 2, index: 0 };
    /// assert_eq!(call.child_path("task"), ["task:0.1", "task:2.0"]);
    /// ```
    #[must_use]
    pub fn child_path(&self, label: &str) -> Vec<String> {
        let own = format!("{label}:{}.{}", self.turn, self.index);
        self.path.iter().cloned().chain([own]).collect()
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.path {
            write!(f, "{part}/")?;
        }
        write!(f, "{}.{}", self.turn, self.index)
    }
}
