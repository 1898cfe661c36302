//! The driver: it waits for models, tools and the journal, and does what the machine decides.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::abort::{Break, Halt, halted_long_ago};
use super::hooks::Phase;
use super::log::Log;
use super::start::own_limit;
use super::{Outcome, RunError, RunInput};
use crate::context::AgentDefinition;
use crate::context::{BudgetTracker, Emitter, Inbox, RunControl, Shared};
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::{CallId, LogPosition, RunId, ThreadId};
use crate::interrupt::{ActionRequestChange, open_questions};
use crate::journal::{ChildLog, JournalError, LogWriter, Record, RecordUpdate, Replay};
use crate::machine::{Machine, NextStep, Open};
use crate::message::Message;
use crate::model::StopReason;
use crate::state::{MessagesChannel, State, Update, UpdateEntry};
use crate::status::FinishReason;
use crate::tool::{ChildState, ToolSet};

pub(crate) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) state: State,
    pub(super) machine: Machine,
    pub(super) log: Log,
    /// The turn that the run goes on with when it is resumed in the middle of one.
    pub(super) open: Open,
    /// Sub-agents of that turn, as an earlier process left them.
    pub(super) children: BTreeMap<Vec<String>, ChildLog>,
    /// Sub-agents of the present turn that wait for decisions.
    pub(super) paused: Vec<(CallId, ChildState)>,
    /// Whether the agent shares the thread of one above it.
    pub(super) is_below: bool,
    /// The step that the log was told of last.
    pub(super) logged_step: Option<Machine>,
    /// What is to be told once its record is in the log, with how many records wait up to that one.
    queued_events: Vec<(usize, EventKind)>,
    /// What is in the log and is to be told, with the position behind its record.
    logged_events: Vec<(Option<LogPosition>, EventKind)>,
    inbox: Option<Arc<Inbox>>,
    /// Read from the inbox, not yet part of the conversation.
    pub(super) undelivered: Vec<Message>,
    /// Follow-ups that the thread kept from an earlier run.
    pub(super) follow_ups: VecDeque<Message>,
    /// Why a message in the inbox was not let in.
    refused: Option<Error>,
    pub(super) last_stop: StopReason,
    /// Wrong answers to a wanted shape so far.
    pub(super) shape_tries: u32,
    /// Whether the shape is asked for by a tool.
    pub(super) shape_by_tool: bool,
    /// The tools that middlewares offered for the last request; nothing before the first one of this process.
    pub(super) offered: Option<Vec<ToolSet>>,
}

/// Where a run takes place.
pub(crate) struct Setting {
    pub(crate) run: RunId,
    /// Empty unless the run is below another.
    pub(crate) path: Arc<[String]>,
    pub(crate) events: Emitter,
    pub(crate) cancel: CancellationToken,
    /// What the run above spends and may spend.
    pub(crate) above: Option<Arc<BudgetTracker>>,
    /// The thread under which the run above counts this one apart.
    pub(crate) beside: Option<Arc<str>>,
    pub(crate) place: Place,
    /// The main agent, where this one is below it.
    pub(crate) root: Option<Arc<Shared>>,
}

/// Where a run keeps what it does, and what it begins with.
pub(crate) enum Place {
    /// The thread of its input, if there is one.
    Main,
    /// The thread of the run above.
    Below(Box<Below>),
    /// The thread of its input, which is new and the child of another.
    Background(Box<NewThread>),
}

/// How the thread of an agent in the background begins.
pub(crate) struct NewThread {
    pub(crate) parent: ThreadId,
    /// The name by which the agent above knows the agent.
    pub(crate) agent: String,
    /// What tells it from others of that thread.
    pub(crate) label: String,
    pub(crate) path: Vec<String>,
    /// What it begins with.
    pub(crate) state: State,
}

/// What a run below another is given by the call that runs it.
pub(crate) struct Below {
    pub(crate) call: CallId,
    pub(crate) label: String,
    /// What the agent above had when the call began.
    pub(crate) base: State,
    /// What it begins with.
    pub(crate) given: State,
    /// What it goes on from.
    pub(crate) resumed: Option<Replay>,
    /// The answers that it waits for.
    pub(crate) answers: Vec<ActionRequestChange>,
    pub(crate) log: Option<LogWriter>,
}

impl Setting {
    /// A run of its own.
    pub(crate) fn main(run: RunId, events: Emitter, cancel: CancellationToken) -> Self {
        Self { run, path: Arc::from([]), events, cancel, above: None, beside: None, place: Place::Main, root: None }
    }
}

