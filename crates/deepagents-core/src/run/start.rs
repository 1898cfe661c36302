//! How a run begins: with its input, or with what an earlier one left.

use std::collections::HashSet;

use super::RunInput;
use super::driver::Driver;
use super::log::Log;
use crate::context::RunStart;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::LogPosition;
use crate::interrupt::DecisionError;
use crate::journal::{Claim, Lease, Record, Replay, load_replay};
use crate::machine::{Machine, NextStep, Open};
use crate::message::{Message, MessageOp, check_last_results};
use crate::state::{MessagesChannel, Update};
use crate::status::FinishReason;

impl Driver {
    /// Goes on below a run whose call is made again after a decision.
    pub(super) async fn go_on_paused(&mut self, (machine, open): (Machine, Open)) -> Result<Option<FinishReason>> {
        (self.machine, self.open) = (machine, open);
        self.shared.budget.go_on(self.machine.ledger());
        self.queue_begun();
        self.flush().await?;
        Ok(None)
    }

    /// Whether this is the run of the main agent.
    pub(super) fn is_main(&self) -> bool {
        self.shared.path.is_empty()
    }

    /// Loads the thread and takes the input in. Gives the reason why there is nothing to do, if so.
    pub(super) async fn begin(&mut self, input: RunInput, limit: u32) -> Result<Option<FinishReason>> {
        let tap = match self.shared.observer.clone().filter(|_| self.is_main()) {
            Some(tap) => Some((tap, input.record()?)),
            None => None,
        };
        let left = match self.shared.thread.clone() {
            Some(thread) => Some(self.open_thread(thread, &input).await?),
            None if input.at.is_some() => {
                return Err(Error::Input("a position to begin from needs a thread; name it".to_owned()));
            }
            None => None,
        };
        if let Some((tap, record)) = tap {
            let agent = &*self.shared.agent;
            let fresh = left.as_ref().is_none_or(|left| left.turns == 0 && left.state.messages().is_empty());
            let (rewinds, cancel) = (input.at.is_some(), self.shared.cancel.clone());
            if let Err(error) = tap.0.begin(RunStart { agent, input: record, fresh, rewinds, cancel }) {
                self.give_up_thread().await;
                return Err(error);
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

    /// Becomes the owner of a thread and loads it.
    async fn open_thread(&mut self, thread: String, input: &RunInput) -> Result<Replay> {
        let parts = self.shared.agent.clone();
        let journal = parts.journal()?.clone();
        let mut claim = Claim::new(&*self.shared.run, input.lease);
        claim.take_over = input.take_over;
        let lease = Lease::claim(journal.clone(), thread.clone(), claim, self.shared.cancel.clone()).await?;
        let loaded = load_replay(&*journal, &thread, parts.schema.clone(), None).await?;
        let (head, turns, mut fold) = (loaded.head, loaded.fold.turns, loaded.fold);
        let back = input.at.filter(|at| *at != head);
        if let Some(to) = back {
            fold = load_replay(&*journal, &thread, parts.schema.clone(), Some(to)).await?.fold;
        }
        self.log = Log::new(lease, head, loaded.rule, fold.kept.clone());
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
        self.log.push(|| Record::RunStarted { run, at });
        self.queue_begun();
        if let Some(left) = left {
            self.machine = Machine::new(left.turns, limit);
            self.answer_left(left, &mut input.messages)?;
        }
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
        if let Some(Some(stop)) = last.ended.filter(|stop| *stop != Some(FinishReason::Interrupted)) {
            self.give_up_thread().await;
            if let Some((id, _)) = input.answers.into_iter().next() {
                return Err(DecisionError::Unknown { id, open: Vec::new() }.into());
            }
            self.machine = left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, limit));
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
        let (run, at) = self.run_and_time();
        self.log.push(|| Record::RunResumed { run, at });
        self.queue_begun();
        for kind in answered {
            self.queue_event(|| kind);
        }
        self.logged_step.clone_from(&left.machine);
        self.machine = left.machine.clone().unwrap_or_else(|| Machine::new(left.turns, limit));
        self.shared.budget.go_on(self.machine.ledger());
        if let Some(limit) = own {
            self.machine.set_limit(limit);
        }
        if matches!(self.machine.next(), NextStep::Tools { .. } | NextStep::AfterModel) {
            self.open = left.open;
        } else {
            self.answer_left(left, &mut Vec::new())?;
        }
        self.update(input.update)?;
        check_last_results(self.state.messages())?;
        self.flush().await?;
        Ok(None)
    }

    /// Goes on from where an earlier run left the thread: its open calls are answered, not made. Results among what this
    /// run is given answer theirs.
    fn answer_left(&mut self, mut left: Replay, given: &mut Vec<Message>) -> Result<()> {
        let late = left.settle()?;
        self.state = left.state;
        let why = if self.drop_questions()? {
            "the conversation went on before it was decided on"
        } else {
            "the process ended before it"
        };
        let in_doubt: HashSet<String> = left.open.in_doubt.into_values().map(|(id, ..)| id).collect();
        self.complete_turn(&in_doubt, why, late, given)
    }

    fn run_and_time(&self) -> (String, String) {
        (self.shared.run.to_string(), self.shared.agent.clock.now().to_string())
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
