//! Resumes a run from what an earlier one left.

use super::own_limit;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::interrupt::{ActionRequests, DecisionError};
use crate::journal::{LastRun, Record, Replay};
use crate::machine::{Machine, NextStep, Node};
use crate::message::{Message, check_last_results};
use crate::run::RunInput;
use crate::run::driver::Driver;
use crate::run::interrupted::{after_interrupted, after_limit};
use crate::run::left_calls::{Left, begun_by, in_doubt};
use crate::state::Update;
use crate::status::FinishReason;

impl Driver {
    /// Resumes a run that failed or did not finish.
    pub(super) async fn resume(&mut self, mut left: Replay, input: RunInput) -> Result<Option<FinishReason>> {
        let Some(last) = left.run.clone() else {
            let thread = self.shared.thread.as_deref().unwrap_or_default();
            return Err(Error::Input(format!("thread `{thread}` has no run to resume; give it a message instead")));
        };
        if let Some(Some(stop)) = last.ended.filter(|stop| *stop != Some(FinishReason::Interrupted)) {
            if let Some((id, _)) = input.answers.first().cloned() {
                return Err(DecisionError::Unknown { id, open: Vec::new() }.into());
            }
            if stop.is_from_outside() {
                self.state = left.state.clone();
                self.check_given(&input.update, false)?;
                let budget_state = left.machine.as_ref().and_then(Machine::budget_state).cloned();
                let messages = left.state.messages();
                let goes_on = after_interrupted(messages).or_else(|| after_limit(&left, &stop));
                let last = messages.last();
                let answered = goes_on.is_none() && last.is_some_and(|message| message.as_assistant().is_some());
                let after = if answered { Node::Model } else { Node::Tools };
                let mut machine = Machine::after(after, left.turns, self.max_model_calls);
                machine.set_budget_state(budget_state);
                machine.set_agent_calls(left.machine.as_ref().and_then(Machine::agent_calls));
                left.machine = Some(machine);
                self.resume_budget(&left);
                if stop == FinishReason::StepLimit {
                    // No calls are left, so resuming means counting the limit anew.
                    self.shared.budget.count_calls_anew(&self.shared.agent.budget);
                }
                let update = input.update.clone().and(goes_on.unwrap_or_else(Update::none));
                let (own, messages) = (own_limit(&input), input.messages);
                return self.continue_from(left, own, Vec::new(), (update, messages)).await;
            }
            if !input.messages.is_empty() {
                return Err(Error::Input(
                    "the last run of the thread has ended and takes no more messages; start a new run with them"
                        .to_owned(),
                ));
            }
            self.shared.run.resume(&last.run, last.attempt);
            self.machine = self.machine_of(&left);
            self.resume_budget(&left);
            self.answer_open_calls(left, &mut Vec::new())?;
            return Ok(Some(stop));
        }
        let own = own_limit(&input);
        // Answers are validated before anything is stored, so that an invalid one leaves the question open.
        self.state = left.state.clone();
        let waits = left.machine.as_ref().is_some_and(has_calls_under_way);
        self.check_given(&input.update, waits)?;
        let answered = self.take_answers(input.answers)?;
        self.resume_budget(&left);
        self.continue_from(left, own, answered, (input.update, input.messages)).await
    }

    /// Rejects an update that the state cannot take, before anything is stored.
    fn check_given(&self, update: &Update, waits: bool) -> Result<()> {
        update.check_storable()?;
        let mut after = self.state.clone();
        after.apply(update)?;
        if waits {
            check_last_results(after.messages())?;
        }
        Ok(())
    }

