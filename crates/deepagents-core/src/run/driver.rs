//! The driver: it waits for models, tools and the journal, and does what the machine decides.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::history::{self, PendingCall};
use super::log::Log;
use super::meter::Meter;
use super::{Context, Decision, Facts, Machine, Outcome, RunError, RunInput, Shared, Stop};
use crate::agent::Agent;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::journal::{Record, RecordUpdate, fold};
use crate::message::{Block, Message, MessageOp, ToolMessage};
use crate::middleware::{Go, ModelNext};
use crate::model::{ModelOutput, ModelRequest, StopReason, ToolChoice};
use crate::state::{MessagesChannel, State, StructuredResponse, Update};

/// A run came to a halt from outside.
pub(super) struct Halt(pub(super) Stop);

/// Ends a step: a halt is no failure.
pub(super) enum Break {
    Halt(Halt),
    Fail(Error),
}

impl<E: Into<Error>> From<E> for Break {
    fn from(error: E) -> Self {
        Self::Fail(error.into())
    }
}

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) state: State,
    pub(super) machine: Machine,
    pub(super) log: Log,
    /// Told once the log has what they tell of.
    pub(super) told: Vec<EventKind>,
    inbox: Option<mpsc::UnboundedReceiver<Message>>,
    /// Read from the inbox, not yet part of the conversation.
    heard: Vec<Message>,
    deadline: Option<Instant>,
    last_stop: StopReason,
    /// Wrong answers to a wanted shape so far.
    pub(super) shape_tries: u32,
    /// Whether the shape is asked for by a tool.
    pub(super) shape_by_tool: bool,
}

impl Driver {
    pub(super) async fn run(
        agent: Agent,
        input: RunInput,
        events: Emitter,
        run: Arc<str>,
        cancel: CancellationToken,
        inbox: Option<mpsc::UnboundedReceiver<Message>>,
    ) -> Result<Outcome, Box<RunError>> {
        let parts = agent.parts.clone();
        let shared = Arc::new(Shared {
            agent: parts.clone(),
            run,
            thread: input.thread.clone(),
            path: Arc::from([]),
            events,
            cancel,
            meter: Arc::new(Meter::default()),
            extensions: input.extensions.clone(),
            attempt: std::sync::atomic::AtomicU32::new(0),
        });
        let limit = input.max_model_calls.unwrap_or(parts.max_model_calls);
        let mut driver = Self {
            state: State::new(parts.schema.clone()),
            machine: Machine::new(0, limit),
            log: Log::none(),
            told: Vec::new(),
            inbox,
            heard: Vec::new(),
            deadline: input.timeout.map(|timeout| Instant::now() + timeout),
            last_stop: StopReason::End,
            shape_tries: 0,
            shape_by_tool: parts.format.as_ref().is_some_and(|f| f.by_tool(&parts.model.profile())),
            shared,
        };
        let result = match driver.begin(input, limit).await {
            Ok(()) => driver.drive().await,
            Err(error) => Err(error),
        };
        driver.finish(result).await
    }

    /// Loads the thread, answers what an earlier process left open, and takes the input in.
    async fn begin(&mut self, input: RunInput, limit: u32) -> Result<()> {
        let parts = self.shared.agent.clone();
        let mut left_open = None;
        if let Some(thread) = &self.shared.thread {
            let journal = parts.journal()?.clone();
            let folded = fold(thread, parts.schema.clone(), journal.load(thread, None).await?)?;
            self.log = Log::new(journal, thread.clone(), folded.end);
            self.state = folded.state;
            self.machine = Machine::new(folded.machine.map_or(0, |m| m.turn()), limit);
            left_open = Some(folded.in_doubt.into_values().map(|(id, ..)| id).collect::<HashSet<String>>());
        }
        let run = self.shared.run.to_string();
        let at = parts.clock.now().to_string();
        self.log.push(|| Record::RunStarted { run, at });
        let thread = self.shared.thread.clone();
        self.tell(|| EventKind::RunStarted { thread });
        let name = parts.name.clone();
        self.tell(|| EventKind::AgentStarted { name });
        if let Some(in_doubt) = left_open {
            self.answer_pending(|call| {
                let what = if in_doubt.contains(call.wire_id()) {
                    "was running when the process ended; whether it took effect is unknown"
                } else {
                    "was never made: the process ended before it"
                };
                format!("The call of {} {what}.", call.name())
            })?;
        }
        if self.state.get::<StructuredResponse>().is_some_and(Option::is_some) {
            self.update(Update::of::<StructuredResponse>(None))?;
        }
        let ops = input.messages.into_iter().map(MessageOp::put).collect::<Vec<_>>();
        if !ops.is_empty() {
            self.update(Update::of::<MessagesChannel>(ops))?;
        }
        self.update(input.update)?;
        if self.state.messages().is_empty() {
            return Err(Error::Input("there is nothing to do: give the run a message".to_owned()));
        }
        self.flush().await
    }

