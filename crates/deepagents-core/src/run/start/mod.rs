//! Starts a run: with its input, or from what an earlier run left.

mod resume;
mod thread;

use super::RunInput;
use super::abort::{halt_grace_elapsed, halted};
use super::driver::{Below, Driver, Place};
use super::log::Log;
use crate::context::RunStart;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::interrupt::ActionRequests;
use crate::journal::{Record, Replay};
use crate::machine::Machine;
use crate::message::{Block, Message, MessageOp};
use crate::middleware::on_text;
use crate::state::Update;
use crate::status::FinishReason;

/// The thread metadata key that names the background agent the thread belongs to.
pub(crate) const AGENT: &str = "agent";

impl Driver {
    /// Starts a sub-agent's run, or resumes it where an earlier process left it.
    pub(super) async fn begin_below(&mut self, below: Below, mut input: RunInput) -> Result<Option<FinishReason>> {
        self.keep_log(Log::below(below.log, self.shared.path.clone()));
        let Some(left) = below.resumed else {
            input.messages = self.received_input(input.messages).await?;
            if self.log.is_kept() {
                let (inheritance, values) = below.given.inherited_from(&below.base)?;
                let (path, agent) = (self.shared.path.to_vec(), self.shared.agent.name.clone());
                let (call, label) = (Some(below.call), below.label);
                self.log.push(|| Record::AgentStarted { path, call, label, agent, inheritance, values });
            }
            self.state = below.given;
            self.start(None, input).await?;
            return Ok(None);
        };
        self.resume_budget(&left);
        let ended = left.run.as_ref().and_then(|run| run.ended.clone()).flatten();
        if let Some(stop) = ended.filter(|stop| *stop != FinishReason::Interrupted) {
            self.machine = self.machine_of(&left);
            self.state = left.state;
            return Ok(Some(stop));
        }
        self.state = left.state.clone();
        if !below.answers.is_empty() {
            self.update(Update::new::<ActionRequests>(below.answers))?;
        }
        self.continue_from(left, own_limit(&input), Vec::new(), (Update::none(), Vec::new())).await
    }

