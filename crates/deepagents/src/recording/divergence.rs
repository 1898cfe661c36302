//! Differences between a replay and its recording.

use deepagents_core::tool::CallId;
use deepagents_models::recording::Difference;

/// The first difference between a replay and its recording. `path` is the path of the agent, empty for the main one;
/// `turn` counts its answers, as in events; `at` counts the agent's compared events from 0; `kind` is the type of the
/// event, as in `tool_finished`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the same in all of them")]
pub enum Divergence {
    /// A request to a model differs.
    #[error("turn {turn} of {}: the request differs at {difference}", name(path))]
    Request { path: Vec<String>, turn: u32, difference: Box<Difference> },
    /// A model is called more often than recorded.
    #[error("turn {turn} of {}: the model is asked more often than in the recording", name(path))]
    NotAsked { path: Vec<String>, turn: u32 },
    /// A recorded model call is not made.
    #[error("turn {turn} of {}: the recorded request to the model is not made", name(path))]
    NoLongerAsked { path: Vec<String>, turn: u32 },
    /// A tool call is made that was not recorded.
    #[error("turn {} of {}: call {} of `{tool}` was not made", call.turn, name(&call.path), call.index)]
    NotCalled { call: CallId, tool: String },
    /// The recorded result of a call does not fit this agent.
    #[error(
        "turn {} of {}: the recorded result of call {} of `{tool}` does not fit: {reason}",
        call.turn, name(&call.path), call.index
    )]
    Result { call: CallId, tool: String, reason: String },
    /// An event differs.
    #[error("event {at} of {} (`{kind}`) differs at {difference}", name(path))]
    Event { path: Vec<String>, at: usize, kind: String, difference: Box<Difference> },
    /// An event occurs after all recorded ones.
    #[error("{}: `{kind}` happens after the end of the recording", name(path))]
    ExtraEvent { path: Vec<String>, kind: String },
    /// A recorded event does not occur.
    #[error("event {at} of {} (`{kind}`) does not happen", name(path))]
    MissingEvent { path: Vec<String>, at: usize, kind: String },
    /// The recorded input of the run does not fit this agent.
    #[error("the recorded input does not fit the agent: {reason}")]
    Input { reason: String },
}

/// Formats the path of an agent.
fn name(path: &[String]) -> String {
    if path.is_empty() { "main".to_owned() } else { path.join("/") }
}
