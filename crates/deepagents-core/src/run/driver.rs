//! The driver: it waits for models, tools and the journal, and does what the machine decides.

use std::any::Any;
use std::collections::HashSet;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::emitter::Emitter;
use super::history::check_last_results;
use super::hooks::Phase;
use super::log::Log;
use super::meter::Meter;
use super::{Decision, Machine, Outcome, RunError, RunInput, Shared, Stop};
use crate::agent::Agent;
use crate::ask::AnswerError;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::journal::{Claim, Fold, Lease, Open, Position, Record, RecordUpdate, load_fold};
use crate::message::{Message, MessageOp};
use crate::model::StopReason;
use crate::state::{MessagesChannel, State, Update};

/// A run came to a halt from outside.
pub(super) struct Halt(pub(super) Stop);

/// Ends a step: a halt is no failure.
pub(super) enum Break {
    Halt(Halt),
    /// A call waits for a decision.
    Wait,
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
    /// The turn that the run goes on with when it is resumed in the middle of one.
    pub(super) open: Open,
    /// The step that the log was told of last.
    noted: Option<Machine>,
    /// Told once the log has what they tell of.
    pub(super) told: Vec<EventKind>,
    inbox: Option<mpsc::UnboundedReceiver<Message>>,
    /// Read from the inbox, not yet part of the conversation.
    heard: Vec<Message>,
    deadline: Option<Instant>,
    pub(super) last_stop: StopReason,
    /// Wrong answers to a wanted shape so far.
    pub(super) shape_tries: u32,
    /// Whether the shape is asked for by a tool.
    pub(super) shape_by_tool: bool,
}

/// Where a run takes place.
pub(super) struct Setting {
    pub(super) run: Arc<str>,
    /// Empty unless the run is below another.
    pub(super) path: Arc<[String]>,
    pub(super) events: Emitter,
    pub(super) cancel: CancellationToken,
    pub(super) meter: Arc<Meter>,
    /// What it begins with where it has no thread.
    pub(super) state: Option<State>,
    /// Where it was when it began to wait for a decision, if it goes on from there.
    pub(super) paused: Option<(Machine, Open)>,
}

impl Setting {
    /// A run of its own.
    pub(super) fn main(run: Arc<str>, events: Emitter, cancel: CancellationToken) -> Self {
        Self { run, path: Arc::from([]), events, cancel, meter: Arc::default(), state: None, paused: None }
    }
}

impl Driver {
    pub(super) async fn run(
        agent: Agent,
        input: RunInput,
        setting: Setting,
        inbox: Option<mpsc::UnboundedReceiver<Message>>,
    ) -> Result<Outcome, Box<RunError>> {
        Self::run_to_end(agent, input, setting, inbox).await.0
    }

    /// Runs, and says where it was in the end, for a run that waits.
    pub(super) async fn run_to_end(
        agent: Agent,
        input: RunInput,
        setting: Setting,
        inbox: Option<mpsc::UnboundedReceiver<Message>>,
    ) -> (Result<Outcome, Box<RunError>>, (Machine, Open)) {
        let parts = agent.parts.clone();
        let shared = Arc::new(Shared {
            agent: parts.clone(),
            run: setting.run,
            thread: input.thread.clone(),
            path: setting.path,
            events: setting.events,
            cancel: setting.cancel,
            meter: setting.meter,
            extensions: input.extensions.clone(),
            attempt: std::sync::atomic::AtomicU32::new(0),
            passed: std::sync::Mutex::new(None),
        });
        let limit = input.max_model_calls.unwrap_or(parts.max_model_calls);
        let mut driver = Self {
            state: setting.state.unwrap_or_else(|| State::new(parts.schema.clone())),
            machine: Machine::new(0, limit),
            log: Log::none(),
            open: Open::default(),
            noted: None,
            told: Vec::new(),
            inbox,
            heard: Vec::new(),
            deadline: input.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            last_stop: StopReason::End,
            shape_tries: 0,
            shape_by_tool: parts.format.as_ref().is_some_and(|f| f.by_tool(&parts.model.profile())),
            shared,
        };
        let began = match setting.paused {
            Some(paused) => driver.go_on_paused(paused).await,
            None => driver.begin(input, limit).await,
        };
        let result = match began {
            Ok(None) => driver.drive().await,
            Ok(Some(over)) => Ok(over),
            Err(error) => Err(error),
        };
        let was = (driver.machine.clone(), driver.open.clone());
        (driver.finish(result).await, was)
    }

    /// Goes on below a run whose call is made again after a decision.
    async fn go_on_paused(&mut self, (machine, open): (Machine, Open)) -> Result<Option<Stop>> {
        (self.machine, self.open) = (machine, open);
        self.tell_begun();
        self.flush().await?;
        Ok(None)
    }

    /// Whether this is the run of the main agent.
    fn is_main(&self) -> bool {
        self.shared.path.is_empty()
    }