impl Driver {
    /// Runs to the end.
    pub(crate) async fn run(
        agent: Arc<AgentDefinition>,
        input: Box<RunInput>,
        setting: Setting,
        inbox: Option<Arc<Inbox>>,
    ) -> Result<Outcome, Box<RunError>> {
        // What happens once, or between two answers, is in a box of its own: most of its time a run waits for a model, and its
        // future has room for whatever is not.
        let (mut driver, began, _registered) = Box::pin(Self::begun(agent, input, setting, inbox)).await;
        let result = match began {
            Ok(None) => driver.drive().await,
            Ok(Some(over)) => Ok(over),
            Err(error) => Err(error),
        };
        driver.machine.keep(driver.shared.budget.ledger());
        driver.close_inbox();
        driver.poll_inbox();
        Box::pin(driver.finish(result)).await
    }

    /// A run that has begun, with the reason why there is nothing to do, if so, and what makes it known while it lasts.
    async fn begun(
        agent: Arc<AgentDefinition>,
        input: Box<RunInput>,
        setting: Setting,
        inbox: Option<Arc<Inbox>>,
    ) -> (Box<Self>, Result<Option<FinishReason>>, Option<impl Drop + Send + use<>>) {
        let (input, parts) = (*input, agent);
        let above = setting.above.or_else(|| input.above.clone());
        let budget = BudgetTracker::new(above, input.budget.clone(), &parts.budget).beside(setting.beside);
        let shared = Arc::new(Shared {
            agent: parts.clone(),
            run: setting.run,
            thread: input.thread.clone(),
            path: setting.path,
            events: setting.events,
            cancel: setting.cancel,
            budget: Arc::new(budget),
            extensions: input.extensions.clone(),
            observer: input.observer.clone(),
            attempt: std::sync::atomic::AtomicU32::new(0),
            told: std::sync::Mutex::default(),
            answer_id: std::sync::Mutex::default(),
            tools: std::sync::Mutex::new(parts.tools.clone()),
            passed: std::sync::Mutex::new(None),
            log: std::sync::OnceLock::new(),
            root: setting.root,
        });
        let control = shared.events.control();
        let registered = control.map(|all| all.agents().register(shared.path.clone(), shared.cancel.clone()));
        let limit = own_limit(&input).unwrap_or(parts.max_model_calls);
        let mut driver = Box::new(Self {
            state: State::new(parts.schema.clone()),
            machine: Machine::new(0, limit),
            log: Log::default(),
            open: Open::default(),
            children: BTreeMap::new(),
            paused: Vec::new(),
            is_below: matches!(setting.place, Place::Below(_)),
            logged_step: None,
            queued_events: Vec::new(),
            logged_events: Vec::new(),
            inbox,
            undelivered: Vec::new(),
            follow_ups: VecDeque::new(),
            refused: None,
            last_stop: StopReason::End,
            shape_tries: 0,
            shape_by_tool: parts.format.as_ref().is_some_and(|f| f.by_tool(&parts.model.profile())),
            offered: None,
            shared,
        });
        let began = match (input.check(), setting.place) {
            (Err(error), _) => Err(error),
            (Ok(()), Place::Below(below)) => driver.begin_below(*below, input, limit).await,
            (Ok(()), place) => driver.begin(input, limit, place).await,
        };
        (driver, began, registered)
    }

    async fn drive(&mut self) -> Result<FinishReason> {
        loop {
            let next = self.machine.next();
            if self.is_suspended() && !matches!(next, NextStep::Finish(_)) {
                return Ok(FinishReason::Suspended);
            }
            let step = match next {
                NextStep::Finish(stop) => {
                    if self.has_pending_input() && self.machine.prolong() {
                        continue;
                    }
                    return Ok(stop);
                }
                NextStep::BeforeAgent => self.hooks(Phase::BeforeAgent).await,
                NextStep::BeforeModel => match self.shared.budget.exhausted() {
                    Some(stop) => self.end_spent(stop).map_err(Break::Fail),
                    None => {
                        self.drain_inbox()?;
                        self.hooks(Phase::BeforeModel).await
                    }
                },
                NextStep::Model { turn } => self.model(turn).await,
                NextStep::AfterModel => self.hooks(Phase::AfterModel).await,
                NextStep::Tools { turn } => Box::pin(self.tools(turn)).await,
                NextStep::AfterAgent => self.hooks(Phase::AfterAgent).await,
            };
            match step {
                Ok(()) => {}
                Err(Break::Fail(error)) => match error.spent().cloned() {
                    Some(stop) => self.end_spent(stop)?,
                    None => return Err(error),
                },
                // Calls are open whose sub-agents have stopped, and nobody is asked anything.
                Err(Break::Wait) if self.is_suspended() && open_questions(&self.state).next().is_none() => {
                    return Ok(FinishReason::Suspended);
                }
                Err(Break::Wait) => {
                    self.check_can_wait()?;
                    return Ok(FinishReason::Interrupted);
                }
                Err(Break::Halt(Halt(stop))) => {
                    self.shared.cancel.cancel();
                    self.answer_open(stop.reason())?;
                    self.machine.abort(stop);
                }
            }
        }
    }

