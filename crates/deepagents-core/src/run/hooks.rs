//! The hooks of a phase, and what the machine is told afterwards.

use super::answer::says_nothing;
use super::driver::Driver;
use super::halt::Break;
use super::{Context, Facts, history};
use crate::error::Error;
use crate::middleware::Go;
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

    fn word(self) -> &'static str {
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
        let stack = self.shared.agent.stack.clone();
        let mut go = Go::Continue;
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
            let failed = |source| Error::Hook {
                middleware: middleware.name().to_owned(),
                hook: phase.word(),
                source: Box::new(source),
            };
            let step = self.guard_foreign(hook).await.map_err(Break::Halt)?.map_err(failed)?;
            let update = if phase == Phase::AfterModel {
                self.fit_after_answer(step.update, step.go).map_err(failed)?
            } else {
                step.update
            };
            self.update(update)?;
            if step.go != Go::Continue {
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
        if phase != Phase::BeforeModel {
            self.note_step();
            self.flush().await?;
        }
        Ok(())
    }

    pub(super) fn facts(&mut self, phase: Phase, go: Go) -> Facts {
        if phase != Phase::AfterModel && go != Go::Tools {
            return Facts::default();
        }
        let steered = self.listen();
        let messages = self.state.messages();
        let answer = messages.last_assistant().and_then(|at| messages.get(at));
        let answer = answer.and_then(|m| m.as_assistant());
        Facts {
            pending: history::pending(messages).len(),
            had_calls: answer.is_some_and(crate::message::AssistantMessage::has_calls),
            empty: answer.is_none_or(says_nothing),
            stop: self.last_stop.clone(),
            shape_missing: self.shared.agent.format.is_some()
                && self.state.get::<StructuredResponse>().is_none_or(Option::is_none),
            steered,
        }
    }
}
