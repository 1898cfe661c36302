//! Where a run takes place, and what it begins with there.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::context::{BudgetTracker, Emitter, Shared};
use crate::ids::{CallId, RunId, ThreadId};
use crate::interrupt::ActionRequestChange;
use crate::journal::{LogWriter, Replay};
use crate::state::State;

/// Where a run takes place.
pub(crate) struct Setting {
    pub(crate) run: RunId,
    /// Empty unless the run is below another.
    pub(crate) path: Arc<[String]>,
    pub(crate) events: Emitter,
    pub(crate) cancel: CancellationToken,
    /// What the run above spends and may spend.
    pub(crate) above: Option<Arc<BudgetTracker>>,
    /// The thread under which the run above counts this one apart.
    pub(crate) beside: Option<Arc<str>>,
    pub(crate) place: Place,
    /// The main agent, where this one is below it.
    pub(crate) root: Option<Arc<Shared>>,
}

impl Setting {
    /// A run of its own.
    pub(crate) fn main(run: RunId, events: Emitter, cancel: CancellationToken) -> Self {
        Self { run, path: Arc::from([]), events, cancel, above: None, beside: None, place: Place::Main, root: None }
    }
}

/// Where a run keeps what it does, and what it begins with.
pub(crate) enum Place {
    /// The thread of its input, if there is one.
    Main,
    /// The thread of the run above.
    Below(Box<Below>),
    /// The thread of its input, which is new and the child of another.
    Background(Box<NewThread>),
}

/// How the thread of an agent in the background begins.
pub(crate) struct NewThread {
    pub(crate) parent: ThreadId,
    /// The name by which the agent above knows the agent.
    pub(crate) agent: String,
    /// What tells it from others of that thread.
    pub(crate) label: String,
    pub(crate) path: Vec<String>,
    /// What it begins with.
    pub(crate) state: State,
}

/// What a run below another is given by the call that runs it.
pub(crate) struct Below {
    pub(crate) call: CallId,
    pub(crate) label: String,
    /// What the agent above had when the call began.
    pub(crate) base: State,
    /// What it begins with.
    pub(crate) given: State,
    /// What it goes on from.
    pub(crate) resumed: Option<Replay>,
    /// The answers that it waits for.
    pub(crate) answers: Vec<ActionRequestChange>,
    pub(crate) log: Option<LogWriter>,
}