    /// Loads the thread and takes the input in. Gives the reason why there is nothing to do, if so.
    async fn begin(&mut self, input: RunInput, limit: u32) -> Result<Option<Stop>> {
        let left = match self.shared.thread.clone() {
            Some(thread) => Some(self.open_thread(thread, &input).await?),
            None if input.at.is_some() => {
                return Err(Error::Input("a position to begin from needs a thread; name it".to_owned()));
            }
            None => None,
        };
        if input.resume {
            return match left {
                Some(left) => self.resume(left, input, limit).await,
                None => Err(Error::Input("there is no thread to resume; name it".to_owned())),
            };
        }
        if !input.answers.is_empty() {
            return Err(Error::Input(
                "answers go with `RunInput::resume`; a new message makes the thread go on without them".to_owned(),
            ));
        }
        self.start(left, input, limit).await?;
        Ok(None)
    }

    /// Becomes the owner of a thread and loads it.
    async fn open_thread(&mut self, thread: String, input: &RunInput) -> Result<Fold> {
        let parts = self.shared.agent.clone();
        let journal = parts.journal()?.clone();
        let mut claim = Claim::new(&*self.shared.run, input.lease);
        claim.take_over = input.take_over;
        let lease = Lease::claim(journal.clone(), thread.clone(), claim, self.shared.cancel.clone()).await?;
        let loaded = load_fold(&*journal, &thread, parts.schema.clone(), None).await?;
        let (head, turns, mut fold) = (loaded.head, loaded.fold.turns, loaded.fold);
        let back = input.at.filter(|at| *at != head);
        if let Some(to) = back {
            fold = load_fold(&*journal, &thread, parts.schema.clone(), Some(to)).await?.fold;
        }
        self.log = Log::new(lease, head, loaded.rule, fold.kept.clone());
        if let Some(to) = back {
            self.go_back(&mut fold, to, turns.saturating_add(1), head);
        }
        Ok(fold)
    }

    fn go_back(&mut self, fold: &mut Fold, to: Position, turn: u32, head: Position) {
        self.log.push(|| Record::Rewound { to, turn });
        fold.rewound(turn, head);
    }

    /// Begins a run: answers what an earlier one left open, and takes the input in.
    async fn start(&mut self, left: Option<Fold>, input: RunInput, limit: u32) -> Result<()> {
        let (run, at) = self.run_and_time();
        self.log.push(|| Record::RunStarted { run, at });
        self.tell_begun();
        if let Some(left) = left {
            self.machine = Machine::new(left.turns, limit);
            self.answer_left(left)?;
        }
        self.forget_shape()?;
        // Answers that are given count as well: the calls of two turns must not share an identity.
        let given = input.messages.iter().filter(|m| m.as_assistant().is_some()).count();
        self.machine.turns_given(u32::try_from(given).unwrap_or(u32::MAX));
        let ops = input.messages.into_iter().map(MessageOp::put).collect::<Vec<_>>();
        if !ops.is_empty() {
            self.update(Update::of::<MessagesChannel>(ops))?;
        }
        self.update(input.update)?;
        if self.state.messages().is_empty() {
            return Err(Error::Input("there is nothing to do: give the run a message".to_owned()));
        }
        self.note_step();
        self.flush().await
    }

