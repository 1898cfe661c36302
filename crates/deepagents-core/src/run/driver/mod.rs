//! The driver: it awaits models, tools and the journal, and carries out what the state machine decides.

mod inbox;
mod setting;
mod written;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::abort::{Break, Halt};
use super::hooks::Phase;
use super::log::Log;
use super::start::own_limit;
use super::{Outcome, RunError, RunInput};
use crate::context::{AgentDefinition, BudgetTracker, Registered, RunControl, Shared};
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::{CallId, LogPosition};
use crate::interrupt::open_questions;
use crate::journal::{ChildLog, Record};
use crate::machine::{Machine, NextStep, Open};
use crate::message::Message;
use crate::state::{ChildState, State};
use crate::status::FinishReason;
use crate::tool::ToolSet;
pub(crate) use setting::{Below, NewThread, Place, Setting};

pub(crate) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) state: State,
    pub(super) machine: Machine,
    /// Maximum number of its model calls, unless it continues with a limit of its own.
    pub(super) max_model_calls: u32,
    pub(super) log: Log,
    /// The open turn, if the run is resumed in the middle of one.
    pub(super) open: Open,
    /// Sub-agents of that turn, as an earlier process left them.
    pub(super) children: BTreeMap<Vec<String>, ChildLog>,
    /// Sub-agents of the current turn that wait for decisions.
    pub(super) paused: Vec<(CallId, ChildState)>,
    /// Whether the agent shares the thread of a parent agent.
    pub(super) is_below: bool,
    /// Whether the start of the run is in its log, or about to be.
    pub(super) begun: bool,
    /// The state machine as last logged.
    pub(super) logged_step: Option<Machine>,
    /// Events to emit once their record is in the log, each with the number of queued records up to that record.
    queued_events: Vec<(usize, EventKind)>,
    /// Events whose records are in the log, each with the position after its record.
    logged_events: Vec<(Option<LogPosition>, EventKind)>,
    /// Read from the inbox, but not yet part of the conversation.
    pub(super) undelivered: Vec<Message>,
    /// Follow-ups that the thread kept from an earlier run.
    pub(super) follow_ups: VecDeque<Message>,
    /// Why a message in the inbox was refused.
    refused: Option<Error>,
    /// Number of invalid structured answers so far.
    pub(super) structured_attempts: u32,
    /// Whether the structured answer is requested through a tool.
    pub(super) structured_by_tool: bool,
    /// The tools that middlewares offered for the last request; `None` before this process makes its first one.
    pub(super) offered: Option<Vec<ToolSet>>,
    /// Keeps the agent in the registry by which it can be cancelled alone.
    pub(super) registered: Option<Registered>,
}

impl Driver {
    /// Drives the run to its end.
    pub(crate) async fn run(
        agent: Arc<AgentDefinition>,
        input: Box<RunInput>,
        setting: Setting,
    ) -> Result<Outcome, Box<RunError>> {
        // One-time work and work between two answers is boxed. A run mostly waits for a model, and this keeps its
        // future small.
        let (mut driver, began) = Box::pin(Self::set_up(agent, input, setting)).await;
        let result = match began {
            Ok(None) => driver.drive().await,
            Ok(Some(over)) => Ok(over),
            Err(error) => Err(error),
        };
        driver.machine.set_budget_state(driver.shared.budget.budget_state());
        driver.close_inbox();
        Box::pin(driver.finish(result)).await
    }

    /// Sets up a run. Returns the finish reason if there is nothing to do.
    async fn set_up(
        agent: Arc<AgentDefinition>,
        input: Box<RunInput>,
        setting: Setting,
    ) -> (Box<Self>, Result<Option<FinishReason>>) {
        let (input, parts) = (*input, agent);
        let is_main = setting.above.is_none() && matches!(setting.place, Place::Main);
        let above = setting.above.or_else(|| input.above.clone());
        let budget =
            BudgetTracker::new(above, input.budget.clone(), &parts.budget).tracked_under(setting.tracked_under);
        let of_main = setting.root.as_ref().and_then(|main| main.calls_of_started_agents());
        let shared = Arc::new(Shared {
            thread: input.thread.clone(),
            agent_calls: input.agent_calls.or(of_main),
            path: setting.path,
            extensions: input.extensions.clone(),
            observer: input.observer.clone(),
            root: setting.root,
            ..Shared::new(parts.clone(), setting.run, setting.events, setting.cancel, Arc::new(budget))
        });
        let control = shared.events.control();
        let registered = control.map(|all| all.agents.register(shared.path.clone(), shared.cancel.clone()));
        let own = own_limit(&input);
        let is_below = matches!(setting.place, Place::Below(_));
        let max_model_calls = match shared.agent_calls {
            Some(limit) => limit.min(own.unwrap_or(if is_main { u32::MAX } else { parts.max_model_calls })),
            None => own.unwrap_or(parts.max_model_calls),
        };
        let mut driver = Box::new(Self {
            state: State::new(parts.schema.clone()),
            machine: Machine::new(0, max_model_calls),
            max_model_calls,
            log: Log::default(),
            open: Open::default(),
            children: BTreeMap::new(),
            paused: Vec::new(),
            is_below,
            begun: false,
            logged_step: None,
            queued_events: Vec::new(),
            logged_events: Vec::new(),
            undelivered: Vec::new(),
            follow_ups: VecDeque::new(),
            refused: None,
            structured_attempts: 0,
            structured_by_tool: parts.answer_tool().is_some(),
            offered: None,
            registered,
            shared,
        });
        let began = match (input.check(), setting.place) {
            (Err(error), _) => Err(error),
            (Ok(()), Place::Below(below)) => driver.begin_below(*below, input).await,
            (Ok(()), place) => driver.begin(input, place).await,
        };
        if !driver.begun && driver.is_main() {
            // Leaves the thread unchanged. A lease that cannot be released expires.
            let _ = driver.log.close().await;
        }
        (driver, began)
    }

