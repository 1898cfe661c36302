//! How a run begins: with its input, or with what an earlier one left.

use std::collections::HashSet;
use std::sync::Arc;

use super::RunInput;
use super::abort::{halted, halted_long_ago};
use super::driver::{Below, Driver, NewThread, Place};
use super::input::OwnedThread;
use super::interrupted::after_interrupted;
use super::log::Log;
use crate::context::RunStart;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::LogPosition;
use crate::interrupt::{ActionRequests, DecisionError, answers_to};
use crate::journal::{Claim, Journal, LastRun, Lease, NOTED_BY, Record, Replay, load_intact, load_replay};
use crate::machine::{Machine, NextStep, Node};
use crate::message::{Message, MessageOp, check_last_results};
use crate::state::{MessagesChannel, Update};
use crate::status::FinishReason;

/// The key of a thread's metadata that names the agent in the background whose thread it is.
pub(crate) const AGENT: &str = "agent";

impl Driver {
    /// Begins below another run, or goes on where an earlier process left the sub-agent.
    pub(super) async fn begin_below(
        &mut self,
        below: Below,
        input: RunInput,
        limit: u32,
    ) -> Result<Option<FinishReason>> {
        self.keep_log(Log::below(below.log, self.shared.path.clone()));
        let Some(left) = below.resumed else {
            let mut input = input;
            input.messages = self.received(input.messages)?;
            if self.log.is_kept() {
                let (inheritance, values) = below.given.inherited_from(&below.base)?;
                let (path, agent) = (self.shared.path.to_vec(), self.shared.agent.name.clone());
                let (call, label) = (Some(below.call), below.label);
                self.log.push(|| Record::AgentStarted { path, call, label, agent, inheritance, values });
            }
            self.state = below.given;
            self.start(None, input, limit).await?;
            return Ok(None);
        };
        let ledger = left.machine.as_ref().and_then(Machine::ledger);
        self.shared.budget.go_on(ledger, &left.uncounted());
        let ended = left.run.as_ref().and_then(|run| run.ended.clone()).flatten();
        if let Some(stop) = ended.filter(|stop| *stop != FinishReason::Interrupted) {
            self.machine = left.machine.unwrap_or_else(|| Machine::new(left.turns, limit));
            self.state = left.state;
            return Ok(Some(stop));
        }
        self.state = left.state.clone();
        if !below.answers.is_empty() {
            self.update(Update::new::<ActionRequests>(below.answers))?;
        }
        self.continue_from(left, own_limit(&input), Vec::new(), Update::none(), limit).await
    }

    /// Messages from outside as the middlewares let them in.
    pub(super) fn received(&self, messages: Vec<Message>) -> Result<Vec<Message>> {
        let stack = &self.shared.agent.stack;
        let through = |message: Message| {
            stack.iter().try_fold(message, |message, middleware| {
                middleware.receive_message(message).map_err(|source| Error::Hook {
                    middleware: middleware.name().to_owned(),
                    hook: "receive_message",
                    source: Box::new(source),
                })
            })
        };
        messages.into_iter().map(through).collect()
    }

    /// Writes to a log from now on.
    fn keep_log(&mut self, log: Log) {
        if let Some(writer) = log.writer() {
            // Set once: a run has one log.
            let _ = self.shared.log.set(writer.clone());
        }
        self.log = log;
    }

    /// Whether this is the run of the main agent.
    pub(super) fn is_main(&self) -> bool {
        !self.is_below
    }

