//! Where a run takes place, and what it starts with.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::context::{BudgetTracker, Emitter, Shared};
use crate::ids::{CallId, RunId, ThreadId};
use crate::interrupt::ActionRequestChange;
use crate::journal::{LogWriter, Replay};
use crate::state::State;

/// The environment of a run.
pub(crate) struct Setting {
    pub(crate) run: RunId,
    /// Empty unless the run is a sub-agent's.
    pub(crate) path: Arc<[String]>,
    pub(crate) events: Emitter,
    pub(crate) cancel: CancellationToken,
    /// The parent run's budget.
    pub(crate) above: Option<Arc<BudgetTracker>>,
    /// The thread under which the parent run tracks this background run separately.
    pub(crate) tracked_under: Option<Arc<str>>,
    pub(crate) place: Place,
    /// The main agent, if this run is a sub-agent's.
    pub(crate) root: Option<Arc<Shared>>,
}

impl Setting {
    /// Settings of a top-level run.
    pub(crate) fn main(run: RunId, events: Emitter, cancel: CancellationToken) -> Self {
        Self {
            run,
            path: Arc::from([]),
            events,
            cancel,
            above: None,
            tracked_under: None,
            place: Place::Main,
            root: None,
        }
    }
}

/// Where a run writes its log, and what it starts with.
pub(crate) enum Place {
    /// The thread of its input, if there is one.
    Main,
    /// The parent run's thread.
    Below(Box<Below>),
    /// The thread of its input, which is new and a child of another.
    Background(Box<NewThread>),
}

/// The initial contents of a background agent's thread.
pub(crate) struct NewThread {
    pub(crate) parent: ThreadId,
    /// The name by which the parent agent knows this agent.
    pub(crate) agent: String,
    /// Distinguishes it from the other background agents of the parent thread.
    pub(crate) label: String,
    pub(crate) path: Vec<String>,
    /// The initial state.
    pub(crate) state: State,
}

/// What a sub-agent's run receives from the call that runs it.
pub(crate) struct Below {
    pub(crate) call: CallId,
    pub(crate) label: String,
    /// The parent agent's state when the call started.
    pub(crate) base: State,
    /// The initial state.
    pub(crate) given: State,
    /// The replay to resume from, if any.
    pub(crate) resumed: Option<Replay>,
    /// Answers to its open questions.
    pub(crate) answers: Vec<ActionRequestChange>,
    pub(crate) log: Option<LogWriter>,
}
