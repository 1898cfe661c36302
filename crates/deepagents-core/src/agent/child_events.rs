//! Events of external sub-agents, as events of the run.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::event::EventKind;
use crate::ids::CallId;
use crate::message::Usage;
use crate::model::StopReason;

/// An event of an external sub-agent, to be emitted as an event of the run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChildEvent {
    /// A piece of its answer: an [`EventKind::TextDelta`].
    Text(String),
    /// A piece of its reasoning: an [`EventKind::ReasoningDelta`].
    Reasoning(String),
    /// The answer is complete; later pieces belong to the next one. An [`EventKind::ModelFinished`].
    Answered {
        /// Tokens of the answer. To count them, [charge](super::ChildScope::charge) them.
        usage: Usage,
    },
    /// A tool call starts: an [`EventKind::ToolStarted`].
    ToolStarted {
        /// The sub-agent's own id of the call.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments.
        args: Value,
    },
    /// A tool call has finished: an [`EventKind::ToolFinished`].
    ToolFinished {
        /// The sub-agent's own id of the call.
        id: String,
        /// The tool's name.
        name: String,
        /// Whether the call failed.
        error: bool,
        /// The result.
        text: String,
    },
    /// Any other event: an [`EventKind::Custom`].
    Custom {
        /// The event's name.
        name: String,
        /// The event's data.
        data: Value,
    },
}

/// Turn and call counters for numbering the sub-agent's events.
#[derive(Default)]
pub(super) struct Progress {
    turn: u32,
    /// The index of the turn's next call.
    next: u32,
    /// Calls without a result, by the sub-agent's own ids.
    open: HashMap<String, CallId>,
}

impl Progress {
    /// Converts an event of the sub-agent into one of the run.
    pub(super) fn kind(&mut self, event: ChildEvent, path: &Arc<[String]>, id: impl FnOnce() -> String) -> EventKind {
        let turn = self.turn;
        match event {
            ChildEvent::Text(text) => EventKind::TextDelta { turn, attempt: 0, text },
            ChildEvent::Reasoning(text) => EventKind::ReasoningDelta { turn, attempt: 0, text },
            ChildEvent::Answered { usage } => {
                (self.turn, self.next) = (turn.saturating_add(1), 0);
                EventKind::ModelFinished { turn, attempt: 0, message: id(), usage, stop: StopReason::End }
            }
            ChildEvent::ToolStarted { id, name, args } => {
                let call = self.call(path);
                self.open.insert(id.clone(), call.clone());
                EventKind::ToolStarted { call, id, name, args }
            }
            ChildEvent::ToolFinished { id, name, error, text } => {
                let call = self.open.remove(&id).unwrap_or_else(|| self.call(path));
                EventKind::ToolFinished { call, id, name, error, text }
            }
            ChildEvent::Custom { name, data } => EventKind::custom(name, data),
        }
    }

    fn call(&mut self, path: &Arc<[String]>) -> CallId {
        let index = self.next;
        self.next = index.saturating_add(1);
        CallId { path: path.to_vec(), turn: self.turn, index }
    }
}
