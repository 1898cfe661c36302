//! The calls of one turn: at once where they may, in order where they must.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::task::{Id, JoinError};

use super::abort::{Break, Halt};
use super::driver::Driver;
use super::model_step::unknown_outcome;
use super::tool_batch::{Progress, Running, Turn};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::CallId;
use crate::journal::{ChildLog, Record, RecordUpdate};
use crate::machine::{Open, committed};
use crate::message::{Block, Message, MessageOp, PendingCall, ToolMessage};
use crate::middleware::{ToolNext, ToolRequest, ToolResponse};
use crate::panics::panic_text;
use crate::state::{Concurrent, MessagesChannel, StructuredResponse, Update, too_deep};
use crate::status::FinishReason;
use crate::tool::{CallInfo, ChildState, ToolContext};

/// How long aborted tools may take to let go.
const ABORT_GRACE: Duration = Duration::from_secs(1);
/// How long sub-agents may take to end when the run is halted: their own tools are given the grace above.
const CHILD_GRACE: Duration = Duration::from_secs(3);

impl Driver {
    /// Runs the open calls of the last answer. Siblings finish whatever one of them does.
    pub(super) async fn tools(&mut self, turn: u32) -> Result<(), Break> {
        if self.is_gated() {
            // A run that is ended waits for nobody.
            return Err(if self.is_halted() { Break::Halt(Halt(self.halted().await)) } else { Break::Wait });
        }
        self.offer_tools_once().await?;
        let open = std::mem::take(&mut self.open);
        let mut calls = self.plan(turn);
        self.go_on(&mut calls, &open);
        let mut ended = self.run_calls(&mut calls, &open).await;
        let why = match &ended {
            // What waits for a decision cannot be waited for in a run that fails.
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
        match calls.spent.filter(|_| !calls.shaped) {
            Some(stop) => self.machine.spent(stop),
            None => self.machine.tools_done(direct, calls.shaped),
        }
        self.log_step();
        Ok(())
    }

    /// Runs the calls until all have results, or says what halted them.
    async fn run_calls(&mut self, turn: &mut Turn, open: &Open) -> Result<Option<FinishReason>> {
        self.answer_in_doubt(turn, open).await?;
        self.answer_alone(turn).await?;
        loop {
            self.start_ready(turn).await?;
            let joined = tokio::select! {
                biased;
                stop = self.halted() => return Ok(Some(stop)),
                joined = turn.running.join_next_with_id() => joined,
            };
            let Some(joined) = joined else { return Ok(None) };
            let mut taken = self.joined(turn, joined);
            // What else has ended by now is written with it.
            while taken.is_ok()
                && let Some(joined) = turn.running.try_join_next_with_id()
            {
                taken = self.joined(turn, joined);
            }
            self.flush().await.and(taken)?;
        }
    }

    /// Answers the calls that may have taken effect already and must not do so twice.
    async fn answer_in_doubt(&mut self, turn: &mut Turn, open: &Open) -> Result<()> {
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get(at) else { continue };
            let repeatable = open.in_doubt.get(&planned.id).is_none_or(|(_, _, repeatable)| *repeatable);
            if repeatable || !matches!(planned.state, Progress::Pending) {
                continue;
            }
            let (call, text) = (planned.id.clone(), unknown_outcome(planned.call.name()));
            self.queue_started(turn, at);
            let child_state = self.joined_below(&call, Vec::new())?;
            self.finished(turn, at, ToolResponse { child_state, ..ToolResponse::error(text).synthetic() })?;
            self.flush().await?;
        }
        Ok(())
    }