    /// Loads the thread and takes the input in. Gives the reason why there is nothing to do, if so.
    pub(super) async fn begin(
        &mut self,
        mut input: RunInput,
        limit: u32,
        place: Place,
    ) -> Result<Option<FinishReason>> {
        input.messages = self.received(std::mem::take(&mut input.messages))?;
        let tap = match self.shared.observer.clone().filter(|_| self.is_main()) {
            Some(tap) => Some((tap, input.record()?)),
            None => None,
        };
        let left = match (place, self.shared.thread.clone()) {
            (Place::Background(new), Some(thread)) => Some(self.open_child(*new, thread, &input).await?),
            (_, Some(thread)) => {
                let journal = self.shared.agent.journal()?.clone();
                let shared = self.shared.clone();
                tokio::select! {
                    biased;
                    left = self.open_thread(journal, thread, &input) => Some(left?),
                    // A database that does not answer does not keep the run from being ended.
                    () = halted_long_ago(&shared) => return Ok(Some(halted(&shared).await)),
                }
            }
            (_, None) if input.at.is_some() => {
                return Err(Error::Input("a position to begin from needs a thread; name it".to_owned()));
            }
            (_, None) => None,
        };
        if let Some(path) = left.as_ref().map(|left| &left.path).filter(|path| !path.is_empty()) {
            self.become_background(path.clone());
        }
        if let Some((tap, record)) = tap {
            let agent = &*self.shared.agent;
            let fresh = left.as_ref().is_none_or(|left| left.turns == 0 && left.state.messages().is_empty());
            let (rewinds, cancel) = (input.at.is_some(), self.shared.cancel.clone());
            if let Err(error) = tap.0.begin(RunStart { agent, input: record, fresh, rewinds, cancel }) {
                self.give_up_thread().await;
                return Err(error);
            }
        }
        if let (Some(id), Some(left)) = (input.id.clone(), &left) {
            match self.asked_again(&id, left, input.resume) {
                Ok(AskedAgain::No) => {}
                Ok(AskedAgain::Open) => {
                    input = RunInput { messages: Vec::new(), update: Update::none(), resume: true, ..input };
                }
                Ok(AskedAgain::Ended(stop)) => {
                    self.give_up_thread().await;
                    self.shared.run.resume(&id, left.run.as_ref().map_or(0, |run| run.attempt));
                    self.machine = left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, limit));
                    self.shared.budget.go_on(self.machine.ledger(), &left.uncounted());
                    self.state = left.clone().settled(self.shared.thread.as_deref().unwrap_or_default())?.state;
                    return Ok(Some(stop));
                }
                Err(error) => {
                    self.give_up_thread().await;
                    return Err(error);
                }
            }
        }
        if input.resume {
            return match left {
                Some(left) => self.resume(left, input, limit).await,
                None => Err(Error::Input("there is no thread to resume; name it".to_owned())),
            };
        }
        self.start(left, input, limit).await?;
        Ok(None)
    }

    /// Whether a run with the id of the input is in the thread already.
    fn asked_again(&self, id: &str, left: &Replay, resume: bool) -> Result<AskedAgain> {
        let thread = self.shared.thread.as_deref().unwrap_or_default();
        if left.earlier_runs.iter().any(|run| run == id) {
            return Err(Error::Input(format!(
                "run `{id}` of thread `{thread}` is over, and others have followed it; read the thread instead"
            )));
        }
        match left.run.as_ref() {
            Some(last) if last.run == id && resume => Ok(AskedAgain::No),
            Some(last) if last.run == id => Ok(match last.ended.clone().flatten() {
                Some(stop) if stop != FinishReason::Interrupted => AskedAgain::Ended(stop),
                _ => AskedAgain::Open,
            }),
            Some(last) if resume => Err(Error::Input(format!(
                "the last run of thread `{thread}` is `{}`, not `{id}`; resume it without an id or with its own",
                last.run
            ))),
            _ => Ok(AskedAgain::No),
        }
    }

    /// Begins the thread of an agent in the background.
    async fn open_child(&mut self, new: NewThread, thread: String, input: &RunInput) -> Result<Replay> {
        let journal = self.shared.agent.journal()?.clone();
        let NewThread { parent, agent: name, label, path, state } = new;
        journal.threads().set_parent(&thread, Some(&parent)).await?;
        let metadata = [(AGENT.to_owned(), name.into())].into_iter().collect();
        journal.threads().set_metadata(&thread, metadata).await?;
        let mut left = self.open_thread(journal, thread, input).await?;
        if left.end == 0 {
            let (inheritance, values) = state.inherited_from(&state)?;
            self.become_background(path.clone());
            let agent = self.shared.agent.name.clone();
            self.log.push(|| Record::AgentStarted { path, call: None, label, agent, inheritance, values });
            left.state = state;
        }
        Ok(left)
    }

    /// Goes on as an agent in the background, whose thread says where in a tree of agents it is.
    fn become_background(&mut self, path: Vec<String>) {
        self.shared.budget.record();
        self.log.set_root(path.clone());
        // Nobody has been given a context yet.
        let shared = Arc::get_mut(&mut self.shared);
        debug_assert!(shared.is_some(), "the run begins");
        if let Some(shared) = shared {
            shared.path = path.into();
        }
    }

    /// Becomes the owner of a thread and loads it.
    async fn open_thread(&mut self, journal: Arc<dyn Journal>, thread: String, input: &RunInput) -> Result<Replay> {
        let parts = self.shared.agent.clone();
        if input.resume && input.take_over && !input.answers.is_empty() {
            // A wrong answer must not end the run that works on the thread.
            let loaded = load_replay(&*journal, &thread, parts.schema.clone(), None).await?;
            let answers = answers_to(&loaded.fold.state, input.answers.clone(), parts.clock.now())?;
            self.check_edits(&loaded.fold.state, &answers)?;
        }
        let lease = match input.owned.as_ref().and_then(OwnedThread::take) {
            Some(lease) if lease.thread() != thread => {
                let what = format!("the lease is of thread `{}`, the run goes on with `{thread}`", lease.thread());
                return Err(Error::Input(what));
            }
            Some(lease) => lease,
            None => {
                let mut claim = Claim::new(self.shared.run.own(), input.lease);
                claim.take_over = input.take_over;
                Lease::claim(journal, thread.clone(), claim).await?
            }
        };
        let lease = lease.of_run(self.shared.cancel.clone());
        let journal = lease.journal().clone();
        if !input.note.is_empty() {
            let mut note = input.note.clone();
            note.insert(NOTED_BY.to_owned(), lease.owner().into());
            journal.threads().set_metadata(&thread, note).await?;
        }
        // A run that goes back may leave what cannot be read.
        let loaded = match input.at {
            Some(_) => load_intact(&*journal, &thread, parts.schema.clone()).await?,
            None => load_replay(&*journal, &thread, parts.schema.clone(), None).await?,
        };
        let (head, turns, mut fold) = (loaded.head, loaded.fold.turns, loaded.fold);
        let back = input.at.filter(|at| *at != head);
        if let Some(to) = back {
            fold = load_replay(&*journal, &thread, parts.schema.clone(), Some(to)).await?.fold;
        }
        self.keep_log(Log::own(lease, loaded.thread, head, loaded.rule, &fold));
        if let Some(to) = back {
            self.go_back(&mut fold, to, turns.saturating_add(1), head);
        }
        Ok(fold)
    }

    /// Leaves the thread as it is, for a run that does not begin. A lease that cannot be given up runs out.
    async fn give_up_thread(&mut self) {
        let _ = self.log.close().await;
    }

    fn go_back(&mut self, fold: &mut Replay, to: LogPosition, turn: u32, head: LogPosition) {
        self.log.push(|| Record::Rewind { to, turn });
        fold.rewound(turn, head);
    }

    /// Begins a run: answers what an earlier one left open, and takes the input in.
    async fn start(&mut self, left: Option<Replay>, mut input: RunInput, limit: u32) -> Result<()> {
        let (run, at) = self.run_and_time();
        let thread = self.log.thread().cloned();
        self.log.push(|| Record::RunStarted { run, at, thread });
        self.queue_begun();
        if let Some(left) = left {
            self.machine = Machine::new(left.turns, limit);
            if let Some(ledger) = left.machine.as_ref().and_then(Machine::ledger).filter(|_| self.log.has_root()) {
                self.shared.budget.begin_after(ledger);
            }
            self.answer_left(left, &mut input.messages)?;
        }
        self.take_undelivered();
        self.forget_shape()?;
        // Answers that are given count as well: the calls of two turns must not share an identity.
        let given = input.messages.iter().filter(|m| m.as_assistant().is_some()).count();
        self.machine.turns_given(u32::try_from(given).unwrap_or(u32::MAX));
        let ops = input.messages.into_iter().map(MessageOp::put).collect::<Vec<_>>();
        if !ops.is_empty() {
            self.update(Update::new::<MessagesChannel>(ops))?;
        }
        self.update(input.update)?;
        if self.state.messages().is_empty() {
            return Err(Error::Input("there is nothing to do: give the run a message".to_owned()));
        }
        self.log_step();
        self.flush().await
    }

    /// Goes on with a run that did not end, or failed.
    async fn resume(&mut self, left: Replay, input: RunInput, limit: u32) -> Result<Option<FinishReason>> {
        let Some(last) = left.run.clone() else {
            self.give_up_thread().await;
            let thread = self.shared.thread.as_deref().unwrap_or_default();
            return Err(Error::Input(format!("thread `{thread}` has no run to resume; give it a message instead")));
        };
        let mut left = left;
        if let Some(Some(stop)) = last.ended.filter(|stop| *stop != Some(FinishReason::Interrupted)) {
            if let Some((id, _)) = input.answers.first().cloned() {
                self.give_up_thread().await;
                return Err(DecisionError::Unknown { id, open: Vec::new() }.into());
            }
            if stop.is_from_outside() {
                let ledger = left.machine.as_ref().and_then(Machine::ledger).cloned();
                let interrupted = after_interrupted(left.state.messages());
                let last = left.state.messages().last();
                let answered = interrupted.is_none() && last.is_some_and(|message| message.as_assistant().is_some());
                let after = if answered { Node::Model } else { Node::Tools };
                let mut machine = Machine::after(after, left.turns, limit);
                machine.keep(ledger.clone());
                left.machine = Some(machine);
                self.state = left.state.clone();
                self.shared.budget.go_on(ledger.as_ref(), &left.uncounted());
                let update = input.update.clone().and(interrupted.unwrap_or_else(Update::none));
                return self.continue_from(left, own_limit(&input), Vec::new(), update, limit).await;
            }
            self.give_up_thread().await;
            self.shared.run.resume(&last.run, last.attempt);
            self.machine = left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, limit));
            self.shared.budget.go_on(self.machine.ledger(), &left.uncounted());
            self.answer_left(left, &mut Vec::new())?;
            return Ok(Some(stop));
        }
        let own = own_limit(&input);
        // Answers are looked at before anything is stored: a wrong one leaves the question open.
        self.state = left.state.clone();
        let answered = match self.take_answers(input.answers) {
            Ok(answered) => answered,
            Err(error) => {
                self.give_up_thread().await;
                return Err(error);
            }
        };
        let ledger = left.machine.as_ref().and_then(Machine::ledger);
        self.shared.budget.go_on(ledger, &left.uncounted());
        self.continue_from(left, own, answered, input.update, limit).await
    }

    /// Goes on from where an earlier process left the agent. The state has been taken over.
    async fn continue_from(
        &mut self,
        left: Replay,
        own_limit: Option<u32>,
        answered: Vec<EventKind>,
        update: Update,
        limit: u32,
    ) -> Result<Option<FinishReason>> {
        if let Some(last) = &left.run {
            self.shared.run.resume(&last.run, last.attempt + 1);
        }
        let keys = left.run.as_ref().and_then(|last| self.keys_of_copy(last));
        if let Some(keys) = &keys {
            self.shared.run.set_keys_of_copy(keys);
        }
        let ((run, at), thread) = (self.run_and_time(), self.log.thread().cloned());
        self.log.push(|| Record::RunResumed { run, at, thread, keys });
        self.queue_begun();
        for kind in answered {
            self.queue_event(|| kind);
        }
        self.logged_step.clone_from(&left.machine);
        self.take_undelivered();
        self.machine = left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, limit));
        if let Some(limit) = own_limit {
            self.machine.set_limit(limit);
        }
        if matches!(self.machine.next(), NextStep::Tools { .. } | NextStep::AfterModel) {
            (self.open, self.children) = (left.open, left.children);
        } else {
            self.answer_left(left, &mut Vec::new())?;
        }
        self.update(update)?;
        check_last_results(self.state.messages())?;
        self.flush().await?;
        Ok(None)
    }

    /// What keys of calls begin with, where the thread is a copy of one that the run was under way in: what an earlier
    /// process of this thread has chosen, or an id of their own.
    fn keys_of_copy(&self, last: &LastRun) -> Option<String> {
        let (now, before) = (self.log.thread()?, last.thread.as_ref());
        match before.is_none_or(|before| before.is_same(now)) {
            true => last.keys.clone(),
            false => Some(format!("{}/{}", last.run, self.shared.agent.ids.next("copy"))),
        }
    }

    /// Goes on from where an earlier run left the thread: its open calls are answered, not made. Results among what this
    /// run is given answer theirs.
    fn answer_left(&mut self, mut left: Replay, given: &mut Vec<Message>) -> Result<()> {
        let late = left.settle()?;
        self.state = left.state;
        self.join_children(left.children.into_values())?;
        let why = if self.drop_questions()? {
            "the conversation went on before it was decided on"
        } else {
            "the process ended before it"
        };
        let in_doubt: HashSet<String> = left.open.in_doubt.into_values().map(|(id, ..)| id).collect();
        self.complete_turn(&in_doubt, why, late, given)
    }

    fn run_and_time(&self) -> (String, String) {
        (self.shared.run.get().to_string(), self.shared.agent.clock.now().to_string())
    }

    fn queue_begun(&mut self) {
        let (thread, name) = (self.shared.thread.clone(), self.shared.agent.name.clone());
        if self.is_main() {
            self.queue_event(|| EventKind::RunStarted { thread });
        }
        self.queue_event(|| EventKind::AgentStarted { name });
    }
}

/// The number of model calls that the input allows the main agent.
pub(super) fn own_limit(input: &RunInput) -> Option<u32> {
    input.budget.model_calls.map(|calls| u32::try_from(calls).unwrap_or(u32::MAX))
}

/// Whether a run with an id is in a thread already.
enum AskedAgain {
    No,
    /// It has not ended, and is gone on with.
    Open,
    Ended(FinishReason),
}
