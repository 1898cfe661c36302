//! The state of a run between durable events: partial answers and open calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Event, EventKind};
use crate::ids::CallId;
use crate::state::State;

/// A partial answer that a model is streaming.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PartialAnswer {
    /// The agent's path.
    pub path: Arc<[String]>,
    /// The turn: the number of earlier model answers in the agent's thread.
    pub turn: u32,
    /// The attempt within this turn, starting at 0.
    pub attempt: u32,
    /// The text so far.
    pub text: String,
    /// The reasoning so far.
    pub reasoning: String,
    /// The calls so far, in order.
    pub calls: Vec<PartialCall>,
}

/// A tool call that a model is streaming.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialCall {
    /// Index of the block in the answer.
    pub block: usize,
    /// The tool's name.
    pub name: String,
    /// The arguments so far, as JSON that may be incomplete.
    pub args: String,
}

/// A call that has started and has no result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenCall {
    /// The call.
    pub call: CallId,
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// A snapshot of a run, returned by [`RunHandle::snapshot`](crate::run::RunHandle::snapshot).
///
/// ```
/// use deepagents_core::run::RunHandle;
/// async fn describe(run: &RunHandle) -> String {
///     let now = run.snapshot().await;
///     let calls: Vec<&str> = now.open_calls.iter().map(|call| call.name.as_str()).collect();
///     let said = now.answer().map(|answer| answer.text.as_str()).unwrap_or_default();
///     format!("runs {}; says {said:?}", calls.join(", "))
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunSnapshot {
    /// The state of the main agent as of its last step.
    pub state: State,
    /// The calls that have started and have no result, including those of sub-agents.
    pub open_calls: Vec<OpenCall>,
    /// The partial answers, by agent.
    pub answers: Vec<PartialAnswer>,
    /// The sequence number of the last event that it covers.
    pub seq: u64,
}

impl RunSnapshot {
    /// Returns the partial answer of the main agent's model, if there is one.
    pub fn answer(&self) -> Option<&PartialAnswer> {
        self.answers.iter().rfind(|answer| answer.path.is_empty())
    }
}

/// Tracks the events of a run.
#[derive(Debug, Default)]
pub(super) struct LiveState {
    /// The state of the main agent as of its last step; `None` before the run has started.
    pub(super) state: Option<State>,
    answers: BTreeMap<(Arc<[String]>, u32, u32), PartialAnswer>,
    open: BTreeMap<CallId, OpenCall>,
}

impl LiveState {
    pub(super) fn follow(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ModelStarted { turn, attempt, .. } => {
                self.answer(event, *turn, *attempt);
            }
            EventKind::TextDelta { turn, attempt, text } => self.answer(event, *turn, *attempt).text.push_str(text),
            EventKind::ReasoningDelta { turn, attempt, text } => {
                self.answer(event, *turn, *attempt).reasoning.push_str(text);
            }
            EventKind::ToolCallDelta { turn, attempt, block, name, args, .. } => {
                let calls = &mut self.answer(event, *turn, *attempt).calls;
                match calls.iter_mut().find(|call| call.block == *block) {
                    Some(call) => call.args.push_str(args),
                    None => {
                        let name = name.clone().unwrap_or_default();
                        calls.push(PartialCall { block: *block, name, args: args.clone() });
                    }
                }
            }
            EventKind::AttemptDiscarded { turn, attempt, .. } => {
                self.answers.remove(&(event.path.clone(), *turn, *attempt));
            }
            EventKind::ModelFinished { .. } | EventKind::AgentFinished { .. } | EventKind::AgentFailed { .. } => {
                self.answers.retain(|(path, ..), _| *path != event.path);
            }
            EventKind::ToolStarted { call, id, name, args } => {
                let open = OpenCall { call: call.clone(), id: id.clone(), name: name.clone(), args: args.clone() };
                self.open.insert(call.clone(), open);
            }
            EventKind::ToolFinished { call, .. } => {
                self.open.remove(call);
            }
            _ => {}
        }
    }

    /// Returns the text of an agent's partial answer.
    pub(super) fn partial_text(&self, path: &[String]) -> Option<String> {
        self.answers.values().rfind(|answer| *answer.path == *path).map(|answer| answer.text.clone())
    }

    fn answer(&mut self, event: &Event, turn: u32, attempt: u32) -> &mut PartialAnswer {
        let new = || PartialAnswer { path: event.path.clone(), turn, attempt, ..PartialAnswer::default() };
        self.answers.entry((event.path.clone(), turn, attempt)).or_insert_with(new)
    }

    pub(super) fn snapshot(&self, seq: u64) -> RunSnapshot {
        RunSnapshot {
            state: self.state.clone().unwrap_or_default(),
            open_calls: self.open.values().cloned().collect(),
            answers: self.answers.values().cloned().collect(),
            seq,
        }
    }
}
