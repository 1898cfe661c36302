//! Run events, independent of the protocol.

use std::sync::Arc;

use deepagents_core::journal::LogPosition;
use deepagents_core::message::{AssistantMessage, Block, ToolMessage};
use deepagents_core::state::State;
use deepagents_core::tool::CallId;
use serde_json::{Map, Value};

use super::checkpoint::ReachedCheckpoint;
use super::task::{Changes, Task, TaskEnd, TaskInput};

/// The position of an event in its thread. Ids increase across runs and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    /// The position after the record that the event comes from, or after the latest record when it happened.
    pub(crate) position: LogPosition,
    /// The number of the event at that position; see the constants.
    pub(crate) number: u32,
}

impl EventId {
    /// Numbers below this are for events from records. From here on they are for live events, such as message chunks
    /// and tool progress.
    pub(crate) const LIVE: u32 = 1 << 12;
    /// First number for events at the end of a run.
    pub(crate) const LAST: u32 = 1 << 18;
    /// First number for events before the first record of a run.
    pub(crate) const FIRST: u32 = 1 << 19;
    /// First number for live events before the first record of a run.
    pub(crate) const FIRST_LIVE: u32 = Self::FIRST + Self::LAST;
    /// Upper bound on the number of parts as which an event is written.
    const MAX_PARTS: u64 = 16;

    /// Returns the sequence number of a part of the event within the thread.
    pub(crate) fn sequence(self, part: usize) -> u64 {
        (self.position << 24) | (u64::from(self.number) * Self::MAX_PARTS + part as u64)
    }

    /// Returns the log position of a sequence number.
    pub(crate) fn position_of(sequence: u64) -> LogPosition {
        sequence >> 24
    }

    /// Formats the id of a part of the event for run streams.
    pub(crate) fn to_text(self, part: usize) -> String {
        format!("{:08}-{}", self.position, u64::from(self.number) * Self::MAX_PARTS + part as u64)
    }

    /// Parses the id of a part of an event.
    pub(crate) fn read(text: &str) -> Option<(Self, usize)> {
        let (position, rest) = text.split_once('-')?;
        let rest: u64 = rest.parse().ok()?;
        let number = u32::try_from(rest / Self::MAX_PARTS).ok()?;
        Some((Self { position: position.parse().ok()?, number }, usize::try_from(rest % Self::MAX_PARTS).ok()?))
    }
}

/// The agent of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AgentInfo {
    /// Empty for the main agent.
    pub(crate) path: Vec<String>,
    pub(crate) name: Option<String>,
    /// `provider:model`, known from its first model call on.
    pub(crate) model: String,
}

impl AgentInfo {
    /// Returns the provider, by the name that LangChain gives it, and the model.
    pub(crate) fn provider_and_model(&self) -> (&str, &str) {
        let (provider, model) = self.model.split_once(':').unwrap_or(("", &self.model));
        let provider = match provider {
            "openai-chat" => "openai",
            "azure" | "azure-chat" => "azure",
            "google" => "google_genai",
            "vertex" => "google_vertexai",
            "bedrock" => "amazon_bedrock",
            other => other,
        };
        (provider, model)
    }

    /// Returns the name of a sub-agent. The main agent is not named in events.
    pub(crate) fn sub_agent_name(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| !self.path.is_empty())
    }
}

/// An event of a run.
#[derive(Debug)]
pub(crate) struct StreamEvent {
    pub(crate) id: EventId,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) agent: Arc<AgentInfo>,
    /// Steps of the agent so far.
    pub(crate) step: u64,
    pub(crate) kind: Kind,
}

/// The kinds of events. States are versions that share structure, so an event is cheap until it is serialised.
#[derive(Debug)]
pub(crate) enum Kind {
    RunStarted,
    RunEnded(RunEnd),
    /// A sub-agent started or resumed.
    AgentStarted {
        /// The client's id of the call that started it.
        call: Option<String>,
    },
    AgentEnded(RunEnd),
    /// The state of an agent and the pending interrupts.
    Values {
        state: State,
        interrupts: Vec<Value>,
    },
    /// A graph node has updated the state.
    Updated {
        node: &'static str,
        changes: Arc<Changes>,
    },
    /// The run was interrupted here.
    Interrupted(Vec<Value>),
    /// An interrupt needs a response.
    InputRequested {
        id: String,
        value: Value,
    },
    /// A message with this id started.
    MessageStarted(String),
    BlockStarted {
        message: Arc<str>,
        index: usize,
        block: OpenBlock,
    },
    BlockDelta {
        message: Arc<str>,
        index: usize,
        delta: Delta,
    },
    BlockFinished {
        index: usize,
        block: Block,
    },
    MessageFinished(Arc<AssistantMessage>),
    /// The chunks of the message so far are discarded for this reason.
    MessageVoided(String),
    ToolStarted {
        call: CallId,
        /// The client's id of the call.
        id: String,
        name: String,
        input: Value,
    },
    ToolProgress {
        id: String,
        text: String,
    },
    ToolFinished {
        call: CallId,
        message: Arc<ToolMessage>,
    },
    TaskStarted {
        task: Task,
        input: TaskInput,
    },
    TaskFinished {
        task: Task,
        end: TaskEnd,
    },
    Checkpoint(ReachedCheckpoint),
    Custom {
        name: String,
        data: Value,
    },
    /// The run or its stream failed.
    Failed {
        kind: String,
        message: String,
    },
}

/// How a run or a sub-agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Completed,
    /// It was interrupted, or ended from outside.
    Interrupted,
    Failed(String),
}

/// The start of a message block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenBlock {
    Text,
    Reasoning,
    Call { id: Option<String>, name: Option<String> },
}

/// A chunk of a message block.
#[derive(Clone, Debug)]
pub(crate) enum Delta {
    Text(String),
    Reasoning(String),
    /// A fragment of a call's arguments as JSON.
    Args(String),
}

/// The ids that a run's events carry.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunIdentity {
    pub(crate) thread: String,
    pub(crate) run: String,
    pub(crate) assistant: String,
    pub(crate) graph: String,
    /// The metadata that the client gave the run, with its plain configurable values.
    pub(crate) metadata: Map<String, Value>,
    /// The tags that the client gave the run.
    pub(crate) tags: Value,
}

impl RunIdentity {
    /// Returns the namespace under which clients know an agent.
    pub(crate) fn namespace(&self, path: &[String]) -> Vec<String> {
        (1..=path.len()).map(|depth| format!("tools:{}", self.task_of(path.iter().take(depth)))).collect()
    }

    /// Returns the id of the task that runs the agent at a path.
    pub(super) fn task_of<'a>(&'a self, path: impl Iterator<Item = &'a String>) -> String {
        let words: Vec<&str> = std::iter::once(&self.thread).chain(path).map(String::as_str).collect();
        crate::ids::derived(&words).to_string()
    }
}