    /// Answers the calls that no tool is run for: malformed ones, and the answer in a wanted shape.
    async fn answer_alone(&mut self, turn: &mut Turn) -> Result<()> {
        let format = self.shared.agent.format.clone().filter(|_| self.shape_by_tool);
        let is_shape = |call: &PendingCall| format.as_ref().is_some_and(|f| f.name() == call.name());
        let shapes = turn.calls.iter().filter(|c| is_shape(&c.call)).count();
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
                (PendingCall::Valid(call), Some(format)) if is_shape(&planned.call) => {
                    let checked = if shapes > 1 {
                        Err(format!("call {} once, not {shapes} times", format.name()))
                    } else {
                        format.read(&call.args)
                    };
                    match checked {
                        Ok(answer) => {
                            turn.shaped = true;
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
            && let Err(error) = self.shape_refused(problem)
        {
            turn.failed.get_or_insert(error);
        }
        Ok(())
    }

    /// The calls that wait for nothing and may be made. Those that may not, because the budget is spent, are answered. One
    /// that has begun in an earlier process is made again whatever is left: nobody could say that it was not made.
    async fn affordable(&mut self, turn: &mut Turn) -> Result<BTreeSet<usize>> {
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
            // An answer may be what another call waits for.
            if refused.is_empty() {
                return Ok(ready);
            }
            for (at, stop) in refused {
                let Some(planned) = turn.calls.get(at) else { continue };
                let (call, name) = (planned.id.clone(), planned.call.name().to_owned());
                turn.spent = Some(stop.clone());
                self.queue_started(turn, at);
                // What sub-agents of it had changed in an earlier process is kept.
                let child_state = self.joined_below(&call, Vec::new())?;
                let text = format!("The call of {name} was not made: {}.", stop.reason());
                self.finished(turn, at, ToolResponse { child_state, ..ToolResponse::error(text).synthetic() })?;
                self.flush().await?;
            }
        }
    }

    /// Starts every call that waits for nothing.
    async fn start_ready(&mut self, turn: &mut Turn) -> Result<()> {
        // What has not begun is left to whoever goes on.
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
            });
            self.queue_started(turn, at);
        }
        // The log must know of a call before the call can take effect.
        self.flush().await?;
        for at in ready {
            let Some(planned) = turn.calls.get_mut(at) else { continue };
            let left = self.take_children(&planned.id);
            let PendingCall::Valid(call) = &planned.call else { continue };
            let info = CallInfo {
                id: planned.id.clone(),
                provider_call_id: call.id.clone(),
                name: call.name.clone(),
                args: call.args.clone(),
                asked: AtomicU32::new(0),
                children: AtomicU32::new(0),
                left: Mutex::new(left),
            };
            let info = Arc::new(info);
            let cx = Context::at(&self.shared, &self.state, planned.id.turn);
            let request =
                ToolRequest::new(call.clone(), planned.tool.clone(), ToolContext::with_call(cx, info.clone()));
            let next = ToolNext::around(self.shared.agent.stack.clone());
            let task = turn.running.spawn(match &self.shared.observer {
                Some(tap) => tap.0.clone().tool(request, next),
                None => next.run(request),
            });
            turn.by_task.insert(task.id(), Running { at, handle: task, info });
            planned.state = Progress::Running;
        }
        Ok(())
    }

    /// Takes in a call that has ended. Its result is durable once the log is flushed.
    fn joined(&mut self, turn: &mut Turn, joined: Result<(Id, Result<ToolResponse>), JoinError>) -> Result<()> {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(Running { at, info, .. }) = turn.by_task.remove(&id) else { return Ok(()) };
        let response = match joined {
            Ok((_, Ok(response))) => response,
            Ok((_, Err(Error::Interrupted(pause)))) => {
                let Some(planned) = turn.calls.get_mut(at) else { return Ok(()) };
                planned.state = Progress::Interrupted;
                self.shared.budget.take_back_tool_call();
                let call = planned.id.clone();
                turn.untaken.extend(info.take_left(None));
                self.record_interrupt(&call, *pause)?;
                self.log.push(|| Record::ToolInterrupted { call });
                return Ok(());
            }
            Ok((_, Err(Error::ToolCall { text, .. }))) => ToolResponse::error(text),
            Ok((_, Err(error))) => {
                let response = ToolResponse::error(format!("Error: {error}"));
                turn.failed.get_or_insert(error);
                response
            }
            Err(error) => ToolResponse::error(format!("Error: the tool crashed: {}", crash(error))),
        };
        // A call that ends without its sub-agents keeps what they had changed.
        self.join_children(info.take_left(None))?;
        self.finished(turn, at, response)
    }

    /// Puts a result into the log, to be flushed, and makes its changes.
    fn finished(&mut self, turn: &mut Turn, at: usize, response: ToolResponse) -> Result<()> {
        let Some(planned) = turn.calls.get_mut(at) else { return Ok(()) };
        let ToolResponse { mut content, is_error, is_synthetic, update, artifact, child_state, source: _, decision } =
            response;
        let mut update = self.stamp(update);
        // Joined only now: siblings may have changed since this call began what it hands back.
        if let Some(child_state) = child_state {
            let (joined, conflicts) = self.state.join(&child_state.given, &child_state.left)?;
            update = joined.and(update);
            content.extend(conflicts.iter().map(|conflict| Block::text(format!("[not kept: {conflict}]"))));
        }
        let (messages, rest) = update.clone().split::<MessagesChannel>();
        let mut message = ToolMessage {
            id: self.shared.agent.ids.next("msg"),
            call_id: planned.call.provider_call_id().to_owned(),
            name: planned.call.name().to_owned(),
            content,
            is_error,
            is_synthetic,
            artifact,
        };
        let exclusive = rest.entries().iter().map(crate::state::UpdateEntry::spec);
        let exclusive: HashSet<&str> =
            exclusive.filter(|s| s.concurrent() == Concurrent::Refuse).map(|s| s.name()).collect();
        let mut changes = Vec::new();
        let refused = match exclusive.iter().find(|name| turn.taken.contains(**name)) {
            Some(name) => Some(format!("another call of this turn has already changed `{name}`")),
            // The text of a result comes from its tool, and so do the values beside it.
            None if message.is_too_deep() => Some(too_deep()),
            None => update.check_storable().and_then(|()| self.state.apply(&rest)).err().map(|error| error.to_string()),
        };
        let kept = match refused {
            Some(reason) => {
                let text = format!("Error: the result of {} was not kept: {reason}.", message.name);
                message = ToolMessage { id: message.id, ..ToolMessage::error(message.call_id, message.name, text) };
                None
            }
            None => {
                turn.taken.extend(rest.entries().iter().map(|e| e.spec().name()).filter(|n| exclusive.contains(n)));
                changes = self.changes(&rest);
                Some((update, messages.concat()))
            }
        };
        let (update, added) = kept.unwrap_or_default();
        let message = Arc::new(message);
        planned.state = Progress::Finished { message: message.clone(), added };
        let (call, name) = (planned.id.clone(), message.name.clone());
        for other in &mut turn.calls {
            other.waits_for.remove(&at);
        }
        if let Some(decided) = decision {
            self.record_decision(&call, decided)?;
        }
        let events = (call.clone(), message.clone());
        self.log.push(|| Record::ToolFinished { call, message, update: RecordUpdate::Live(update) });
        self.queue_events(changes);
        self.queue_event(|| EventKind::ToolFinished {
            call: events.0,
            id: events.1.call_id.clone(),
            name,
            error: events.1.is_error,
            text: Message::Tool((*events.1).clone()).text(),
        });
        Ok(())
    }

    /// Puts the results into the conversation, in the order of the calls.
    fn commit(&mut self, turn: &Turn) -> Result<()> {
        let mut ids = Vec::new();
        let mut results: BTreeMap<&CallId, (Arc<ToolMessage>, Vec<MessageOp>)> = BTreeMap::new();
        for planned in &turn.calls {
            if let Progress::Finished { message, added } = &planned.state {
                ids.push(planned.id.clone());
                results.insert(&planned.id, (message.clone(), added.clone()));
            }
        }
        self.state.apply(&committed(results.into_values()))?;
        self.log.push(|| Record::ToolsCommitted { calls: ids });
        Ok(())
    }

    /// Aborts what runs, keeps what has finished and answers the rest, so that results and what tools add beside them
    /// come in the order in which a complete turn has them.
    async fn abandon(&mut self, turn: &mut Turn, why: &str) -> Result<()> {
        // Sub-agents end by themselves, so that what they have done is kept and told.
        let mut above: HashSet<usize> = HashSet::new();
        for call in turn.by_task.values() {
            if call.info.children.load(Ordering::Relaxed) > 0 {
                above.insert(call.at);
            } else {
                call.handle.abort();
            }
        }
        let mut kept =
            self.settle(turn, CHILD_GRACE, |turn| turn.by_task.values().any(|c| above.contains(&c.at))).await;
        turn.running.abort_all();
        kept = kept.and(self.settle(turn, ABORT_GRACE, |turn| !turn.by_task.is_empty()).await);
        turn.running.detach_all();
        let mut aborted: HashSet<CallId> = HashSet::new();
        aborted
            .extend(above.iter().filter_map(|at| turn.calls.get(*at)).filter(|c| c.is_running()).map(|c| c.id.clone()));
        let mut logged = if aborted.is_empty() { Vec::new() } else { self.logged_children(&aborted).await? };
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get(at) else { continue };
            match planned.state {
                Progress::Finished { .. } => continue,
                Progress::Pending => self.queue_started(turn, at),
                Progress::Running | Progress::Interrupted => {}
            }
            let text = match planned.state {
                Progress::Pending if planned.begun => unknown_outcome(planned.call.name()),
                _ => format!("The call of {} was not completed: {why}.", planned.call.name()),
            };
            // What a sub-agent had changed before it began to wait is kept.
            let call = planned.id.clone();
            let running = turn.by_task.values().find(|task| task.at == at);
            let mut untaken = running.map(|task| task.info.take_left(None)).unwrap_or_default();
            untaken.extend(turn.untaken.extract_if(.., |child| child.call == call));
            if aborted.contains(&call) {
                // It has what was left before as well.
                untaken = logged.extract_if(.., |child| child.call == call).collect();
            }
            let child_state = self.joined_below(&call, untaken)?;
            let response = ToolResponse { child_state, ..ToolResponse::error(text).synthetic() };
            kept = kept.and(self.finished(turn, at, response));
        }
        kept.and(self.flush().await)
    }

    /// Takes in what ends within a time, as long as something is worth waiting for.
    async fn settle(&mut self, turn: &mut Turn, time: Duration, worth: impl Fn(&Turn) -> bool) -> Result<()> {
        let mut kept = Ok(());
        let mut grace = std::pin::pin!(tokio::time::sleep(time));
        while worth(turn) {
            let joined = tokio::select! {
                biased;
                joined = turn.running.join_next_with_id() => joined,
                () = &mut grace => None,
            };
            match joined {
                Some(Err(error)) if error.is_cancelled() => {
                    let aborted = turn.by_task.remove(&error.id());
                    turn.untaken.extend(aborted.into_iter().flat_map(|task| task.info.take_left(None)));
                }
                Some(joined) => {
                    kept = kept.and(self.joined(turn, joined));
                    kept = kept.and(self.flush().await);
                }
                None => break,
            }
        }
        kept
    }

    /// What the sub-agents of a call that does not end have changed, to be joined with its result.
    fn joined_below(&mut self, call: &CallId, untaken: Vec<ChildLog>) -> Result<Option<ChildState>> {
        let mut left = self.left_below(call, untaken)?;
        let last = left.pop();
        for ChildState { given, left } in left {
            let (joined, _conflicts) = self.state.join(&given, &left)?;
            self.update(joined)?;
        }
        Ok(last)
    }

    fn queue_started(&mut self, turn: &Turn, at: usize) {
        let Some(planned) = turn.calls.get(at) else { return };
        self.queue_event(|| EventKind::ToolStarted {
            call: planned.id.clone(),
            id: planned.call.provider_call_id().to_owned(),
            name: planned.call.name().to_owned(),
            args: match &planned.call {
                PendingCall::Valid(call) => call.args.clone(),
                PendingCall::Invalid(call) => Value::String(call.raw.clone()),
            },
        });
    }
}

fn crash(error: JoinError) -> String {
    if !error.is_panic() {
        return error.to_string();
    }
    panic_text(&*error.into_panic()).to_owned()
}
