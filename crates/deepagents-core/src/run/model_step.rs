//! Calls the model and adds its answer to the conversation.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::abort::{Break, halt_grace_elapsed};
use super::driver::Driver;
use super::hooks::Phase;
use super::left_calls::{answers, declined_with, not_made};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::machine::JumpTo;
use crate::message::{
    self, AssistantMessage, Block, InvalidToolCall, MAX_ARGUMENT_DEPTH, Message, MessageOp, is_deeper,
};
use crate::middleware::ModelNext;
use crate::model::{ModelOutput, ModelRequest, StopReason};
use crate::panics::lock;
use crate::state::{MessagesChannel, StructuredResponse, Update};

impl Driver {
    pub(super) async fn model(&mut self, turn: u32) -> Result<(), Break> {
        let call = {
            let (request, cx) = Box::pin(self.next_request(turn)).await?;
            let parts = &self.shared.agent;
            ModelNext::around(parts.stack.clone(), parts.model.clone(), cx).run(request)
        };
        self.machine.model_asked();
        let answered = self.guard_foreign(call).await;
        // Applies however the call ended.
        self.update(self.shared.take_queued_updates())?;
        let response = match answered {
            Ok(response) => response?,
            Err(halt) => {
                self.keep_interrupted()?;
                return Err(Break::Halt(halt));
            }
        };
        let stop = response.output.stop.clone();
        self.take_answer(turn, response.output, response.attempt)?;
        let update = self.fit_after_answer(response.update, JumpTo::Continue)?;
        self.update(update)?;
        self.machine.model_answered(stop);
        Ok(())
    }

    /// Builds the model request, once the log contains everything that goes into it.
    async fn next_request(&mut self, turn: u32) -> Result<(ModelRequest, Context), Break> {
        self.clear_structured()?;
        self.announce_last_answer()?;
        if self.log.waiting() > 0 || self.log.is_snapshot_due() {
            self.log_step();
        }
        self.flush().await?;
        let give_up = halt_grace_elapsed(&self.shared);
        self.log.snapshot_if_due(&self.shared.run, &self.state, &self.machine, give_up).await?;
        let shared = self.shared.clone();
        let parts = &shared.agent;
        shared.attempt.store(0, Ordering::Relaxed);
        lock(&shared.streamed_attempts).clear();
        shared.set_answer_id(parts.ids.next("msg"));
        self.offer_tools().await?;
        let cx = Context::at(&shared, &self.state, turn);
        let mut request = self.request();
        for middleware in parts.stack.iter() {
            let failed = |error: Error| error.in_hook(middleware.name(), "modify_request");
            let hook = async { middleware.modify_request(request, &cx).await };
            request = self.guard_foreign(hook).await.map_err(Break::Halt)?.map_err(failed)?;
        }
        self.forbid_calls(&mut request);
        Ok((request, cx))
    }

    fn request(&self) -> ModelRequest {
        let parts = &self.shared.agent;
        let mut request = ModelRequest::new(self.state.messages().clone());
        request.system.clone_from(&parts.system);
        request.tools = self.tools_on_offer().specs().to_vec();
        request.provider_tools.clone_from(&parts.provider_tools);
        request.settings.clone_from(&parts.settings);
        if let Some(format) = &parts.format {
            if self.structured_by_tool {
                format.offer_tool(&mut request);
            } else {
                request.output_schema = Some(format.schema.clone());
            }
        }
        request
    }

    /// Adds an answer to the conversation.
    fn take_answer(&mut self, turn: u32, output: ModelOutput, attempt: Option<u32>) -> Result<()> {
        let ModelOutput { mut message, usage, stop, .. } = output;
        // Providers reuse ids, and send them only after pieces of the answer have been emitted.
        message.id = match attempt {
            Some(attempt) => self.shared.answer_id_of(attempt),
            None => self.shared.answer_id(),
        };
        refuse_deep_arguments(&mut message.content);
        distinguish_calls(&mut message, turn);
        message.usage = Some(usage);
        message.name = self.shared.agent.given_name.clone().or(message.name);
        let structured = match &self.shared.agent.format {
            // Text that parses counts as the structured answer even if the model was given a tool for it.
            Some(format) if !message.has_calls() => format.parse(&message.text()).ok(),
            _ => None,
        };
        let id = message.id.clone();
        // An answer made by a middleware counts as part of the last attempt.
        let attempt = attempt.unwrap_or_else(|| self.shared.attempt.load(Ordering::Relaxed).saturating_sub(1));
        if lock(&self.shared.streamed_attempts).is_empty() {
            // Emits the text for subscribers that show pieces, because no piece of it was streamed.
            let text = message.text();
            if !text.is_empty() {
                self.shared.events.emit(&self.shared.path, None, || EventKind::TextDelta { turn, attempt, text });
            }
        }
        self.update(Update::message(Message::Assistant(message)))?;
        let declined = stop == StopReason::Refusal;
        self.queue_event(|| EventKind::ModelFinished { turn, attempt, message: id, usage, stop });
        if declined {
            // Nobody is asked about a call that is not made.
            self.answer_pending(declined_with)?;
        }
        self.refuse_calls_of_last_answer()?;
        if structured.is_some() {
            self.update(Update::new::<StructuredResponse>(structured))?;
        }
        Ok(())
    }

