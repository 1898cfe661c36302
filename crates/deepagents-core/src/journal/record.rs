//! What a log holds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::env::Timestamp;
use crate::ids::{CallId, LogPosition, ThreadId};
use crate::machine::{BudgetUsage, Machine};
use crate::message::ToolMessage;
use crate::state::{ChannelError, Inheritance, Schema, Update};
use crate::status::FinishReason;

/// One entry of a thread's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// A run began.
    RunStarted {
        /// The run.
        run: String,
        /// When, RFC 3339.
        at: String,
        /// The thread that it began in, which the thread of a copy of this record is not; none below another agent, and
        /// in records of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadInstance>,
    },
    /// A run goes on with what the last one left unfinished.
    RunResumed {
        /// The run that goes on with it.
        run: String,
        /// When, RFC 3339.
        at: String,
        /// The thread that it goes on in, as in [`RunStarted`](Self::RunStarted).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadInstance>,
        /// What keys of its calls begin with from now on, in place of the id of the run, where the thread is a copy: the
        /// run goes on in the thread that it began in too, under the same id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<String>,
    },
    /// The state changed.
    Update {
        /// How.
        update: RecordUpdate,
    },
    /// The state was changed by the application, not by a run.
    StateUpdated {
        /// How.
        update: RecordUpdate,
    },
    /// A tool is about to run. Without a [`ToolFinished`](Self::ToolFinished) its outcome is unknown after a crash.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The provider's id of the call.
        #[serde(rename = "wire_id")]
        provider_call_id: String,
        /// The tool.
        name: String,
        /// Whether it may be run again if its outcome is unknown.
        repeatable: bool,
        /// The arguments that it is made with, where they are not those that the model asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Value>,
    },
    /// A call that had begun waits for a decision; it took no effect yet.
    #[serde(rename = "tool_asked")]
    ToolInterrupted {
        /// The call.
        call: CallId,
    },
    /// A tool has finished; its call is never run again.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The result the model is shown.
        message: Arc<ToolMessage>,
        /// What it changed.
        update: RecordUpdate,
    },
    /// What a call had put out that a process left where it was, as it had to end. Its outcome is as unknown as without
    /// this.
    ToolLeft {
        /// The call.
        call: CallId,
        /// The end of what it had put out.
        output: String,
    },
    /// Results that are in the log become part of the conversation, in this order.
    ToolsCommitted {
        /// The calls of the turn.
        calls: Vec<CallId>,
    },
    /// A step is complete; a run can go on from here.
    Step {
        /// The decisions so far.
        machine: Machine,
        /// The run, so that a history is read backwards without looking for its beginning; none below another agent,
        /// and in records of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// The thread goes on from an earlier position; what came after it stays in the log, on a branch of its own.
    #[serde(rename = "rewound")]
    Rewind {
        /// The position.
        to: LogPosition,
        /// The number of the next turn: no turn of the log has it, so that calls of two branches differ.
        turn: u32,
    },
    /// The run ended.
    RunFinished {
        /// The run.
        run: String,
        /// Why; `None` when it failed.
        stop: Option<FinishReason>,
    },
    /// An agent that another one started begins: the first of its own records.
    AgentStarted {
        /// Its path.
        path: Vec<String>,
        /// The call that runs it; none where it runs beside the other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// What tells it from others of the call.
        label: String,
        /// Its name.
        agent: String,
        /// How its state was made of the one that the other agent had when the call began.
        #[serde(default)]
        inheritance: Inheritance,
        /// Values that its state has beside.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<(String, Value)>,
    },
    /// A sub-agent that is not an [`Agent`](crate::agent::Agent) of this library has a value to go on with, in place of an
    /// earlier one with the key.
    ValueRecorded {
        /// What names it.
        key: String,
        /// The value.
        value: Value,
    },
    /// What such a sub-agent has spent since it began; of the agent of the thread what was spent between its runs, such as
    /// to compact the conversation.
    BudgetCharged {
        /// All of it; between runs what a change has cost.
        spent: BudgetUsage,
    },
    /// A record of a sub-agent, which shares the log of the agent above it.
    Child {
        /// The sub-agent.
        path: Vec<String>,
        /// What it wrote.
        entry: Box<Record>,
    },
    /// A record of a kind that this version does not know; it is passed over.
    #[serde(other)]
    Unknown,
}

/// Tells a thread from copies of it, and from one that is made anew under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInstance {
    /// Its name.
    pub id: ThreadId,
    /// When it began, where its journal says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

impl ThreadInstance {
    /// Whether the other one may be the same thread: the names are equal, and so are the times where both are known.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let times = self.created_at.zip(other.created_at);
        self.id == other.id && times.is_none_or(|(one, other)| one == other)
    }
}

/// An update in a record: live in the process that made it, JSON when read back.
#[derive(Clone, Debug)]
pub enum RecordUpdate {
    /// As the run made it.
    Live(Update),
    /// As a database gave it back: channels and their changes, in order.
    Stored(Vec<(String, Value)>),
}

impl RecordUpdate {
    /// The update, typed. Channels that the agent no longer has are left out.
    ///
    /// # Errors
    /// When a change is not of its channel's type.
    pub fn resolve(self, schema: &Schema) -> Result<Update, ChannelError> {
        Ok(self.split(schema)?.0)
    }

    /// The update, typed, and the changes of channels that the agent does not have.
    pub(super) fn split(self, schema: &Schema) -> Result<(Update, Vec<(String, Value)>), ChannelError> {
        let entries = match self {
            Self::Live(update) if update.entries().iter().all(|entry| schema.has(&entry.spec())) => {
                return Ok((update, Vec::new()));
            }
            Self::Live(update) => {
                let entries = update.entries().iter().map(|e| Ok((e.spec().name().to_owned(), e.to_json()?)));
                entries.collect::<Result<_, ChannelError>>()?
            }
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
        use serde::ser::Error;
        match self {
            Self::Stored(entries) => entries.serialize(serializer),
            Self::Live(update) => {
                let entries: Result<Vec<(&str, Value)>, ChannelError> =
                    update.entries().iter().map(|e| Ok((e.spec().name(), e.to_json()?))).collect();
                entries.map_err(S::Error::custom)?.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for RecordUpdate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::Stored)
    }
}
