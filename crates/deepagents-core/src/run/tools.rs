//! The calls of one turn: at once where they may, in order where they must.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use serde_json::Value;
use tokio::task::{Id, JoinError, JoinSet};

use super::answer::unknown_outcome;
use super::driver::{Break, Driver, Halt, panic_text, why};
use super::history::{self, PendingCall};
use super::{Context, Stop};
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::journal::{Open, Record, RecordUpdate, committed};
use crate::message::{Block, Message, MessageOp, ToolMessage};
use crate::middleware::{ToolNext, ToolRequest, ToolResponse};
use crate::state::{Concurrent, MessagesChannel, StructuredResponse, Update};
use crate::tool::{CallId, CallInfo, DynTool, Effect, ToolContext};

/// How long aborted tools may take to let go.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// One call of the turn.
struct Planned {
    id: CallId,
    call: PendingCall,
    tool: Option<Arc<dyn DynTool>>,
    /// Whether it may be made again if its outcome is unknown.
    repeatable: bool,
    /// Earlier calls of the turn that must end first.
    waits_for: HashSet<usize>,
    state: Progress,
}

enum Progress {
    Waiting,
    Running,
    /// It waits for a decision.
    Asked,
    Finished {
        message: Arc<ToolMessage>,
        added: Vec<MessageOp>,
    },
}

/// The calls of one turn.
struct Turn {
    calls: Vec<Planned>,
    running: JoinSet<Result<ToolResponse>>,
    by_task: HashMap<Id, usize>,
    /// Channels that a call of this turn has written and no other may.
    taken: HashSet<&'static str>,
    shaped: bool,
    failed: Option<Error>,
}

impl Turn {
    /// Whether all calls have results.
    fn are_done(&self) -> bool {
        self.calls.iter().all(|c| matches!(c.state, Progress::Finished { .. }))
    }

    /// What is finished of a turn that waits for a decision.
    fn left_open(&self) -> Open {
        let finished = self.calls.iter().filter_map(|c| match &c.state {
            Progress::Finished { message, added } => Some((c.id.clone(), (message.clone(), added.clone()))),
            _ => None,
        });
        let changed = self.taken.iter().map(|name| (*name).to_owned()).collect();
        Open { finished: finished.collect(), changed, ..Open::default() }
    }
}

impl Driver {
    /// Runs the open calls of the last answer. Siblings finish whatever one of them does.
    pub(super) async fn tools(&mut self, turn: u32) -> Result<(), Break> {
        if self.is_gated() {
            return Err(Break::Wait);
        }
        let open = std::mem::take(&mut self.open);
        let mut calls = self.plan(turn);
        self.go_on(&mut calls, &open);
        let mut ended = self.run_calls(&mut calls, &open).await;
        let why = match &ended {
            // What waits for a decision cannot be waited for in a run that fails.
            Ok(None) if calls.failed.is_some() && !calls.are_done() => Some("the run failed"),
            Ok(None) => None,
            Ok(Some(stop)) => Some(why(stop)),
            Err(_) => Some("the run failed"),
        };
        if let Some(why) = why {
            self.shared.cancel.cancel();
            if let Err(error) = self.abandon(&mut calls, why).await {
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
        self.machine.tools_done(direct, calls.shaped);
        self.note_step();
        Ok(())
    }

    /// Runs the calls until all have results, or says what halted them.
    async fn run_calls(&mut self, turn: &mut Turn, open: &Open) -> Result<Option<Stop>> {
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
            self.joined(turn, joined).await?;
        }
    }

    fn plan(&self, turn: u32) -> Turn {
        let tools = &self.shared.agent.tools;
        let mut calls: Vec<Planned> = Vec::new();
        let mut writes: Vec<(usize, Vec<String>)> = Vec::new();
        for (at, open) in history::pending(self.state.messages()).into_iter().enumerate() {
            let tool = tools.get(open.call.name()).cloned();
            let mut waits_for = HashSet::new();
            let mut repeatable = false;
            let id = CallId { path: self.shared.path.to_vec(), turn, index: open.index };
            let edited = self.edited(&id);
            let made = edited.map_or(tool.as_ref(), |edited| tools.get(&edited.name));
            if let (PendingCall::Valid(call), Some(made)) = (&open.call, made) {
                let effect = effect(made, edited.map_or(&call.args, |edited| &edited.args));
                repeatable = effect == Effect::Read || made.idempotent();
                if let Effect::Write { paths } = effect {
                    waits_for.extend(writes.iter().filter(|(_, earlier)| overlap(earlier, &paths)).map(|(at, _)| *at));
                    writes.push((at, paths));
                }
            }
            let state = if self.is_asking(&id) { Progress::Asked } else { Progress::Waiting };
            calls.push(Planned { id, call: open.call, tool, repeatable, waits_for, state });
        }
        Turn {
            calls,
            running: JoinSet::new(),
            by_task: HashMap::new(),
            taken: HashSet::new(),
            shaped: false,
            failed: None,
        }
    }

    /// Takes in what a process that ended had finished of the turn.
    fn go_on(&self, turn: &mut Turn, open: &Open) {
        let schema = self.state.schema();
        let changed = open.changed.iter().filter_map(|name| schema.by_name(name));
        turn.taken.extend(changed.filter(|spec| spec.concurrent() == Concurrent::Refuse).map(|spec| spec.name()));
        let shape = self.shared.agent.format.as_ref().filter(|_| self.shape_by_tool);
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get_mut(at) else { continue };
            let Some((message, added)) = open.finished.get(&planned.id) else { continue };
            turn.shaped |= !message.is_error && shape.is_some_and(|format| format.name() == message.name);
            planned.state = Progress::Finished { message: message.clone(), added: added.clone() };
            for other in &mut turn.calls {
                other.waits_for.remove(&at);
            }
        }
    }

