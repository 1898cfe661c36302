//! What sub-agents of other kinds do, as events of the run.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::event::EventKind;
use crate::ids::CallId;
use crate::message::Usage;
use crate::model::StopReason;

/// What a sub-agent of another kind does, for the events of the run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChildEvent {
    /// More text of its answer, an [`EventKind::TextDelta`].
    Text(String),
    /// More of its reasoning, an [`EventKind::ReasoningDelta`].
    Reasoning(String),
    /// Its answer is complete; what follows is part of the next one. An [`EventKind::ModelFinished`].
    Answered {
        /// Tokens of the answer. To be counted they are [charged](super::ChildScope::charge).
        usage: Usage,
    },
    /// One of its tools begins, an [`EventKind::ToolStarted`].
    ToolStarted {
        /// Its own id of the call.
        id: String,
        /// The tool.
        name: String,
        /// The arguments.
        args: Value,
    },
    /// One of its tools has finished, an [`EventKind::ToolFinished`].
    ToolFinished {
        /// Its own id of the call.
        id: String,
        /// The tool.
        name: String,
        /// Whether the call failed.
        error: bool,
        /// The result.
        text: String,
    },
    /// Anything else, an [`EventKind::Custom`].
    Custom {
        /// Its kind.
        name: String,
        /// Its content.
        data: Value,
    },
}

/// Where the events of the agent are.
#[derive(Default)]
pub(super) struct Progress {
    turn: u32,
    /// The number of the next call of the turn.
    next: u32,
    /// Calls without a result, by the agent's own ids.
    open: HashMap<String, CallId>,
}

impl Progress {
    /// The event as those of the run are.
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
