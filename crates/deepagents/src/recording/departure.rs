//! Where a replay leaves the recording.

use std::fmt;

use deepagents_core::tool::CallId;
use deepagents_models::record::Difference;

/// The first place where a replay is not as it was recorded. `path` is that of the agent, empty for the main one; `turn`
/// counts its answers, as in events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departure {
    /// A model is asked something else.
    Request {
        /// The agent.
        path: Vec<String>,
        /// Its turn.
        turn: u32,
        /// Where the request differs.
        difference: Box<Difference>,
    },
    /// A model is asked once more than it was.
    NotAsked {
        /// The agent.
        path: Vec<String>,
        /// Its turn.
        turn: u32,
    },
    /// A model is not asked what it was.
    NoLongerAsked {
        /// The agent.
        path: Vec<String>,
        /// Its turn.
        turn: u32,
    },
    /// A call is made that was not.
    NotCalled {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
    },
    /// A recorded result does not fit this agent.
    Result {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// Why.
        reason: String,
    },
    /// Something else happens.
    Event {
        /// The agent.
        path: Vec<String>,
        /// Counts the compared events of the agent from 0.
        at: usize,
        /// What was recorded, as in `tool_finished`.
        kind: String,
        /// Where the event differs.
        difference: Box<Difference>,
    },
    /// Something happens after all that was recorded.
    ExtraEvent {
        /// The agent.
        path: Vec<String>,
        /// What happens, as in `tool_finished`.
        kind: String,
    },
    /// Something does not happen.
    MissingEvent {
        /// The agent.
        path: Vec<String>,
        /// Counts the compared events of the agent from 0.
        at: usize,
        /// What was recorded, as in `tool_finished`.
        kind: String,
    },
    /// What the run was given does not fit this agent.
    Input {
        /// Why.
        reason: String,
    },
}

/// An agent by its path.
struct Agent<'a>(&'a [String]);

impl fmt::Display for Agent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("main") } else { f.write_str(&self.0.join("/")) }
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { path, turn, difference } => {
                write!(f, "turn {turn} of {}: the request differs at {difference}", Agent(path))
            }
            Self::NotAsked { path, turn } => {
                write!(f, "turn {turn} of {}: the model is asked more often than it was", Agent(path))
            }
            Self::NoLongerAsked { path, turn } => {
                write!(f, "turn {turn} of {}: the model is not asked what it was", Agent(path))
            }
            Self::NotCalled { call, name } => {
                write!(f, "turn {} of {}: call {} of `{name}` was not made", call.turn, Agent(&call.path), call.index)
            }
            Self::Result { call, name, reason } => write!(
                f,
                "turn {} of {}: the recorded result of call {} of `{name}` does not fit: {reason}",
                call.turn,
                Agent(&call.path),
                call.index
            ),
            Self::Event { path, at, kind, difference } => {
                write!(f, "event {at} of {} (`{kind}`) differs at {difference}", Agent(path))
            }
            Self::ExtraEvent { path, kind } => {
                write!(f, "{}: `{kind}` happens after all that was recorded", Agent(path))
            }
            Self::MissingEvent { path, at, kind } => {
                write!(f, "event {at} of {} (`{kind}`) does not happen", Agent(path))
            }
            Self::Input { reason } => write!(f, "the recorded input does not fit the agent: {reason}"),
        }
    }
}

impl std::error::Error for Departure {}