    /// Returns the state machine at the last step that was left, or one before the first step.
    fn machine_of(&self, left: &Replay) -> Machine {
        left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, self.max_model_calls))
    }

    /// Continues with what the run has spent so far.
    fn resume_budget(&self, left: &Replay) {
        let budget_state = left.machine.as_ref().and_then(Machine::budget_state);
        self.shared.budget.resume_from(budget_state, &left.uncounted());
    }

    /// Passes the messages of an input through the middlewares, without blocking other tasks if they are long.
    async fn received_input(&self, messages: Vec<Message>) -> Result<Vec<Message>> {
        let texts = messages.iter().flat_map(Message::content).filter_map(Block::as_text);
        let (bytes, agent) = (texts.map(str::len).sum(), self.shared.agent.clone());
        on_text(bytes, move || messages.into_iter().map(|message| agent.received(message)).collect()).await
    }

    /// Passes messages from outside through the middlewares.
    pub(super) fn received(&self, messages: Vec<Message>) -> Result<Vec<Message>> {
        messages.into_iter().map(|message| self.shared.agent.received(message)).collect()
    }

    /// Sets the log of the run.
    fn keep_log(&mut self, log: Log) {
        if let Some(writer) = &log.to {
            // Cannot fail: a run has one log.
            let _ = self.shared.log.set(writer.clone());
        }
        self.log = log;
    }

    /// Returns whether this run is not a sub-agent's.
    pub(super) fn is_main(&self) -> bool {
        !self.is_below
    }

    /// Loads the thread and applies the input. Returns the finish reason if there is nothing to do.
    pub(super) async fn begin(&mut self, mut input: RunInput, place: Place) -> Result<Option<FinishReason>> {
        input.messages = self.received_input(std::mem::take(&mut input.messages)).await?;
        let observer = match self.shared.observer.clone().filter(|_| self.is_main()) {
            Some(observer) => Some((observer, input.record()?)),
            None => None,
        };
        let left = match self.shared.thread.clone() {
            Some(thread) => {
                let journal = self.shared.agent.journal()?.clone();
                let shared = self.shared.clone();
                let opened = async {
                    match place {
                        Place::Background(new) => self.open_child(*new, journal, thread, &input).await,
                        _ => self.open_thread(journal, thread, &input).await,
                    }
                };
                tokio::select! {
                    biased;
                    left = opened => Some(left?),
                    // A database that does not respond must not keep the run from being ended.
                    () = halt_grace_elapsed(&shared) => return Ok(Some(halted(&shared).await)),
                }
            }
            None if input.at.is_some() => {
                return Err(Error::Input("a position to start from needs a thread; name one".to_owned()));
            }
            None => None,
        };
        if let Some(path) = left.as_ref().map(|left| &left.path).filter(|path| !path.is_empty()) {
            self.become_background(path.clone());
        }
        if let Some((observer, record)) = observer {
            let agent = &*self.shared.agent;
            let fresh = left.as_ref().is_none_or(|left| left.turns == 0 && left.state.messages().is_empty());
            let (rewinds, cancel) = (input.at.is_some(), self.shared.cancel.clone());
            let suspender = self.shared.events.suspender();
            observer.begin(RunStart { agent, input: record, fresh, rewinds, cancel, suspender })?;
        }
        if let (Some(id), Some(left)) = (input.id.clone(), &left) {
            match self.check_repeated_run(&id, left, input.resume)? {
                RepeatedRun::No => {}
                RepeatedRun::Open => {
                    input = RunInput { messages: Vec::new(), update: Update::none(), resume: true, ..input };
                }
                RepeatedRun::Ended(stop) => {
                    self.shared.run.resume(&id, left.run.as_ref().map_or(0, |run| run.attempt));
                    self.machine = self.machine_of(left);
                    self.resume_budget(left);
                    self.state = left.clone().settled(self.shared.thread.as_deref().unwrap_or_default())?.state;
                    return Ok(Some(stop));
                }
            }
        }
        if input.resume {
            return match left {
                Some(left) => self.resume(left, input).await,
                None => Err(Error::Input("there is no thread to resume; name one".to_owned())),
            };
        }
        self.start(left, input).await?;
        Ok(None)
    }

    /// Checks whether the thread already has a run with the id of the input.
    fn check_repeated_run(&self, id: &str, left: &Replay, resume: bool) -> Result<RepeatedRun> {
        let thread = self.shared.thread.as_deref().unwrap_or_default();
        if left.earlier_runs.iter().any(|run| run == id) {
            return Err(Error::Input(format!(
                "run `{id}` of thread `{thread}` is over, and others have followed it; read the thread instead"
            )));
        }
        match left.run.as_ref() {
            Some(last) if last.run == id && resume => Ok(RepeatedRun::No),
            Some(last) if last.run == id => Ok(match last.ended.clone().flatten() {
                Some(stop) if stop != FinishReason::Interrupted => RepeatedRun::Ended(stop),
                _ => RepeatedRun::Open,
            }),
            Some(last) if resume => Err(Error::Input(format!(
                "the last run of thread `{thread}` is `{}`, not `{id}`; resume it without an id or with its own",
                last.run
            ))),
            _ => Ok(RepeatedRun::No),
        }
    }

    /// Starts a run: answers calls that an earlier run left open, and applies the input.
    async fn start(&mut self, left: Option<Replay>, mut input: RunInput) -> Result<()> {
        let (run, at) = self.run_and_time();
        let thread = self.log.thread.clone();
        self.log.push(|| Record::RunStarted { run, at, thread });
        self.queue_begun();
        if let Some(left) = left {
            self.machine = Machine::new(left.turns, self.max_model_calls);
            // The thread of a background agent.
            if !self.log.root.is_empty()
                && let Some(budget_state) = left.machine.as_ref().and_then(Machine::budget_state)
            {
                self.shared.budget.begin_after(budget_state);
            }
            self.answer_open_calls(left, &mut input.messages)?;
        }
        self.keep_agent_calls();
        self.take_undelivered();
        self.clear_structured()?;
        // Answers in the input count as turns too, because calls of two turns must not share an identity.
        let given = input.messages.iter().filter(|m| m.as_assistant().is_some()).count();
        self.machine.turns_given(u32::try_from(given).unwrap_or(u32::MAX));
        self.update(Update::messages(input.messages.into_iter().map(MessageOp::put).collect()))?;
        self.update(input.update)?;
        if self.state.messages().is_empty() {
            return Err(Error::Input("there is nothing to do: give the run a message".to_owned()));
        }
        self.log_step();
        self.flush().await
    }

    /// Stores the limit that applies to each agent of the run, or takes the one that an earlier process stored.
    fn keep_agent_calls(&mut self) {
        if !self.is_main() {
            return;
        }
        match (self.shared.agent_calls, self.machine.agent_calls()) {
            (Some(given), _) => self.machine.set_agent_calls(Some(given)),
            (None, Some(earlier)) => {
                // Cannot be set already: a run begins once.
                let _ = self.shared.earlier_agent_calls.set(earlier);
            }
            (None, None) => {}
        }
    }

    fn run_and_time(&self) -> (String, String) {
        (self.shared.run.get().to_string(), self.shared.agent.clock.now().to_string())
    }

    fn queue_begun(&mut self) {
        self.begun = true;
        let (thread, name) = (self.shared.thread.clone(), self.shared.agent.name.clone());
        if self.is_main() {
            self.queue_event(|| EventKind::RunStarted { thread });
        }
        self.queue_event(|| EventKind::AgentStarted { name });
    }
}

/// Returns the number of model calls that the input allows the main agent.
pub(super) fn own_limit(input: &RunInput) -> Option<u32> {
    input.budget.model_calls.map(|calls| u32::try_from(calls).unwrap_or(u32::MAX))
}

/// Whether the thread already has a run with the input's id.
enum RepeatedRun {
    No,
    /// The run has not ended and is resumed.
    Open,
    Ended(FinishReason),
}
