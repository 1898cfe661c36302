//! Calls answered without running a tool: calls in doubt, malformed calls, structured answers, and calls beyond the
//! budget.

use std::collections::BTreeSet;

use super::batch::{Planned, Progress, Turn};
use crate::error::Result;
use crate::machine::Open;
use crate::message::PendingCall;
use crate::middleware::ToolResponse;
use crate::run::driver::Driver;
use crate::run::left_calls::{unknown_outcome, with_output};
use crate::state::{StructuredResponse, Update};

impl Driver {
    /// Answers the calls that may already have taken effect and must not do so twice.
    pub(super) async fn answer_in_doubt(&mut self, turn: &mut Turn, open: &Open) -> Result<()> {
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get(at) else { continue };
            let repeatable = open.in_doubt.get(&planned.id).is_none_or(|(_, _, repeatable)| *repeatable);
            if repeatable || !matches!(planned.state, Progress::Pending) {
                continue;
            }
            let output = open.outputs.get(&planned.id).map(String::as_str);
            let text = with_output(unknown_outcome(planned.call.name()), output);
            self.answer_unmade(turn, at, text).await?;
        }
        Ok(())
    }

    /// Answers a call that is not made, and keeps what its sub-agents had changed in an earlier process.
    async fn answer_unmade(&mut self, turn: &mut Turn, at: usize, text: String) -> Result<()> {
        let Some(call) = turn.calls.get(at).map(|planned| planned.id.clone()) else { return Ok(()) };
        self.queue_started(turn, at);
        let child_state = self.joined_below(&call, Vec::new())?;
        self.finished(turn, at, ToolResponse { child_state, ..ToolResponse::error(text).synthetic() })?;
        self.flush().await
    }

    /// Answers the calls that need no tool: malformed ones, and the structured answer.
    pub(super) async fn answer_alone(&mut self, turn: &mut Turn) -> Result<()> {
        let format = self.shared.agent.format.clone();
        let by_tool = self.structured_by_tool;
        let is_answer = |planned: &Planned| format.as_ref().is_some_and(|format| planned.is_answer(format, by_tool));
        let answer_calls = turn.calls.iter().filter(|planned| is_answer(planned)).count();
        let mut wrong = None;
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get(at) else { continue };
            if !matches!(planned.state, Progress::Pending) {
                continue;
            }
            let response = match (&planned.call, &format) {
                (PendingCall::Invalid(call), _) => ToolResponse::error(format!(
                    "Error: the arguments of {} could not be read: {}. Nothing was done; make the call again.",
                    if call.name.is_empty() { "this call" } else { &call.name },
                    call.error
                )),
                (PendingCall::Valid(call), Some(format)) if is_answer(planned) => {
                    let checked = if answer_calls > 1 {
                        Err(format!("call {} once, not {answer_calls} times", format.name()))
                    } else {
                        format.read(&call.args)
                    };
                    match checked {
                        Ok(answer) => {
                            turn.has_structured = true;
                            ToolResponse {
                                update: Update::new::<StructuredResponse>(Some(answer)),
                                ..ToolResponse::text("The answer is recorded.")
                            }
                        }
                        Err(problem) => {
                            let text = format!("Error: the answer does not fit: {problem}. Correct it and call again.");
                            wrong = Some(problem);
                            ToolResponse::error(text)
                        }
                    }
                }
                (PendingCall::Valid(_), _) => continue,
            };
            self.queue_started(turn, at);
            self.finished(turn, at, response)?;
            self.flush().await?;
        }
        if let Some(problem) = wrong
            && let Err(error) = self.refuse_structured(problem)
        {
            turn.failed.get_or_insert(error);
        }
        Ok(())
    }

    /// Returns the calls that are ready and within the budget. Ready calls that the budget refuses are answered. A call
    /// that an earlier process started is always repeated, because nobody could say that it was not made.
    pub(super) async fn affordable(&mut self, turn: &mut Turn) -> Result<BTreeSet<usize>> {
        let mut ready: BTreeSet<usize> = BTreeSet::new();
        loop {
            let mut refused = Vec::new();
            for (at, planned) in turn.calls.iter().enumerate() {
                if !matches!(planned.state, Progress::Pending) || !planned.waits_for.is_empty() || ready.contains(&at) {
                    continue;
                }
                match self.shared.budget.begin_tool_call(planned.begun) {
                    Ok(()) => {
                        ready.insert(at);
                    }
                    Err(stop) => refused.push((at, stop)),
                }
            }
            // Such an answer may unblock another call.
            if refused.is_empty() {
                return Ok(ready);
            }
            for (at, stop) in refused {
                let Some(planned) = turn.calls.get(at) else { continue };
                let text = format!("The call of {} was not made: {}.", planned.call.name(), stop.reason());
                turn.spent = Some(stop);
                self.answer_unmade(turn, at, text).await?;
            }
        }
    }
}
