//! The driver: it waits for models, tools and the journal, and does what the machine decides.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::begin::own_limit;
use super::emitter::Emitter;
use super::halt::{Break, Halt};
use super::hooks::Phase;
use super::log::Log;
use super::meter::Meter;
use super::{Decision, Machine, Outcome, RunError, RunInput, Shared, Stop};
use crate::agent::Agent;
use crate::error::Result;
use crate::event::EventKind;
use crate::journal::{Open, Record, RecordUpdate};
use crate::message::Message;
use crate::model::StopReason;
use crate::state::{MessagesChannel, State, Update};

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) state: State,
    pub(super) machine: Machine,
    pub(super) log: Log,
    /// The turn that the run goes on with when it is resumed in the middle of one.
    pub(super) open: Open,
    /// The step that the log was told of last.
    pub(super) noted: Option<Machine>,
    /// Told once the log has what they tell of.
    pub(super) told: Vec<EventKind>,
    inbox: Option<mpsc::UnboundedReceiver<Message>>,
    /// Read from the inbox, not yet part of the conversation.
    heard: Vec<Message>,
    pub(super) last_stop: StopReason,
    /// Wrong answers to a wanted shape so far.
    pub(super) shape_tries: u32,
    /// Whether the shape is asked for by a tool.
    pub(super) shape_by_tool: bool,
}

/// Where a run was in the end, for one that waits.
pub(super) struct Left {
    pub(super) machine: Machine,
    pub(super) open: Open,
    /// What was said to it after it was last asked.
    pub(super) unheard: Vec<Message>,
}

/// Where a run takes place.
pub(super) struct Setting {
    pub(super) run: Arc<str>,
    /// Empty unless the run is below another.
    pub(super) path: Arc<[String]>,
    pub(super) events: Emitter,
    pub(super) cancel: CancellationToken,
    /// What the run above spends and may spend.
    pub(super) above: Option<Arc<Meter>>,
    /// What it begins with where it has no thread.
    pub(super) state: Option<State>,
    /// Where it was when it began to wait for a decision, if it goes on from there.
    pub(super) paused: Option<(Machine, Open)>,
}

impl Setting {
    /// A run of its own.
    pub(super) fn main(run: Arc<str>, events: Emitter, cancel: CancellationToken) -> Self {
        Self { run, path: Arc::from([]), events, cancel, above: None, state: None, paused: None }
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

    /// Runs, and says where it was in the end.
    pub(super) async fn run_to_end(
        agent: Agent,
        input: RunInput,
        setting: Setting,
        inbox: Option<mpsc::UnboundedReceiver<Message>>,
    ) -> (Result<Outcome, Box<RunError>>, Left) {
        let parts = agent.parts.clone();
        let above = setting.above.or_else(|| input.above.clone());
        let meter = Meter::new(above, input.budget.clone(), &parts.budget);
        let shared = Arc::new(Shared {
            agent: parts.clone(),
            run: setting.run,
            thread: input.thread.clone(),
            path: setting.path,
            events: setting.events,
            cancel: setting.cancel,
            meter: Arc::new(meter),
            extensions: input.extensions.clone(),
            tap: input.tap.clone(),
            attempt: std::sync::atomic::AtomicU32::new(0),
            passed: std::sync::Mutex::new(None),
        });
        let limit = own_limit(&input).unwrap_or(parts.max_model_calls);
        let mut driver = Self {
            state: setting.state.unwrap_or_else(|| State::new(parts.schema.clone())),
            machine: Machine::new(0, limit),
            log: Log::none(),
            open: Open::default(),
            noted: None,
            told: Vec::new(),
            inbox,
            heard: Vec::new(),
            last_stop: StopReason::End,
            shape_tries: 0,
            shape_by_tool: parts.format.as_ref().is_some_and(|f| f.by_tool(&parts.model.profile())),
            shared,
        };
        let began = match setting.paused {
            Some(paused) => driver.go_on_paused(paused).await,
            None => match input.check() {
                Ok(()) => driver.begin(input, limit).await,
                Err(error) => Err(error),
            },
        };
        let result = match began {
            Ok(None) => driver.drive().await,
            Ok(Some(over)) => Ok(over),
            Err(error) => Err(error),
        };
        driver.machine.keep(driver.shared.meter.ledger());
        driver.hang_up();
        driver.listen();
        let unheard = std::mem::take(&mut driver.heard);
        let left = Left { machine: driver.machine.clone(), open: driver.open.clone(), unheard };
        (driver.finish(result).await, left)
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
                Decision::BeforeModel => match self.shared.meter.exhausted() {
                    Some(stop) => self.end_spent(stop).map_err(Break::Fail),
                    None => {
                        self.hear()?;
                        self.hooks(Phase::BeforeModel).await
                    }
                },
                Decision::Model { turn } => self.model(turn).await,
                Decision::AfterModel => self.hooks(Phase::AfterModel).await,
                Decision::Tools { turn } => self.tools(turn).await,
                Decision::AfterAgent => self.hooks(Phase::AfterAgent).await,
            };
            match step {
                Ok(()) => {}
                Err(Break::Fail(error)) => match error.spent().cloned() {
                    Some(stop) => self.end_spent(stop)?,
                    None => return Err(error),
                },
                Err(Break::Wait) => {
                    self.wait()?;
                    return Ok(Stop::Waiting);
                }
                Err(Break::Halt(Halt(stop))) => {
                    self.shared.cancel.cancel();
                    let why = stop.words();
                    self.answer_pending(|call| format!("The call of {} was not completed: {why}.", call.name()))?;
                    self.machine.abort(stop);
                }
            }
        }
    }

    /// Ends the run because what it may spend is spent.
    fn end_spent(&mut self, stop: Stop) -> Result<()> {
        let why = stop.words();
        self.answer_pending(|call| format!("The call of {} was not completed: {why}.", call.name()))?;
        self.machine.spent(stop);
        Ok(())
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
                spent: self.shared.meter.spent(),
                thread: self.shared.thread.clone(),
                run: self.shared.run.to_string(),
            }),
            Err(error) => Err(Box::new(RunError { error, state: self.state, usage })),
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
        self.hang_up();
        self.listen()
    }

    /// Nothing more can be said from now on; what was said before can still be read.
    fn hang_up(&mut self) {
        if let Some(inbox) = &mut self.inbox {
            inbox.close();
        }
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
        self.machine.keep(self.shared.meter.ledger());
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
