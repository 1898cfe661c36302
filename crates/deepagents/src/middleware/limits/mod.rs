//! Limits on calls, per thread and per run.
//!
//! A [`Budget`](deepagents_core::run::Budget) limits one run including its sub-agents. These limits also apply to a
//! whole thread or to a single tool, and define what happens when they are reached. The counts are stored with the
//! thread, so a resumed run continues them in any process.

mod counts;
mod model_calls;
mod tool_calls;

use deepagents_core::event::{LimitScope, ReachedLimit};

pub use model_calls::{ModelCallLimit, ModelCallLimitExceeded, ModelCallLimitExit};
pub use tool_calls::{ToolCallLimit, ToolCallLimitExceeded, ToolCallLimitExit};

/// An error for an invalid limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// No limit is set.
    #[error("nothing is limited; give a limit for the thread, for the run, or both")]
    Nothing,
    /// The limit of a run exceeds that of the thread.
    #[error("a run cannot make {run} calls on a thread that is limited to {thread}; lower the first number")]
    RunAboveThread {
        /// The limit of a run.
        run: u64,
        /// The limit of the thread.
        thread: u64,
    },
}

/// The maximum number of calls of a thread and of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    thread: Option<u64>,
    run: Option<u64>,
}

impl Limits {
    fn new(thread: Option<u64>, run: Option<u64>) -> Result<Self, LimitError> {
        if thread.is_none() && run.is_none() {
            return Err(LimitError::Nothing);
        }
        Ok(Self { thread, run })
    }

    /// Returns an error if a run cannot reach its limit.
    fn check_reachable(self) -> Result<Self, LimitError> {
        match (self.thread, self.run) {
            (Some(thread), Some(run)) if run > thread => Err(LimitError::RunAboveThread { run, thread }),
            _ => Ok(self),
        }
    }

    /// Returns the limits that these counts exceed.
    fn exceeded(&self, thread: u64, run: u64) -> Vec<ReachedLimit> {
        self.filtered(thread, run, |count, limit| count > limit)
    }

    /// Returns the limits that these counts reach or exceed.
    fn reached(&self, thread: u64, run: u64) -> Vec<ReachedLimit> {
        self.filtered(thread, run, |count, limit| count >= limit)
    }

    fn filtered(&self, thread: u64, run: u64, applies: impl Fn(u64, u64) -> bool) -> Vec<ReachedLimit> {
        let one = |scope, count: u64, limit: Option<u64>| {
            limit.filter(|limit| applies(count, *limit)).map(|limit| ReachedLimit::new(scope, count, limit))
        };
        let both = [one(LimitScope::Thread, thread, self.thread), one(LimitScope::Run, run, self.run)];
        both.into_iter().flatten().collect()
    }
}

/// Formats limits for people: `thread limit (5/5 calls), run limit (2/2 calls)`.
fn listed(limits: &[ReachedLimit]) -> String {
    let one = |reached: &ReachedLimit| {
        let scope = match reached.scope {
            LimitScope::Thread => "thread",
            LimitScope::Run => "run",
        };
        format!("{scope} limit ({}/{} calls)", reached.count, reached.limit)
    };
    limits.iter().map(one).collect::<Vec<_>>().join(", ")
}