    /// Continues from where an earlier process left the agent, with an update and messages. The caller has already set
    /// the state.
    pub(super) async fn continue_from(
        &mut self,
        left: Replay,
        own_limit: Option<u32>,
        answered: Vec<EventKind>,
        (update, messages): (Update, Vec<Message>),
    ) -> Result<Option<FinishReason>> {
        if let Some(last) = &left.run {
            self.shared.run.resume(&last.run, last.attempt + 1);
        }
        let keys = left.run.as_ref().and_then(|last| self.keys_of_copy(last));
        if let Some(keys) = &keys {
            self.shared.run.set_keys_of_copy(keys);
        }
        let ((run, at), thread) = (self.run_and_time(), self.log.thread.clone());
        self.log.push(|| Record::RunResumed { run, at, thread, keys });
        self.queue_begun();
        for kind in answered {
            self.queue_event(|| kind);
        }
        self.logged_step.clone_from(&left.machine);
        self.take_undelivered();
        self.machine = self.machine_of(&left);
        if let Some(limit) = own_limit {
            self.machine.set_limit(limit);
        }
        if let Some(calls) = self.shared.agent_calls {
            let limit = self.machine.calls().saturating_add(calls);
            // A sub-agent has a limit of its own, also in the background.
            let is_main = self.is_main() && self.log.root.is_empty();
            let own = own_limit.or_else(|| (!is_main).then_some(self.shared.agent.max_model_calls));
            self.machine.set_limit(own.map_or(limit, |own| own.min(limit)));
        }
        self.keep_agent_calls();
        if has_calls_under_way(&self.machine) {
            (self.open, self.children) = (left.open, left.children);
        } else {
            self.answer_open_calls(left, &mut Vec::new())?;
        }
        self.update(update)?;
        self.take_messages(messages)?;
        check_last_results(self.state.messages())?;
        self.flush().await?;
        Ok(None)
    }

    /// Adds messages to a resumed run's conversation if the model is called next. Otherwise they are stored until the
    /// open calls have results. Tool results and replacements of known messages are applied at once.
    fn take_messages(&mut self, messages: Vec<Message>) -> Result<()> {
        let next = self.machine.next();
        let asks = matches!(next, NextStep::BeforeAgent | NextStep::BeforeModel | NextStep::Model { .. });
        let asks = asks && self.undelivered.is_empty();
        for message in messages {
            let is_known = self.state.messages().by_id(message.id()).is_some();
            if asks || is_known || message.as_tool().is_some() {
                self.update(Update::message(message))?;
            } else {
                self.undelivered.push(message);
            }
        }
        // Stored so that they survive if the process is killed.
        self.store_undelivered(self.undelivered.clone())
    }

    /// Returns the prefix for call keys if the thread is a copy of the one that the run was in progress in: the prefix
    /// that an earlier process of this thread chose, or a new one.
    fn keys_of_copy(&self, last: &LastRun) -> Option<String> {
        let (now, before) = (self.log.thread.as_ref()?, last.thread.as_ref());
        match before.is_none_or(|before| before.is_same(now)) {
            true => last.keys.clone(),
            false => Some(format!("{}/{}", last.run, self.shared.agent.ids.next("copy"))),
        }
    }

    /// Continues from where an earlier run left the thread: its open calls are answered, not made. Results in the run's
    /// input answer their calls.
    pub(super) fn answer_open_calls(&mut self, mut left: Replay, given: &mut Vec<Message>) -> Result<()> {
        let late = left.settle()?;
        self.state = left.state;
        let begun = begun_by(&left.children);
        self.join_children(left.children.into_values())?;
        let is_asked = self.state.get::<ActionRequests>().is_some_and(|asked| !asked.is_empty());
        self.forget_questions()?;
        let why =
            if is_asked { "the conversation went on before it was decided on" } else { "the process ended before it" };
        let in_doubt = in_doubt(left.open.in_doubt, left.open.outputs);
        self.complete_turn(&Left { in_doubt, begun }, why, late, given)
    }
}

/// Returns whether calls of the last answer may lack results.
fn has_calls_under_way(machine: &Machine) -> bool {
    matches!(machine.next(), NextStep::Tools { .. } | NextStep::AfterModel)
}
