//! Log records.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::env::Timestamp;
use crate::ids::{CallId, LogPosition, ThreadId};
use crate::machine::{BudgetUsage, Machine};
use crate::message::ToolMessage;
use crate::state::{ChannelError, Inheritance, Schema, Update, UpdateEntry};
use crate::status::FinishReason;

/// A record in a thread's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// A run started.
    RunStarted {
        /// The run.
        run: String,
        /// When it started, as RFC 3339.
        at: String,
        /// The thread in which the run started, which identifies copies of this record in other threads. `None` for
        /// sub-agents, and in records of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadInstance>,
    },
    /// A run resumes what the last one left unfinished.
    RunResumed {
        /// The resuming run.
        run: String,
        /// When it resumed, as RFC 3339.
        at: String,
        /// The thread in which it resumes, as in [`RunStarted`](Self::RunStarted).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadInstance>,
        /// The prefix of call keys from now on, instead of the run's id, if the thread is a copy: the run may also
        /// resume in its original thread, under the same id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<String>,
    },
    /// The state changed.
    Update {
        /// The change.
        update: RecordUpdate,
    },
    /// The application, not a run, changed the state.
    StateUpdated {
        /// The change.
        update: RecordUpdate,
        /// The run whose request contained the change, if any, so that the change is not made again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// A tool is about to run. If no [`ToolFinished`](Self::ToolFinished) follows, the outcome is unknown after a
    /// crash.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The provider's id of the call.
        #[serde(rename = "wire_id")]
        provider_call_id: String,
        /// The tool's name.
        name: String,
        /// Whether the call may be repeated if its outcome is unknown.
        repeatable: bool,
        /// The actual arguments, if they differ from those in the model's call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Value>,
    },
    /// A call that had started waits for a decision. It has had no effect yet.
    #[serde(rename = "tool_asked")]
    ToolInterrupted {
        /// The call.
        call: CallId,
    },
    /// A tool has finished; its call is never repeated.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The result the model is shown.
        message: Arc<ToolMessage>,
        /// The state changes.
        update: RecordUpdate,
    },
    /// The output so far of a call that was in progress when its process had to exit. The outcome of the call remains
    /// unknown.
    ToolLeft {
        /// The call.
        call: CallId,
        /// The tail of the output.
        output: String,
    },
    /// Results in the log become part of the conversation, in this order.
    ToolsCommitted {
        /// The calls of the turn.
        calls: Vec<CallId>,
    },
    /// A step is complete. A run can continue from here.
    Step {
        /// The state machine after the step.
        machine: Machine,
        /// The run, so that a history can be read backwards without searching for the run's start. `None` for
        /// sub-agents, and in records of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// The thread continues from an earlier position. The later records stay in the log on a branch of their own.
    #[serde(rename = "rewound")]
    Rewind {
        /// The position.
        to: LogPosition,
        /// The number of the next turn. No turn in the log has it, so calls on different branches have different ids.
        turn: u32,
    },
    /// The run ended.
    RunFinished {
        /// The run.
        run: String,
        /// The reason; `None` if the run failed.
        stop: Option<FinishReason>,
    },
    /// An agent that another agent started. The first of its own records.
    AgentStarted {
        /// Its path.
        path: Vec<String>,
        /// The call that runs it; `None` for a background agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// Distinguishes it from the call's other sub-agents.
        label: String,
        /// Its name.
        agent: String,
        /// How its state was derived from the parent agent's state when the call started.
        #[serde(default)]
        inheritance: Inheritance,
        /// Values of its state that were not derived.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<(String, Value)>,
    },
    /// A value recorded by a sub-agent that is not an [`Agent`](crate::agent::Agent) of this library. It replaces an
    /// earlier value of the key.
    ValueRecorded {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// For such a sub-agent, the total it has spent since it started. For the thread's own agent, what was spent
    /// between its runs, for example to compact the conversation.
    BudgetCharged {
        /// The total, or between runs the cost of one change.
        spent: BudgetUsage,
    },
    /// A record of a sub-agent, which shares its parent agent's log.
    Child {
        /// The sub-agent's path.
        path: Vec<String>,
        /// The record.
        entry: Box<Record>,
    },
    /// A record of a kind that this version does not know. It is skipped.
    #[serde(other)]
    Unknown,
}

impl Record {
    /// Whether the record is a change of the state for the request of a run.
    pub fn is_change_for(&self, run: &str) -> bool {
        matches!(self, Self::StateUpdated { run: Some(of), .. } if of == run)
    }
}

/// Distinguishes a thread from its copies, and from a later thread of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInstance {
    /// Its name.
    pub id: ThreadId,
    /// When it was created, if its journal records this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

impl ThreadInstance {
    /// Returns whether both may be the same thread: their names are equal, and so are the times if both are known.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let times = self.created_at.zip(other.created_at);
        self.id == other.id && times.is_none_or(|(one, other)| one == other)
    }
}

/// An update in a record: live in the process that made it, and JSON when read back.
#[derive(Clone, Debug)]
pub enum RecordUpdate {
    /// As made by the run.
    Live(Update),
    /// As read from storage: channels and their changes, in order.
    Stored(Vec<(String, Value)>),
}

impl RecordUpdate {
    /// Returns the typed update. Channels that the agent no longer has are left out.
    ///
    /// # Errors
    /// Returns an error if a change does not have its channel's type.
    pub fn resolve(self, schema: &Schema) -> Result<Update, ChannelError> {
        Ok(self.split(schema)?.0)
    }

    /// Returns the typed update, and the changes of channels that the agent does not have.
    pub(super) fn split(self, schema: &Schema) -> Result<(Update, Vec<(String, Value)>), ChannelError> {
        let entries = match self {
            Self::Live(update) if update.entries().iter().all(|entry| schema.has(&entry.spec())) => {
                return Ok((update, Vec::new()));
            }
            Self::Live(update) => update.to_json()?,
            Self::Stored(entries) => entries,
        };
        let (mut update, mut unknown) = (Update::none(), Vec::new());
        for (channel, change) in entries {
            if schema.by_name(&channel).is_some() {
                update.push_json(schema, &channel, change)?;
            } else {
                unknown.push((channel, change));
            }
        }
        Ok((update, unknown))
    }
}

impl Serialize for RecordUpdate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Stored(entries) => entries.serialize(serializer),
            Self::Live(update) => {
                let named = |entry: &UpdateEntry| entry.to_json().map(|change| (entry.spec().name(), change));
                let changes: Result<Vec<_>, _> = update.entries().iter().map(named).collect();
                changes.map_err(serde::ser::Error::custom)?.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for RecordUpdate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::Stored)
    }
}