    /// Answers the calls that may have taken effect already and must not do so twice.
    async fn answer_in_doubt(&mut self, turn: &mut Turn, open: &Open) -> Result<()> {
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get(at) else { continue };
            let repeatable = open.in_doubt.get(&planned.id).is_none_or(|(_, _, repeatable)| *repeatable);
            if repeatable || !matches!(planned.state, Progress::Waiting) {
                continue;
            }
            let text = unknown_outcome(planned.call.name());
            self.tell_started(turn, at);
            self.finished(turn, at, ToolResponse::error(text)).await?;
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
            if !matches!(planned.state, Progress::Waiting) {
                continue;
            }
            let response = match (&planned.call, &format) {
                (PendingCall::Invalid(call), _) => ToolResponse::error(format!(
                    "Error: the arguments of {} could not be read: {}. Nothing was done; make the call again.",
                    if call.name.is_empty() { "this call" } else { &call.name },
                    call.error
                )),
                (PendingCall::Valid(call), Some(format)) if is_shape(&planned.call) => {
                    let verdict = if shapes > 1 {
                        Err(format!("call {} once, not {shapes} times", format.name()))
                    } else {
                        format.check(&call.args)
                    };
                    match verdict {
                        Ok(()) => {
                            turn.shaped = true;
                            ToolResponse {
                                update: Update::of::<StructuredResponse>(Some(call.args.clone())),
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
            self.tell_started(turn, at);
            self.finished(turn, at, response).await?;
        }
        if let Some(problem) = wrong
            && let Err(error) = self.shape_refused(problem)
        {
            turn.failed.get_or_insert(error);
        }
        Ok(())
    }

    /// Starts every call that waits for nothing.
    async fn start_ready(&mut self, turn: &mut Turn) -> Result<()> {
        let ready: Vec<usize> = turn
            .calls
            .iter()
            .enumerate()
            .filter(|(_, c)| matches!(c.state, Progress::Waiting) && c.waits_for.is_empty())
            .map(|(at, _)| at)
            .collect();
        if ready.is_empty() {
            return Ok(());
        }
        for &at in &ready {
            let Some(planned) = turn.calls.get(at) else { continue };
            self.log.push(|| Record::ToolStarted {
                call: planned.id.clone(),
                wire_id: planned.call.wire_id().to_owned(),
                name: planned.call.name().to_owned(),
                repeatable: planned.repeatable,
            });
            self.tell_started(turn, at);
        }
        // The log must know of a call before the call can take effect.
        self.flush().await?;
        for at in ready {
            let Some(planned) = turn.calls.get_mut(at) else { continue };
            let PendingCall::Valid(call) = &planned.call else { continue };
            let info = CallInfo {
                id: planned.id.clone(),
                wire_id: call.id.clone(),
                name: call.name.clone(),
                args: call.args.clone(),
                asked: AtomicU32::new(0),
            };
            let cx = Context::at(&self.shared, &self.state, planned.id.turn);
            let request = ToolRequest::new(call.clone(), planned.tool.clone(), ToolContext::new(cx, Arc::new(info)));
            let task = turn.running.spawn(ToolNext::new(self.shared.agent.stack.clone()).run(request));
            turn.by_task.insert(task.id(), at);
            planned.state = Progress::Running;
        }
        Ok(())
    }

    async fn joined(&mut self, turn: &mut Turn, joined: Result<(Id, Result<ToolResponse>), JoinError>) -> Result<()> {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(at) = turn.by_task.remove(&id) else { return Ok(()) };
        let response = match joined {
            Ok((_, Ok(response))) => response,
            Ok((_, Err(Error::Paused(pause)))) => {
                let Some(planned) = turn.calls.get_mut(at) else { return Ok(()) };
                planned.state = Progress::Asked;
                let call = planned.id.clone();
                self.ask(*pause)?;
                self.log.push(|| Record::ToolAsked { call });
                return self.flush().await;
            }
            Ok((_, Err(error))) => {
                let response = ToolResponse::error(format!("Error: {error}"));
                turn.failed.get_or_insert(error);
                response
            }
            Err(error) => ToolResponse::error(format!("Error: the tool crashed: {}", crash(error))),
        };
        self.finished(turn, at, response).await
    }

    /// Makes a result durable and its changes visible.
    async fn finished(&mut self, turn: &mut Turn, at: usize, response: ToolResponse) -> Result<()> {
        let Some(planned) = turn.calls.get_mut(at) else { return Ok(()) };
        let ToolResponse { mut content, is_error, update, artifact, handback } = response;
        let mut update = self.stamp(update);
        // Joined only now: siblings may have changed since this call began what it hands back.
        if let Some(handback) = handback {
            let (joined, conflicts) = self.state.join(&handback.given, &handback.left)?;
            update = joined.and(update);
            content.extend(conflicts.iter().map(|conflict| Block::text(format!("[not kept: {conflict}]"))));
        }
        let (messages, rest) = update.clone().split::<MessagesChannel>();
        let mut message = ToolMessage {
            id: self.shared.agent.ids.next("msg"),
            call_id: planned.call.wire_id().to_owned(),
            name: planned.call.name().to_owned(),
            content,
            is_error,
            artifact,
        };
        let mut kept = Some((update, messages.concat()));
        let exclusive = rest.entries().iter().map(crate::state::UpdateEntry::spec);
        let exclusive: HashSet<&str> =
            exclusive.filter(|s| s.concurrent() == Concurrent::Refuse).map(|s| s.name()).collect();
        let refused = match exclusive.iter().find(|name| turn.taken.contains(**name)) {
            Some(name) => Some(format!("another call of this turn has already changed `{name}`")),
            None => self.state.apply(&rest).err().map(|error| error.to_string()),
        };
        match refused {
            Some(reason) => {
                let text = format!("Error: the result of {} was not kept: {reason}.", message.name);
                message = ToolMessage { id: message.id, ..ToolMessage::error(message.call_id, message.name, text) };
                kept = None;
            }
            None => {
                turn.taken.extend(rest.entries().iter().map(|e| e.spec().name()).filter(|n| exclusive.contains(n)));
                self.tell_changes(&rest);
            }
        }
        let (update, added) = kept.unwrap_or_default();
        let message = Arc::new(message);
        planned.state = Progress::Finished { message: message.clone(), added };
        let (call, name) = (planned.id.clone(), message.name.clone());
        for other in &mut turn.calls {
            other.waits_for.remove(&at);
        }
        let told = (call.clone(), message.clone());
        self.log.push(|| Record::ToolFinished { call, message, update: RecordUpdate::Live(update) });
        self.tell(|| EventKind::ToolFinished {
            call: told.0,
            id: told.1.call_id.clone(),
            name,
            error: told.1.is_error,
            text: Message::Tool((*told.1).clone()).text(),
        });
        self.flush().await
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
        let mut kept = Ok(());
        turn.running.abort_all();
        let mut grace = std::pin::pin!(tokio::time::sleep(ABORT_GRACE));
        loop {
            let joined = tokio::select! {
                joined = turn.running.join_next_with_id() => joined,
                () = &mut grace => None,
            };
            match joined {
                Some(Err(error)) if error.is_cancelled() => {}
                Some(joined) => kept = kept.and(self.joined(turn, joined).await),
                None => break,
            }
        }
        turn.running.detach_all();
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get(at) else { continue };
            match planned.state {
                Progress::Finished { .. } => continue,
                Progress::Waiting => self.tell_started(turn, at),
                Progress::Running | Progress::Asked => {}
            }
            let text = format!("The call of {} was not completed: {why}.", planned.call.name());
            // What a sub-agent had changed before it began to wait is kept.
            let handback = self.left_by_paused(&planned.id)?;
            kept = kept.and(self.finished(turn, at, ToolResponse { handback, ..ToolResponse::error(text) }).await);
        }
        kept
    }

    fn tell_started(&mut self, turn: &Turn, at: usize) {
        let Some(planned) = turn.calls.get(at) else { return };
        self.tell(|| EventKind::ToolStarted {
            call: planned.id.clone(),
            id: planned.call.wire_id().to_owned(),
            name: planned.call.name().to_owned(),
            args: match &planned.call {
                PendingCall::Valid(call) => call.args.clone(),
                PendingCall::Invalid(call) => Value::String(call.raw.clone()),
            },
        });
    }
}

/// What a call touches, as its tool says; everything, if it cannot say.
fn effect(tool: &Arc<dyn DynTool>, args: &Value) -> Effect {
    let said = std::panic::catch_unwind(AssertUnwindSafe(|| tool.effect(args)));
    said.unwrap_or(Effect::Write { paths: Vec::new() })
}

/// Whether two writes touch the same path, or one a path below the other's. A write without paths touches all.
fn overlap(a: &[String], b: &[String]) -> bool {
    let below = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || outer.ends_with('/'))
    };
    a.is_empty() || b.is_empty() || a.iter().any(|x| b.iter().any(|y| below(x, y) || below(y, x)))
}

fn crash(error: JoinError) -> String {
    if !error.is_panic() {
        return error.to_string();
    }
    panic_text(&*error.into_panic()).to_owned()
}
