//! Runs the calls of one turn, concurrently where allowed and in order where required.

mod abandon;
mod batch;
mod results;
mod unmade;

use std::sync::Arc;

use serde_json::Value;

use super::abort::{Break, Halt};
use super::driver::Driver;
use crate::context::{AbandonGuard, Context, RunControl};
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::CallId;
use crate::journal::Record;
use crate::machine::{LimitExit, Open};
use crate::message::{PendingCall, ToolCall};
use crate::middleware::{ToolNext, ToolRequest};
use crate::panics::caught;
use crate::status::FinishReason;
use crate::tool::{CallInfo, ToolContext};
use batch::{Progress, Running, Turn};

impl Driver {
    /// Runs the open calls of the last answer. Calls finish even if a sibling fails.
    pub(super) async fn tools(&mut self, turn: u32) -> Result<(), Break> {
        if self.is_gated() {
            // A run that is being ended does not wait.
            return Err(if self.is_halted() { Break::Halt(Halt(self.halted().await)) } else { Break::Wait });
        }
        self.offer_tools_once().await?;
        let mut calls = self.plan(turn)?;
        let open = std::mem::take(&mut self.open);
        self.restore_turn(&mut calls, &open);
        let mut ended = self.run_calls(&mut calls, &open).await;
        let why = match &ended {
            // A run that fails cannot wait for decisions.
            Ok(None) if calls.failed.is_some() && !calls.are_done() => Some("the run failed"),
            Ok(None) => None,
            Ok(Some(stop)) => Some(stop.reason()),
            Err(_) => Some("the run failed"),
        };
        if let Some(why) = why {
            self.shared.cancel.cancel();
            if let Err(error) = Box::pin(self.abandon(&mut calls, why)).await {
                ended = ended.and(Err(error));
            }
        }
        if matches!(ended, Ok(None)) && !calls.are_done() {
            self.open = calls.left_open();
            return Err(Break::Wait);
        }
        self.commit(&calls)?;
        self.forget_questions()?;
        if let Some(stop) = ended? {
            return Err(Break::Halt(Halt(stop)));
        }
        if let Some(error) = calls.failed {
            return Err(error.into());
        }
        let direct = !calls.calls.is_empty()
            && calls.calls.iter().all(|c| {
                c.tool.as_ref().is_some_and(|t| t.return_direct())
                    && matches!(&c.state, Progress::Finished { message, .. } if !message.is_error)
            });
        match calls.spent.filter(|_| !calls.has_structured) {
            Some(stop) if self.shared.budget.limit_exit() == LimitExit::Answer => self.machine.go_to_last_answer(stop),
            Some(stop) => self.machine.end_over_budget(stop),
            None => self.machine.tools_done(direct, calls.has_structured),
        }
        self.log_step();
        Ok(self.flush().await?)
    }

    /// Runs the calls until all have results, or returns what halted them.
    async fn run_calls(&mut self, turn: &mut Turn, open: &Open) -> Result<Option<FinishReason>> {
        self.answer_in_doubt(turn, open).await?;
        self.answer_alone(turn).await?;
        let mut leaving = self.shared.events.control().map(RunControl::abandon_guard);
        loop {
            self.start_ready(turn).await?;
            let joined = tokio::select! {
                biased;
                stop = self.halted() => return Ok(Some(stop)),
                joined = turn.running.join_next_with_id() => joined,
                () = AbandonGuard::abandoned(leaving.as_ref()) => {
                    self.keep_outputs(turn).await?;
                    leaving = None;
                    continue;
                }
            };
            let Some(joined) = joined else { return Ok(None) };
            let mut taken = self.joined(turn, joined);
            // Results of calls that have ended by now are written together.
            while taken.is_ok()
                && let Some(joined) = turn.running.try_join_next_with_id()
            {
                taken = self.joined(turn, joined);
            }
            // The last results are appended together with the step that follows.
            if taken.is_err() || !turn.are_done() {
                self.flush().await.and(taken)?;
            }
        }
    }

    /// Starts every call that does not have to wait.
    async fn start_ready(&mut self, turn: &mut Turn) -> Result<()> {
        // Calls that have not started are left to the run that resumes this one.
        if self.is_suspended() {
            return Ok(());
        }
        let ready = self.affordable(turn).await?;
        if ready.is_empty() {
            return Ok(());
        }
        for &at in &ready {
            let Some(planned) = turn.calls.get(at) else { continue };
            self.log.push(|| Record::ToolStarted {
                call: planned.id.clone(),
                provider_call_id: planned.call.provider_call_id().to_owned(),
                name: planned.call.name().to_owned(),
                repeatable: planned.repeatable,
                args: planned.changed.as_ref().map(|(_, args)| args.clone()),
            });
            self.queue_started(turn, at);
        }
        // The log must contain a call before it can take effect.
        self.flush().await?;
        for at in ready {
            let Some(planned) = turn.calls.get_mut(at) else { continue };
            let left = self.take_children(&planned.id);
            let PendingCall::Valid(call) = &planned.call else { continue };
            let info = Arc::new(CallInfo::new(planned.id.clone(), call.clone(), left));
            let cx = Context::at(&self.shared, &self.state, planned.id.turn);
            let request =
                ToolRequest::new(call.clone(), planned.tool.clone(), ToolContext::with_call(cx, info.clone()));
            let next = ToolNext::around(self.shared.agent.stack.clone());
            let task = turn.running.spawn(match &self.shared.observer {
                Some(observer) => observer.clone().tool(request, next),
                None => next.run(request),
            });
            turn.by_task.insert(task.id(), Running { at, handle: task, info });
            planned.state = Progress::Running;
        }
        Ok(())
    }

    fn queue_started(&mut self, turn: &Turn, at: usize) {
        let Some(planned) = turn.calls.get(at) else { return };
        // Report the call that is made, not the one that the model asked for.
        self.queue_event(|| {
            let (name, args) = match (&planned.changed, &planned.call) {
                (Some(changed), _) => changed.clone(),
                (None, PendingCall::Valid(call)) => (call.name.clone(), call.args.clone()),
                (None, PendingCall::Invalid(call)) => (call.name.clone(), Value::String(call.raw.clone())),
            };
            let id = planned.call.provider_call_id().to_owned();
            EventKind::ToolStarted { call: planned.id.clone(), id, name, args }
        });
    }

    /// Returns the tool name and arguments that a person, or otherwise middlewares, put in place of a call.
    ///
    /// # Errors
    /// Returns an error if a middleware panics.
    fn put_in_place(&self, id: &CallId, call: &PendingCall) -> Result<Option<(String, Value)>> {
        if let Some(edited) = self.edited(id) {
            return Ok(Some((edited.name.clone(), edited.args.clone())));
        }
        let PendingCall::Valid(call) = call else { return Ok(None) };
        let cx = Context::at(&self.shared, &self.state, id.turn);
        let mut changed: Option<ToolCall> = None;
        for middleware in self.shared.agent.stack.iter() {
            let args = caught(|| middleware.planned_args(id, changed.as_ref().unwrap_or(call), &cx))
                .map_err(|panic| Error::panicked(&panic).in_hook(middleware.name(), "planned_args"))?;
            changed = args.map(|args| ToolCall { args, ..call.clone() }).or(changed);
        }
        let changed = changed.filter(|changed| changed.args != call.args);
        Ok(changed.map(|changed| (changed.name, changed.args)))
    }
}