    /// Ends the run because what it may spend is spent.
    fn end_spent(&mut self, stop: FinishReason) -> Result<()> {
        self.answer_open(stop.reason())?;
        self.machine.spent(stop);
        Ok(())
    }

    async fn finish(mut self: Box<Self>, result: Result<FinishReason>) -> Result<Outcome, Box<RunError>> {
        let mut result = result;
        // However it ended, what stays must be a history that can be gone on with.
        let why = if result.is_ok() { "the run was ended before it" } else { "the run failed" };
        let suspended = matches!(result, Ok(FinishReason::Suspended));
        if !suspended && !matches!(result, Ok(FinishReason::Interrupted)) {
            let kept = self.answer_open(why).and_then(|()| self.forget_questions());
            if let Err(error) = kept {
                result = result.and(Err(error));
            }
        } else if let Err(error) = self.keep_undelivered() {
            result = Err(error);
        }
        let mut state = None;
        if self.is_below && matches!(result, Ok(FinishReason::Interrupted | FinishReason::Suspended)) {
            match self.state_with_waiting() {
                Ok(joined) => state = Some(joined),
                Err(error) => result = Err(error),
            }
        }
        let run = self.shared.run.get().to_string();
        let stop = result.as_ref().ok().cloned();
        self.log_step();
        if !suspended {
            self.log.push(|| Record::RunFinished { run, stop });
        }
        if let Err(error) = self.append().await
            && result.is_ok()
        {
            result = Err(error.into());
        }
        let usage = self.shared.budget.total();
        match &result {
            Ok(stop) => {
                let (model_calls, stop) = (self.machine.calls(), stop.clone());
                if stop == FinishReason::Interrupted {
                    self.queue_questions();
                }
                self.queue_event(|| EventKind::AgentFinished { stop: stop.clone(), usage });
                if self.is_main() {
                    self.queue_event(|| EventKind::RunFinished { stop, usage, model_calls });
                }
            }
            Err(error) => {
                let (kind, error) = (error.kind().to_owned(), error.to_string());
                if self.is_main() {
                    self.queue_event(|| EventKind::RunFailed { kind, error });
                } else {
                    self.queue_event(|| EventKind::AgentFailed { kind, error });
                }
            }
        }
        // All is written; a lease that cannot be given up runs out. Whoever sees the end of the run finds its thread free.
        let end = self.log.end();
        let _ = self.log.close().await;
        self.logged_events.extend(self.queued_events.drain(..).map(|(_, kind)| (end, kind)));
        self.emit_queued_events();
        match result {
            Ok(stop) => Ok(Outcome {
                stop,
                state: state.unwrap_or(self.state),
                usage,
                usage_by_agent: self.shared.budget.by_agent(),
                model_calls: self.machine.calls(),
                spent: self.shared.budget.spent(),
                thread: self.shared.thread.clone(),
                run: self.shared.run.get().to_string(),
            }),
            Err(error) => Err(Box::new(RunError::new(error, self.state, usage))),
        }
    }

    /// Takes what was said with `steer` into the conversation.
    fn drain_inbox(&mut self) -> Result<()> {
        if let Some(control) = self.shared.events.control().filter(|_| self.inbox.is_some()) {
            control.set_said(false);
        }
        self.poll_inbox();
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        for message in std::mem::take(&mut self.undelivered) {
            let text = message.text();
            self.update(Update::message(message))?;
            self.queue_event(|| EventKind::Steered { text });
        }
        self.forget_delivered()
    }

