//! Where a replay leaves the recording.

use deepagents_core::tool::CallId;
use deepagents_models::recording::Difference;

/// The first place where a replay is not as it was recorded. `path` is that of the agent, empty for the main one; `turn`
/// counts its answers, as in events; `at` counts the compared events of the agent from 0; `kind` is that of the event, as
/// in `tool_finished`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the same in all of them")]
pub enum Divergence {
    /// A model is asked something else.
    #[error("turn {turn} of {}: the request differs at {difference}", name(path))]
    Request { path: Vec<String>, turn: u32, difference: Box<Difference> },
    /// A model is asked once more than it was.
    #[error("turn {turn} of {}: the model is asked more often than in the recording", name(path))]
    NotAsked { path: Vec<String>, turn: u32 },
    /// A model is not asked what it was.
    #[error("turn {turn} of {}: the recorded request to the model is not made", name(path))]
    NoLongerAsked { path: Vec<String>, turn: u32 },
    /// A call of a tool is made that was not.
    #[error("turn {} of {}: call {} of `{tool}` was not made", call.turn, name(&call.path), call.index)]
    NotCalled { call: CallId, tool: String },
    /// The recorded result of a call does not fit this agent.
    #[error(
        "turn {} of {}: the recorded result of call {} of `{tool}` does not fit: {reason}",
        call.turn, name(&call.path), call.index
    )]
    Result { call: CallId, tool: String, reason: String },
    /// Something else happens.
    #[error("event {at} of {} (`{kind}`) differs at {difference}", name(path))]
    Event { path: Vec<String>, at: usize, kind: String, difference: Box<Difference> },
    /// Something happens after all that was recorded.
    #[error("{}: `{kind}` happens after the end of the recording", name(path))]
    ExtraEvent { path: Vec<String>, kind: String },
    /// Something does not happen.
    #[error("event {at} of {} (`{kind}`) does not happen", name(path))]
    MissingEvent { path: Vec<String>, at: usize, kind: String },
    /// What the run was given does not fit this agent.
    #[error("the recorded input does not fit the agent: {reason}")]
    Input { reason: String },
}

/// An agent by its path.
fn name(path: &[String]) -> String {
    if path.is_empty() { "main".to_owned() } else { path.join("/") }
}