    async fn drive(&mut self) -> Result<Stop> {
        loop {
            let step = match self.machine.next() {
                Decision::Finish(stop) => return Ok(stop),
                Decision::BeforeAgent => self.hooks(Phase::BeforeAgent).await,
                Decision::BeforeModel => {
                    self.hear()?;
                    self.hooks(Phase::BeforeModel).await
                }
                Decision::Model { turn } => self.model(turn).await,
                Decision::AfterModel => self.hooks(Phase::AfterModel).await,
                Decision::Tools { turn } => self.tools(turn).await,
                Decision::AfterAgent => self.hooks(Phase::AfterAgent).await,
            };
            match step {
                Ok(()) => {}
                Err(Break::Fail(error)) => return Err(error),
                Err(Break::Halt(Halt(stop))) => {
                    self.shared.cancel.cancel();
                    let why = if stop == Stop::Deadline { "the run's time was up" } else { "the run was cancelled" };
                    self.answer_pending(|call| format!("The call of {} was not completed: {why}.", call.name()))?;
                    self.machine.abort(stop);
                }
            }
        }
    }

    async fn finish(mut self, result: Result<Stop>) -> Result<Outcome, Box<RunError>> {
        let mut result = result;
        if result.is_err() {
            // Whatever failed, what stays must be a history that can be gone on with.
            let kept =
                self.answer_pending(|call| format!("The call of {} was not completed: the run failed.", call.name()));
            debug_assert!(kept.is_ok(), "appending messages cannot be refused");
        }
        let run = self.shared.run.to_string();
        let stop = result.as_ref().ok().cloned();
        let machine = self.machine.clone();
        self.log.push(|| Record::Step { machine });
        self.log.push(|| Record::RunFinished { run, stop });
        if let Err(error) = self.log.flush().await
            && result.is_ok()
        {
            result = Err(error.into());
        }
        let usage = self.shared.meter.total();
        match &result {
            Ok(stop) => {
                let (model_calls, stop) = (self.machine.calls(), stop.clone());
                self.tell(|| EventKind::AgentFinished { stop: stop.clone(), usage });
                self.tell(|| EventKind::RunFinished { stop, usage, model_calls });
            }
            Err(error) => {
                let (kind, error) = (error.kind().to_owned(), error.to_string());
                self.tell(|| EventKind::RunFailed { kind, error });
            }
        }
        self.emit_told().await;
        match result {
            Ok(stop) => Ok(Outcome {
                stop,
                state: self.state,
                usage,
                usage_by_agent: self.shared.meter.by_agent(),
                model_calls: self.machine.calls(),
                thread: self.shared.thread.clone(),
                run: self.shared.run.to_string(),
            }),
            Err(error) => Err(Box::new(RunError { error, state: self.state, usage })),
        }
    }

    /// Waits for something, unless the run is halted first.
    pub(super) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Halt> {
        tokio::select! {
            biased;
            stop = self.halted() => Err(Halt(stop)),
            value = work => Ok(value),
        }
    }