    /// Whether something was said that the run, about to end, has not taken in, or a follow-up waits. If not, nothing more
    /// can be said.
    fn has_pending_input(&mut self) -> bool {
        if self.poll_inbox() {
            return true;
        }
        if self.next_follow_up() {
            return true;
        }
        self.close_inbox();
        self.poll_inbox()
    }

    /// Whether the run is to stop at its next step, for others to go on with it.
    pub(super) fn is_suspended(&self) -> bool {
        self.shared.events.control().is_some_and(RunControl::is_suspended)
    }

    /// Nothing more can be said from now on; what was said before can still be read.
    fn close_inbox(&mut self) {
        if let Some(inbox) = &self.inbox {
            inbox.close();
        }
    }

    /// Reads the inbox; says whether anything waits.
    pub(super) fn poll_inbox(&mut self) -> bool {
        while let Some(message) = self.inbox.as_ref().and_then(|inbox| inbox.pop()) {
            self.let_in(message);
        }
        !self.undelivered.is_empty() || self.refused.is_some()
    }

    /// Takes a message from outside, unless a middleware refuses it: the run fails then where it would be delivered.
    pub(super) fn let_in(&mut self, message: Message) {
        match self.received(vec![message]) {
            Ok(messages) => self.undelivered.extend(messages),
            Err(refused) => self.refused = self.refused.take().or(Some(refused)),
        }
    }

    /// Applies an update and notes it for the log and the events.
    pub(super) fn update(&mut self, update: Update) -> Result<()> {
        if update.is_empty() {
            return Ok(());
        }
        let update = self.stamp(update);
        update.check_storable()?;
        self.state.apply(&update)?;
        let changes = self.changes(&update);
        self.log.push(|| Record::Update { update: RecordUpdate::Live(update) });
        self.queue_events(changes);
        Ok(())
    }

    /// Gives ids to messages that have none.
    pub(super) fn stamp(&self, update: Update) -> Update {
        update.with_ids(&*self.shared.agent.ids)
    }

    /// What is to be told of an update.
    pub(super) fn changes(&self, update: &Update) -> Vec<EventKind> {
        if self.shared.events.is_silent() {
            return Vec::new();
        }
        let entries = update.entries().iter().filter(|e| !e.spec().is::<MessagesChannel>() && !e.spec().is_private());
        let changed = |entry: &UpdateEntry| {
            let channel = entry.spec().name().to_owned();
            entry.to_json().ok().map(|update| EventKind::StateChanged { channel, update })
        };
        entries.filter_map(changed).collect()
    }

    pub(super) fn queue_event(&mut self, kind: impl FnOnce() -> EventKind) {
        if !self.shared.events.is_silent() {
            self.queued_events.push((self.log.waiting(), kind()));
        }
    }

    /// Tells things that stem from the record that was pushed last.
    pub(super) fn queue_events(&mut self, kinds: Vec<EventKind>) {
        let waiting = self.log.waiting();
        self.queued_events.extend(kinds.into_iter().map(|kind| (waiting, kind)));
    }

    /// Notes in the log where the run can go on from, if it does not say so already.
    pub(super) fn log_step(&mut self) {
        self.machine.keep(self.shared.budget.ledger());
        if self.logged_step.as_ref() != Some(&self.machine) {
            let machine = self.machine.clone();
            self.logged_step = Some(machine.clone());
            let run = self.is_main().then(|| self.shared.run.get().to_string());
            self.log.push(|| Record::Step { machine, run });
        }
    }

    /// Appends to the log, then tells what it holds.
    pub(super) async fn flush(&mut self) -> Result<()> {
        self.append().await?;
        self.emit_queued_events();
        Ok(())
    }

    async fn append(&mut self) -> Result<(), JournalError> {
        let waiting = self.log.waiting();
        let appended = self.log.flush(halted_long_ago(&self.shared)).await;
        let start = self.log.end().map(|end| end.saturating_sub(waiting as LogPosition));
        let logged = |(count, kind)| (start.map(|start| start + count as LogPosition), kind);
        self.logged_events.extend(self.queued_events.drain(..).map(logged));
        appended
    }

    /// Tells what is in the log, together with the state that it has led to.
    fn emit_queued_events(&mut self) {
        if self.shared.events.is_silent() {
            return;
        }
        let state = self.is_main().then(|| self.state.clone());
        let end = self.log.end();
        let mut events = std::mem::take(&mut self.logged_events);
        events.extend(self.queued_events.drain(..).map(|(_, kind)| (end, kind)));
        self.shared.events.emit_all(&self.shared.path, events, state);
    }
}
