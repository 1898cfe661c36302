//! What happens in a run, before it is written in the form of one protocol or the other.

use std::sync::Arc;

use deepagents_core::journal::LogPosition;
use deepagents_core::message::{AssistantMessage, Block, ToolMessage};
use deepagents_core::state::State;
use deepagents_core::tool::CallId;
use serde_json::Value;

use super::checkpoint::Reached;
use super::task::{Changes, Task, TaskEnd, TaskInput};

/// Where an event is in its thread. Later events have greater ids, also those of later runs and of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    /// The position after the record that it stems from, or that was the last one when it happened.
    pub(crate) position: LogPosition,
    /// Its number there, see the constants.
    pub(crate) number: u32,
}

impl EventId {
    /// Numbers below this stem from the record; pieces of answers and what tools tell while they work follow.
    pub(crate) const LIVE: u32 = 1 << 12;
    /// What is said of the end of a run.
    pub(crate) const LAST: u32 = 1 << 18;
    /// What is said before the first record of a run.
    pub(crate) const FIRST: u32 = 1 << 19;
    /// What happens before the first record of a run and stems from none.
    pub(crate) const FIRST_LIVE: u32 = Self::FIRST + Self::LAST;
    /// One event is written as fewer than this many.
    const PARTS: u64 = 16;

    /// The number of a part of the event among all of the thread.
    pub(crate) fn sequence(self, part: usize) -> u64 {
        (self.position << 24) | (u64::from(self.number) * Self::PARTS + part as u64)
    }

    /// The position of the event with a number.
    pub(crate) fn position_of(sequence: u64) -> LogPosition {
        sequence >> 24
    }

    /// The id of a part of the event in streams of one run.
    pub(crate) fn to_text(self, part: usize) -> String {
        format!("{:08}-{}", self.position, u64::from(self.number) * Self::PARTS + part as u64)
    }

    /// Reads the id of a part of an event.
    pub(crate) fn read(text: &str) -> Option<(Self, usize)> {
        let (position, rest) = text.split_once('-')?;
        let rest: u64 = rest.parse().ok()?;
        let number = u32::try_from(rest / Self::PARTS).ok()?;
        Some((Self { position: position.parse().ok()?, number }, usize::try_from(rest % Self::PARTS).ok()?))
    }
}

/// What is known of the agent that an event is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AgentInfo {
    /// Empty for the main agent.
    pub(crate) path: Vec<String>,
    pub(crate) name: Option<String>,
    /// `provider:model`, once it was asked.
    pub(crate) model: String,
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

/// What happened. States are versions that share what they have in common, so an event costs little until it is written.
#[derive(Debug)]
pub(crate) enum Kind {
    RunStarted,
    RunEnded(RunEnd),
    /// A sub-agent began, or goes on.
    AgentStarted {
        /// The client's id of the call that began it.
        call: Option<String>,
    },
    AgentEnded(RunEnd),
    /// The state of an agent, and the pauses where its thread waits.
    Values {
        state: State,
        interrupts: Vec<Value>,
    },
    /// A node of the graph has changed the state.
    Updated {
        node: &'static str,
        changes: Arc<Changes>,
    },
    /// The run pauses here.
    Interrupted {
        interrupts: Vec<Value>,
    },
    /// A pause asks for an answer.
    InputRequested {
        id: String,
        value: Value,
    },
    MessageStarted {
        id: String,
    },
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
    MessageFinished {
        message: Arc<AssistantMessage>,
    },
    /// What was streamed of the answer does not count; it is given again.
    MessageVoided {
        reason: String,
    },
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
    Checkpoint(Reached),
    Custom {
        name: String,
        data: Value,
    },
    /// The run failed, or the stream of it.
    Failed {
        kind: String,
        message: String,
    },
}

/// How a run or a sub-agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Completed,
    /// It waits for an answer, or was ended from outside.
    Interrupted,
    Failed(String),
}

/// A block of an answer that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenBlock {
    Text,
    Reasoning,
    Call { id: Option<String>, name: Option<String> },
}

/// More of a block.
#[derive(Clone, Debug)]
pub(crate) enum Delta {
    Text(String),
    Reasoning(String),
    /// Arguments of a call, as JSON in pieces.
    Args(String),
}

/// Which run the events are of.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunIdentity {
    pub(crate) thread: String,
    pub(crate) run: String,
    pub(crate) assistant: String,
    pub(crate) graph: String,
}

impl RunIdentity {
    /// How clients know the agents on the way to one.
    pub(crate) fn namespace(&self, path: &[String]) -> Vec<String> {
        (1..=path.len()).map(|depth| format!("tools:{}", self.task_of(path.iter().take(depth)))).collect()
    }

    /// The id of the task that runs the agent at a path, or would.
    pub(super) fn task_of<'a>(&'a self, path: impl Iterator<Item = &'a String>) -> String {
        let words: Vec<&str> = std::iter::once(&self.thread).chain(path).map(String::as_str).collect();
        crate::ids::derived(&words).to_string()
    }
}