    async fn drive(&mut self) -> Result<FinishReason> {
        loop {
            let next = self.machine.next();
            if self.is_suspended() && !matches!(next, NextStep::Finish(_)) {
                return Ok(FinishReason::Suspended);
            }
            let step = match next {
                NextStep::Finish(stop) => {
                    if self.machine.can_be_prolonged() && self.may_call_again() && self.has_pending_input() {
                        self.machine.prolong();
                        continue;
                    }
                    return Ok(stop);
                }
                NextStep::BeforeAgent => self.hooks(Phase::BeforeAgent).await,
                NextStep::BeforeModel => match self.shared.budget.exhausted() {
                    Some(stop) => self.end_over_budget(stop).map_err(Break::Fail),
                    None => {
                        self.drain_inbox()?;
                        self.close_if_last();
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
                Err(Break::Fail(error)) => match error.budget_stop().cloned() {
                    Some(stop) => self.end_over_budget(stop)?,
                    None => return Err(error),
                },
                // Open calls have suspended sub-agents, and nobody is asked anything.
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

    /// Returns whether the limit of model calls and the budget allow another call.
    pub(super) fn may_call_again(&self) -> bool {
        self.machine.has_calls_left() && self.shared.budget.exhausted().is_none()
    }

    /// Ends the run because its budget is spent.
    fn end_over_budget(&mut self, stop: FinishReason) -> Result<()> {
        self.answer_open(stop.reason())?;
        self.machine.end_over_budget(stop);
        Ok(())
    }

    async fn finish(mut self: Box<Self>, result: Result<FinishReason>) -> Result<Outcome, Box<RunError>> {
        // If the thread was lost, the loss is the real reason of the end.
        let mut result = self.log.why_lost().map_or(result, |lost| Err(lost.into()));
        // However the run ended, the stored history must allow another run to continue.
        let why = if result.is_ok() { "the run was ended before it" } else { "the run failed" };
        let suspended = matches!(result, Ok(FinishReason::Suspended));
        let stays_open = suspended || matches!(result, Ok(FinishReason::Interrupted));
        let kept = match stays_open {
            true => self.keep_undelivered(),
            false => self.answer_open(why).and_then(|()| self.forget_questions()),
        };
        result = result.and_then(|stop| kept.map(|()| stop));
        let mut state = None;
        if stays_open {
            result = result.and_then(|stop| {
                state = Some(if self.is_below { self.state_with_waiting()? } else { self.settled_state()? });
                Ok(stop)
            });
        }
        let run = self.shared.run.get().to_string();
        let stop = result.as_ref().ok().cloned();
        self.log_step();
        if !suspended {
            self.log.push(|| Record::RunFinished { run, stop });
        }
        let appended = self.append().await;
        result = result.and_then(|stop| Ok(appended.map(|()| stop)?));
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
                let failed = EventKind::failed(error, self.is_main());
                self.queue_event(|| failed);
            }
        }
        // Everything is written, and a lease that cannot be released expires. The lease is released before the final
        // events, so that whoever sees them finds the thread free.
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
            Err(error) => Err(Box::new(RunError {
                state: self.state,
                usage,
                usage_by_agent: self.shared.budget.by_agent(),
                model_calls: self.machine.calls(),
                spent: self.shared.budget.spent(),
                thread: self.shared.thread.clone(),
                run: self.shared.run.get().to_string(),
                ..RunError::without_state(error)
            })),
        }
    }

    /// Returns whether the run must stop at its next step, for a later run to resume it.
    pub(super) fn is_suspended(&self) -> bool {
        self.shared.events.control().is_some_and(RunControl::is_suspended)
    }
}