    /// Ends when the run is halted from outside.
    pub(super) async fn halted(&self) -> Stop {
        let deadline = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shared.cancel.cancelled() => Stop::Cancelled,
            () = deadline => Stop::Deadline,
        }
    }

    /// Takes what was said with `steer` into the conversation.
    fn hear(&mut self) -> Result<()> {
        self.listen();
        for message in std::mem::take(&mut self.heard) {
            let text = message.text();
            self.update(Update::message(message))?;
            self.tell(|| EventKind::Steered { text });
        }
        Ok(())
    }

    /// Reads the inbox; says whether anything waits.
    fn listen(&mut self) -> bool {
        if let Some(inbox) = &mut self.inbox {
            while let Ok(message) = inbox.try_recv() {
                self.heard.push(message);
            }
        }
        !self.heard.is_empty()
    }

    async fn hooks(&mut self, phase: Phase) -> Result<(), Break> {
        let stack = self.shared.agent.stack.clone();
        let mut go = Go::Continue;
        for at in 0..stack.len() {
            let at = if phase.reversed() { stack.len() - 1 - at } else { at };
            let Some(middleware) = stack.get(at) else { continue };
            let cx = Context::at(&self.shared, &self.state, self.machine.turn());
            let hook = match phase {
                Phase::BeforeAgent => middleware.before_agent(&cx),
                Phase::BeforeModel => middleware.before_model(&cx),
                Phase::AfterModel => middleware.after_model(&cx),
                Phase::AfterAgent => middleware.after_agent(&cx),
            };
            let failed = |source| Error::Hook {
                middleware: middleware.name().to_owned(),
                hook: phase.word(),
                source: Box::new(source),
            };
            let step = self.guard(hook).await.map_err(Break::Halt)?.map_err(failed)?;
            self.update(step.update)?;
            if step.go != Go::Continue {
                go = step.go;
                break;
            }
        }
        if phase == Phase::AfterModel {
            self.after_answer(go)?;
        }
        let facts = self.facts(phase, go);
        self.machine.hooks_done(go, &facts)?;
        if phase != Phase::BeforeModel {
            let machine = self.machine.clone();
            self.log.push(|| Record::Step { machine });
            self.flush().await?;
        }
        Ok(())
    }

    /// Keeps the history whole where a hook leads away from calls, and asks again where a wanted shape is missing.
    fn after_answer(&mut self, go: Go) -> Result<()> {
        if matches!(go, Go::Model | Go::End) {
            return self.answer_pending(|call| {
                format!("The call of {} was not made: the turn was ended before it.", call.name())
            });
        }
        let facts = self.facts(Phase::AfterModel, go);
        let asked = facts.pending == 0 && !facts.had_calls && facts.shape_missing;
        if !asked || !matches!(facts.stop, StopReason::End | StopReason::StopSequence | StopReason::ToolCalls) {
            return Ok(());
        }
        let Some(format) = self.shared.agent.format.clone() else { return Ok(()) };
        let text = self.state.messages().last().map(|m| m.text()).unwrap_or_default();
        let (reason, advice) = if self.shape_by_tool {
            ("it did not use the tool".to_owned(), format!("Give your answer by calling the tool `{}`.", format.name()))
        } else {
            let problem = format.parse(&text).err().unwrap_or_default();
            let advice =
                format!("Your answer does not fit `{}`: {problem}. Answer again, with the JSON alone.", format.name());
            (problem, advice)
        };
        self.shape_refused(reason)?;
        self.update(Update::message(Message::harness(advice)))
    }

    /// Counts a wrong answer to a wanted shape.
    pub(super) fn shape_refused(&mut self, reason: String) -> Result<()> {
        self.shape_tries += 1;
        match &self.shared.agent.format {
            Some(format) if self.shape_tries > format.max_retries() => {
                Err(Error::Structured { name: format.name().to_owned(), tries: self.shape_tries, reason })
            }
            _ => Ok(()),
        }
    }

    fn facts(&mut self, phase: Phase, go: Go) -> Facts {
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
            empty: answer.is_none_or(|a| a.text().trim().is_empty()),
            stop: self.last_stop.clone(),
            shape_missing: self.shared.agent.format.is_some()
                && self.state.get::<StructuredResponse>().is_none_or(Option::is_none),
            steered,
        }
    }

    async fn model(&mut self, turn: u32) -> Result<(), Break> {
        // What was said to the model must be in the log before the model is asked.
        self.flush().await?;
        let shared = self.shared.clone();
        let parts = &shared.agent;
        shared.attempt.store(0, Ordering::Relaxed);
        let cx = Context::at(&shared, &self.state, turn);
        let mut request = self.request();
        for middleware in parts.stack.iter() {
            let failed = |source| Error::Hook {
                middleware: middleware.name().to_owned(),
                hook: "modify_request",
                source: Box::new(source),
            };
            request =
                self.guard(middleware.modify_request(request, &cx)).await.map_err(Break::Halt)?.map_err(failed)?;
        }
        self.machine.model_asked();
        let next = ModelNext::new(parts.stack.clone(), parts.model.clone(), cx);
        let response = self.guard(next.run(request)).await.map_err(Break::Halt)??;
        self.take_answer(turn, response.output)?;
        self.update(response.update)?;
        self.machine.model_answered();
        Ok(())
    }

    fn request(&self) -> ModelRequest {
        let parts = &self.shared.agent;
        let mut request = ModelRequest::new(self.state.messages().clone());
        request.system.clone_from(&parts.system);
        request.tools.clone_from(&parts.specs);
        request.settings.clone_from(&parts.settings);
        if let Some(format) = &parts.format {
            if self.shape_by_tool {
                let spec = format.tool_spec();
                let at = request.tools.partition_point(|t| t.name < spec.name);
                request.tools.insert(at, Arc::new(spec));
                request.tool_choice = ToolChoice::Any;
            } else {
                request.output_schema = Some(format.output_schema());
            }
        }
        request
    }

    /// Makes an answer part of the conversation.
    fn take_answer(&mut self, turn: u32, output: ModelOutput) -> Result<()> {
        let ModelOutput { mut message, usage, stop } = output;
        let known = |id: &str| id.is_empty() || self.state.messages().by_id(id).is_some();
        if known(&message.id) {
            message.id = self.shared.agent.ids.next("msg");
        }
        distinguish_calls(&mut message.content, turn);
        message.usage = Some(usage);
        self.last_stop = stop.clone();
        let shape = match &self.shared.agent.format {
            Some(format) if !self.shape_by_tool && !message.has_calls() => format.parse(&message.text()).ok(),
            _ => None,
        };
        let (id, attempt) = (message.id.clone(), self.shared.attempt.load(Ordering::Relaxed).saturating_sub(1));
        self.update(Update::message(Message::Assistant(message)))?;
        self.tell(|| EventKind::ModelFinished { turn, attempt, message: id, usage, stop });
        if shape.is_some() {
            self.update(Update::of::<StructuredResponse>(shape))?;
        }
        Ok(())
    }

    /// Answers every open call of the last answer with an error.
    pub(super) fn answer_pending(&mut self, text: impl Fn(&PendingCall) -> String) -> Result<()> {
        let ops: Vec<MessageOp> = history::pending(self.state.messages())
            .iter()
            .map(|open| ToolMessage::error(open.call.wire_id(), open.call.name(), text(&open.call)))
            .map(|message| MessageOp::put(Message::Tool(message)))
            .collect();
        if ops.is_empty() { Ok(()) } else { self.update(Update::of::<MessagesChannel>(ops)) }
    }

    /// Applies an update and notes it for the log and the events.
    pub(super) fn update(&mut self, update: Update) -> Result<()> {
        if update.is_empty() {
            return Ok(());
        }
        let update = self.stamp(update);
        self.state.apply(&update)?;
        self.tell_changes(&update);
        self.log.push(|| Record::Update { update: RecordUpdate::Live(update) });
        Ok(())
    }

    /// Gives ids to messages that have none.
    pub(super) fn stamp(&self, update: Update) -> Update {
        let nameless = |op: &MessageOp| matches!(op, MessageOp::Put(message) if message.id().is_empty());
        if !update.get::<MessagesChannel>().flatten().any(nameless) {
            return update;
        }
        let ids = &self.shared.agent.ids;
        let (messages, rest) = update.split::<MessagesChannel>();
        let mut ops = messages.concat();
        for op in &mut ops {
            if let MessageOp::Put(message) = op
                && message.id().is_empty()
            {
                Arc::make_mut(message).set_id(ids.next("msg"));
            }
        }
        rest.with::<MessagesChannel>(ops)
    }

    pub(super) fn tell_changes(&mut self, update: &Update) {
        if self.shared.events.is_silent() {
            return;
        }
        for entry in update.entries().iter().filter(|e| !e.spec().is::<MessagesChannel>() && !e.spec().is_private()) {
            if let Ok(change) = entry.to_json() {
                self.told.push(EventKind::StateChanged { channel: entry.spec().name().to_owned(), update: change });
            }
        }
    }

    pub(super) fn tell(&mut self, kind: impl FnOnce() -> EventKind) {
        if !self.shared.events.is_silent() {
            self.told.push(kind());
        }
    }

    /// Appends to the log, then tells what it holds.
    pub(super) async fn flush(&mut self) -> Result<()> {
        self.log.flush().await?;
        self.emit_told().await;
        Ok(())
    }

    async fn emit_told(&mut self) {
        for kind in std::mem::take(&mut self.told) {
            self.shared.events.emit(&self.shared.path, || kind).await;
        }
    }
}

/// Gives calls without an id, or with one that an earlier call of the turn has, an id of their own.
fn distinguish_calls(content: &mut [Block], turn: u32) {
    let mut seen: HashSet<String> = HashSet::new();
    for (index, block) in content.iter_mut().enumerate() {
        let (id, native) = match block {
            Block::ToolCall(call) => (&mut call.id, Some(&mut call.native)),
            Block::InvalidToolCall(call) => (&mut call.id, None),
            _ => continue,
        };
        if id.is_empty() || seen.contains(id) {
            *id = format!("call_{turn}_{index}");
            // The provider's own item carries the id that does not distinguish.
            if let Some(native) = native {
                *native = None;
            }
        }
        seen.insert(id.clone());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
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