    /// Returns the event for an answer with which a hook ends the run, in place of one from the model.
    pub(super) fn closing_answer(&self, update: &Update) -> Option<EventKind> {
        let MessageOp::Put(message) = update.get::<MessagesChannel>().flatten().last()? else { return None };
        let text = message.as_assistant()?.text();
        // Uses an attempt of its own, because the model's text in this turn is another answer.
        let (turn, attempt) = (self.machine.turn(), self.shared.attempt.load(Ordering::Relaxed));
        (!text.is_empty()).then_some(EventKind::TextDelta { turn, attempt, text })
    }

    /// Clears the structured answer, which belongs to the last model answer only.
    pub(super) fn clear_structured(&mut self) -> Result<()> {
        if self.state.get::<StructuredResponse>().is_some_and(Option::is_some) {
            self.update(Update::new::<StructuredResponse>(None))?;
        }
        Ok(())
    }

    /// Answers the open calls if a hook jumps away from them, and asks again if the structured answer is missing.
    pub(super) fn after_answer(&mut self, go: JumpTo) -> Result<()> {
        if go.leaves_calls() {
            return self.answer_pending(not_made);
        }
        let facts = self.facts(Phase::AfterModel, go);
        let asked = facts.pending == 0 && !facts.had_calls && facts.structured_missing;
        let cut = |stop: &StopReason| {
            matches!(stop, StopReason::MaxTokens | StopReason::ContextWindow | StopReason::Refusal | StopReason::Pause)
        };
        if !asked || cut(&facts.stop) || self.machine.closing().is_some() {
            return Ok(());
        }
        let Some(format) = self.shared.agent.format.clone() else { return Ok(()) };
        let text = self.state.messages().last().map(|m| m.text()).unwrap_or_default();
        let (reason, advice) = if self.structured_by_tool {
            ("it did not use the tool".to_owned(), format!("Give your answer by calling the tool `{}`.", format.name()))
        } else {
            let problem = format.parse(&text).err().unwrap_or_default();
            let advice =
                format!("Your answer does not fit `{}`: {problem}. Answer again, with the JSON alone.", format.name());
            (problem, advice)
        };
        self.refuse_structured(reason)?;
        self.update(Update::message(Message::harness(advice)))
    }

    /// Adjusts a change made right after an answer so that calls and results stay together. If the run jumps elsewhere,
    /// the open calls are answered before the messages that the change adds.
    pub(super) fn fit_after_answer(&self, update: Update, go: JumpTo) -> Result<Update> {
        let Some(at) = self.state.messages().last_assistant() else { return Ok(update) };
        let ops: Vec<MessageOp> = update.get::<MessagesChannel>().flatten().cloned().collect();
        if ops.is_empty() || !ops.iter().all(|op| matches!(op, MessageOp::Put(_))) {
            return Ok(update);
        }
        let with = |ops: Vec<MessageOp>| {
            let mut after = self.state.messages().clone();
            after.apply(ops);
            after
        };
        let after = with(ops.clone());
        let open = if go.leaves_calls() { message::pending_at(&after, at) } else { Vec::new() };
        if open.is_empty() {
            message::check_results(&after, at)?;
            return Ok(update);
        }
        let answers = answers(&open, not_made);
        message::check_results(&with([answers.clone(), ops].concat()), at)?;
        Ok(Update::new::<MessagesChannel>(answers).and(update))
    }

    /// Counts an invalid structured answer.
    pub(super) fn refuse_structured(&mut self, reason: String) -> Result<()> {
        self.structured_attempts += 1;
        match &self.shared.agent.format {
            Some(format) if self.structured_attempts > format.retries => {
                Err(Error::Structured { name: format.name().to_owned(), tries: self.structured_attempts, reason })
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn is_blank(answer: &AssistantMessage) -> bool {
    answer.text().trim().is_empty() && !answer.content.iter().any(|block| matches!(block, Block::Media(_)))
}

/// Turns calls into invalid ones if their arguments are nested too deep to be stored and read back.
fn refuse_deep_arguments(content: &mut [Block]) {
    for block in content {
        let Block::ToolCall(call) = block else { continue };
        if is_deeper(&call.args, MAX_ARGUMENT_DEPTH) {
            let error = format!("they are nested more than {MAX_ARGUMENT_DEPTH} levels deep");
            let (id, name) = (std::mem::take(&mut call.id), std::mem::take(&mut call.name));
            *block = Block::InvalidToolCall(InvalidToolCall { id, name, raw: String::new(), error, native: None });
        }
    }
}

/// Gives a new id to calls that have none or share that of an earlier call of the turn. New ids avoid those of all
/// calls.
fn distinguish_calls(message: &mut AssistantMessage, turn: u32) {
    // Nearly always, each call has an id of its own.
    let mut known = HashSet::new();
    if message.call_ids().all(|id| !id.is_empty() && known.insert(id)) {
        return;
    }
    let mut taken: HashSet<String> = message.call_ids().map(str::to_owned).collect();
    let mut seen: HashSet<String> = HashSet::new();
    for (index, block) in message.content.iter_mut().enumerate() {
        let (id, native) = match block {
            Block::ToolCall(call) => (&mut call.id, &mut call.native),
            Block::InvalidToolCall(call) => (&mut call.id, &mut call.native),
            _ => continue,
        };
        if id.is_empty() || seen.contains(id) {
            let mut fresh = format!("call_{turn}_{index}");
            while !taken.insert(fresh.clone()) {
                fresh.push('_');
            }
            *id = fresh;
            // The provider's own item contains the ambiguous id.
            *native = None;
        }
        seen.insert(id.clone());
    }
}
