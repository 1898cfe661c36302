//! Runs the hooks of a phase and advances the state machine.

use super::abort::Break;
use super::driver::Driver;
use super::model_step::is_blank;
use crate::context::Context;
use crate::error::Error;
use crate::machine::{JumpTo, NextStep, StepInput};
use crate::message;
use crate::state::StructuredResponse;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    BeforeAgent,
    BeforeModel,
    AfterModel,
    AfterAgent,
}

impl Phase {
    fn reversed(self) -> bool {
        matches!(self, Self::AfterModel | Self::AfterAgent)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::BeforeAgent => "before_agent",
            Self::BeforeModel => "before_model",
            Self::AfterModel => "after_model",
            Self::AfterAgent => "after_agent",
        }
    }
}

impl Driver {
    pub(super) async fn hooks(&mut self, phase: Phase) -> Result<(), Break> {
        if phase == Phase::AfterModel {
            self.offer_tools_once().await?;
        }
        let stack = self.shared.agent.stack.clone();
        let mut go = JumpTo::Continue;
        for at in 0..stack.len() {
            let at = if phase.reversed() { stack.len() - 1 - at } else { at };
            let Some(middleware) = stack.get(at) else { continue };
            let mut cx = Context::at(&self.shared, &self.state, self.machine.turn());
            cx.stop = (phase == Phase::AfterAgent).then(|| self.machine.stop().clone());
            let hook = async {
                match phase {
                    Phase::BeforeAgent => middleware.before_agent(&cx).await,
                    Phase::BeforeModel => middleware.before_model(&cx).await,
                    Phase::AfterModel => middleware.after_model(&cx).await,
                    Phase::AfterAgent => middleware.after_agent(&cx).await,
                }
            };
            let failed = |error: Error| error.in_hook(middleware.name(), phase.as_str());
            let step = self.guard_foreign(hook).await.map_err(Break::Halt)?.map_err(failed)?;
            let update = if phase == Phase::AfterModel {
                self.fit_after_answer(step.update, step.go).map_err(failed)?
            } else {
                step.update
            };
            let ends = matches!(step.go, JumpTo::End | JumpTo::EndBecause(_));
            let closing_answer = ends.then(|| self.closing_answer(&update)).flatten();
            self.update(update).map_err(failed)?;
            if let Some(closing_answer) = closing_answer {
                self.queue_event(|| closing_answer);
            }
            if step.go != JumpTo::Continue {
                go = step.go;
                break;
            }
        }
        if phase == Phase::AfterModel {
            self.after_answer(go)?;
            self.forget_answered()?;
        }
        let facts = self.facts(phase, go);
        self.machine.hooks_done(go, &facts)?;
        if phase == Phase::BeforeModel {
            return Ok(());
        }
        self.log_step();
        match self.machine.next() {
            // The last step is appended together with the end of the run. Otherwise a resumed run would find nothing
            // left to do, and what the hooks do in this process would be missing in the next.
            NextStep::Finish(_) => Ok(()),
            // An answer is appended together with the start of its calls, as nothing is awaited in between. With an
            // observer it is appended first, because the observer may stop the run there.
            NextStep::Tools { .. } if self.shared.observer.is_none() => Ok(()),
            _ => Ok(self.flush().await?),
        }
    }

    pub(super) fn facts(&mut self, phase: Phase, go: JumpTo) -> StepInput {
        if phase != Phase::AfterModel && go != JumpTo::Tools {
            return StepInput::default();
        }
        let pending = message::pending(self.state.messages()).len();
        // Until a message is taken, it can be withdrawn. So none is taken by a run that makes no further call.
        let takes = pending == 0 && go == JumpTo::Continue && self.may_call_again();
        let steered = takes && self.poll_inbox();
        let messages = self.state.messages();
        let answer = messages.last_assistant().and_then(|at| messages.get(at));
        let answer = answer.and_then(|m| m.as_assistant());
        StepInput {
            pending,
            had_calls: answer.is_some_and(crate::message::AssistantMessage::has_calls),
            empty: answer.is_none_or(is_blank),
            stop: self.machine.answer_stop().clone(),
            structured_missing: self.shared.agent.format.is_some()
                && self.state.get::<StructuredResponse>().is_none_or(Option::is_none),
            steered,
        }
    }
}