    /// Goes on with a run that did not end, or failed.
    async fn resume(&mut self, left: Fold, input: RunInput, limit: u32) -> Result<Option<Stop>> {
        let Some(last) = left.run.clone() else {
            self.log.close().await?;
            let thread = self.shared.thread.as_deref().unwrap_or_default();
            return Err(Error::Input(format!("thread `{thread}` has no run to resume; give it a message instead")));
        };
        if let Some(Some(stop)) = last.ended.filter(|stop| *stop != Some(Stop::Waiting)) {
            self.log.close().await?;
            if let Some((id, _)) = input.answers.into_iter().next() {
                return Err(AnswerError::Unknown { id, open: Vec::new() }.into());
            }
            self.machine = left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, limit));
            self.answer_left(left)?;
            return Ok(Some(stop));
        }
        // Answers are looked at before anything is stored: a wrong one leaves the question open.
        self.state = left.state.clone();
        if let Err(error) = self.take_answers(input.answers) {
            self.log.close().await?;
            return Err(error);
        }
        let (run, at) = self.run_and_time();
        self.log.push(|| Record::RunResumed { run, at });
        self.tell_begun();
        self.noted.clone_from(&left.machine);
        self.machine = left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, limit));
        if let Some(limit) = input.max_model_calls {
            self.machine.set_limit(limit);
        }
        if matches!(self.machine.next(), Decision::Tools { .. }) {
            self.open = left.open;
        } else {
            self.answer_left(left)?;
        }
        self.update(input.update)?;
        check_last_results(self.state.messages())?;
        self.flush().await?;
        Ok(None)
    }

    /// Goes on from where an earlier run left the thread: its open calls are answered, not made.
    fn answer_left(&mut self, mut left: Fold) -> Result<()> {
        let late = left.settle()?;
        self.state = left.state;
        let why = if self.drop_questions()? {
            "the conversation went on before it was decided on"
        } else {
            "the process ended before it"
        };
        let in_doubt: HashSet<String> = left.open.in_doubt.into_values().map(|(id, ..)| id).collect();
        self.complete_turn(&in_doubt, why, late)
    }

    fn run_and_time(&self) -> (String, String) {
        (self.shared.run.to_string(), self.shared.agent.clock.now().to_string())
    }

    fn tell_begun(&mut self) {
        let (thread, name) = (self.shared.thread.clone(), self.shared.agent.name.clone());
        if self.is_main() {
            self.tell(|| EventKind::RunStarted { thread });
        }
        self.tell(|| EventKind::AgentStarted { name });
    }

    async fn drive(&mut self) -> Result<Stop> {
        loop {
            let step = match self.machine.next() {
                Decision::Finish(stop) => {
                    if self.last_words() && self.machine.prolong() {
                        continue;
                    }
                    return Ok(stop);
                }
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
                Err(Break::Wait) => {
                    self.wait()?;
                    return Ok(Stop::Waiting);
                }
                Err(Break::Halt(Halt(stop))) => {
                    self.shared.cancel.cancel();
                    let why = why(&stop);
                    self.answer_pending(|call| format!("The call of {} was not completed: {why}.", call.name()))?;
                    self.machine.abort(stop);
                }
            }
        }
    }

    async fn finish(mut self, result: Result<Stop>) -> Result<Outcome, Box<RunError>> {
        let mut result = result;
        // However it ended, what stays must be a history that can be gone on with.
        let why = if result.is_ok() { "the run was ended before it" } else { "the run failed" };
        if !matches!(result, Ok(Stop::Waiting)) {
            let kept = self.answer_pending(|call| format!("The call of {} was not completed: {why}.", call.name()));
            let kept = kept.and_then(|()| self.forget_questions());
            debug_assert!(kept.is_ok(), "appending messages cannot be refused");
        }
        let run = self.shared.run.to_string();
        let stop = result.as_ref().ok().cloned();
        self.note_step();
        self.log.push(|| Record::RunFinished { run, stop });
        if let Err(error) = self.log.flush().await
            && result.is_ok()
        {
            result = Err(error.into());
        }
        // All is written; a lease that cannot be given up runs out.
        let _ = self.log.close().await;
        let usage = self.shared.meter.total();
        match &result {
            Ok(stop) => {
                let (model_calls, stop) = (self.machine.calls(), stop.clone());
                self.tell(|| EventKind::AgentFinished { stop: stop.clone(), usage });
                if self.is_main() {
                    self.tell(|| EventKind::RunFinished { stop, usage, model_calls });
                }
            }
            Err(error) => {
                let (kind, error) = (error.kind().to_owned(), error.to_string());
                if self.is_main() {
                    self.tell(|| EventKind::RunFailed { kind, error });
                } else {
                    self.tell(|| EventKind::AgentFailed { kind, error });
                }
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

    /// Waits for code that is not ours: a panic in it fails the run like any other error.
    pub(super) async fn guard_foreign<T>(&self, work: impl Future<Output = Result<T>>) -> Result<Result<T>, Halt> {
        let work = AssertUnwindSafe(work).catch_unwind();
        let caught = |panic: Box<dyn Any + Send>| Error::other(format!("it panicked: {}", panic_text(&*panic)));
        self.guard(async { work.await.unwrap_or_else(|panic| Err(caught(panic))) }).await
    }

    /// Ends when the run is halted from outside.
    pub(super) async fn halted(&self) -> Stop {
        let deadline = async {
            match self.deadline {
                // The timer ticks in milliseconds; a deadline that has passed is known at once.
                Some(deadline) if deadline <= Instant::now() => {}
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

    /// Whether something was said that the run, about to end, has not heard. If not, nothing more can be said.
    fn last_words(&mut self) -> bool {
        if self.listen() {
            return true;
        }
        if let Some(inbox) = &mut self.inbox {
            inbox.close();
        }
        self.listen()
    }

    /// Reads the inbox; says whether anything waits.
    pub(super) fn listen(&mut self) -> bool {
        if let Some(inbox) = &mut self.inbox {
            while let Ok(message) = inbox.try_recv() {
                self.heard.push(message);
            }
        }
        !self.heard.is_empty()
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
        update.with_ids(&*self.shared.agent.ids)
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

    /// Notes in the log where the run can go on from, if it does not say so already.
    pub(super) fn note_step(&mut self) {
        if self.noted.as_ref() != Some(&self.machine) {
            let machine = self.machine.clone();
            self.noted = Some(machine.clone());
            self.log.push(|| Record::Step { machine });
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

/// Why a run was halted, in words for the model.
pub(super) fn why(stop: &Stop) -> &'static str {
    if *stop == Stop::Deadline { "the run's time was up" } else { "the run was cancelled" }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "it gave no reason",
    }
}
