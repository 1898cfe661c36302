//! Interrupts: waiting for a person's decision, and resuming.

use std::collections::HashSet;

use super::abort::halt_grace_elapsed;
use super::driver::Driver;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::CallId;
use crate::interrupt::{
    ActionRequest, ActionRequestChange, ActionRequests, Decision, DecisionAuthor, DecisionRecord, EditedAction,
    PendingInterrupt, answers_to, open_questions, without_questions,
};
use crate::journal::ChildLog;
use crate::machine::settle;
use crate::message;
use crate::state::{ChildState, State, Update};

impl Driver {
    /// Returns whether an open question blocks all calls of the turn.
    pub(super) fn is_gated(&self) -> bool {
        open_questions(&self.state).any(|question| question.call.path == *self.shared.path && question.is_gate())
    }

    /// Returns whether a call, or a sub-agent that it runs, waits for an answer.
    pub(super) fn is_asking(&self, call: &CallId) -> bool {
        let below = |path: &[String]| {
            let mut children = self.children.values();
            children.any(|child| child.call == *call && path.starts_with(&child.path))
        };
        open_questions(&self.state).any(|question| question.call == *call || below(&question.call.path))
    }

    /// Returns the action that a person put in place of a call.
    pub(super) fn edited(&self, call: &CallId) -> Option<&EditedAction> {
        self.state.get::<ActionRequests>()?.get(&call.to_string())?.decision.as_ref()?.decision.edited_action()
    }

    /// Applies all the answers, or none of them. Returns their events.
    pub(super) fn take_answers(&mut self, answers: Vec<(String, DecisionRecord)>) -> Result<Vec<EventKind>> {
        let changes = answers_to(&self.state, answers, self.shared.agent.clock.now())?;
        self.check_edits(&self.state, &changes)?;
        let agent = &self.shared.agent;
        let received = |change| match change {
            ActionRequestChange::Decide(id, decided) => {
                Ok(ActionRequestChange::Decide(id, agent.received_decision(decided)?))
            }
            other => Ok(other),
        };
        let changes = changes.into_iter().map(received).collect::<Result<Vec<_>>>()?;
        let events = changes.iter().filter_map(|change| match change {
            ActionRequestChange::Decide(id, decided) => Some(EventKind::decided(id, decided)),
            _ => None,
        });
        let events = events.collect();
        if !changes.is_empty() {
            self.update(Update::new::<ActionRequests>(changes))?;
        }
        Ok(events)
    }

    /// Validates edits of this agent's own calls whose tools it has. Edits by a rule, such as a hook, are validated
    /// when the call is made, because nobody is there to correct them.
    pub(super) fn check_edits(&self, state: &State, answers: &[ActionRequestChange]) -> Result<()> {
        let tools = self.tools_on_offer();
        for answer in answers {
            let ActionRequestChange::Decide(id, DecisionRecord { decision: Decision::Edit { edited_action }, author }) =
                answer
            else {
                continue;
            };
            if author.as_ref().is_some_and(|author| *author != DecisionAuthor::Person) {
                continue;
            }
            if let Some(asked) = state.get::<ActionRequests>().and_then(|asked| asked.get(id)) {
                let tool = tools.spec(&edited_action.name).map(|tool| &**tool);
                asked.request.check_edit_in(&self.shared.path, edited_action, tool)?;
            }
        }
        Ok(())
    }

    /// Records the questions of a call. Needs a thread, or a parent run that has one.
    pub(super) fn record_interrupt(&mut self, call: &CallId, pause: PendingInterrupt) -> Result<()> {
        if let Some(child) = pause.child {
            self.paused.push((call.clone(), *child));
        }
        let ask = |question: ActionRequest| ActionRequestChange::Request(Box::new(question));
        self.update(Update::new::<ActionRequests>(pause.questions.into_iter().map(ask).collect()))
    }

    /// Records and emits a decision about a call that had no question.
    pub(super) fn record_decision(&mut self, call: &CallId, decided: DecisionRecord) -> Result<()> {
        let event = EventKind::decided(&call.to_string(), &decided);
        self.update(Update::new::<ActionRequests>(vec![ActionRequestChange::Decided(call.clone(), decided)]))?;
        self.queue_event(|| event);
        Ok(())
    }

    /// Returns an error if nobody could ever answer.
    pub(super) fn check_can_wait(&self) -> Result<()> {
        if !self.is_below && !self.log.is_kept() {
            return Err(Error::Input(
                "a call is waiting for a decision, but the run has no thread to keep it in: give the agent a journal \
                 and the run a thread"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Queues the events of open questions, for when the log contains the interrupt. A parent run reports those of its
    /// sub-agents.
    pub(super) fn queue_questions(&mut self) {
        if self.is_below {
            return;
        }
        let questions: Vec<ActionRequest> = open_questions(&self.state).cloned().collect();
        for question in questions {
            self.queue_event(|| EventKind::ActionRequested { question: Box::new(question) });
        }
    }

    /// Merges what sub-agents changed before the process ended or they started to wait, because the thread continues
    /// without them.
    pub(super) fn join_children(&mut self, children: impl IntoIterator<Item = ChildLog>) -> Result<()> {
        for child in children {
            let (joined, _conflicts) = self.state.join(&self.left_by(child)?)?;
            self.update(joined)?;
        }
        Ok(())
    }

    /// Returns the initial and last states of a sub-agent from its log. Channels that this agent lacks are ignored.
    fn left_by(&self, child: ChildLog) -> Result<ChildState> {
        let thread = self.shared.thread.as_deref().unwrap_or_default();
        Ok(child.left(thread, self.state.schema())?)
    }

    /// Returns the agent's state merged with those of its waiting sub-agents. The parent keeps this if it continues
    /// without the agent.
    pub(super) fn state_with_waiting(&self) -> Result<State> {
        let mut state = self.state.clone();
        let paused = self.paused.iter().map(|(_, child)| Ok(child.clone()));
        let not_gone_on_with = self.children.values().map(|child| self.left_by(child.clone()));
        for child in paused.chain(not_gone_on_with) {
            let (joined, _conflicts) = state.join(&child?)?;
            state.apply(&joined)?;
        }
        Ok(state)
    }

    /// Returns the state as its thread shows it: with the results of finished calls of a turn that is still open.
    pub(super) fn settled_state(&self) -> Result<State> {
        let mut state = self.state.clone();
        settle(&mut state, self.open.finished.clone())?;
        Ok(state)
    }

    /// Returns the changes so far of the sub-agents of a call that does not finish: those that wait, and those that an
    /// earlier process left and this one has not resumed.
    pub(super) fn left_below(&mut self, call: &CallId, untaken: Vec<ChildLog>) -> Result<Vec<ChildState>> {
        let mut left: Vec<_> = self.paused.extract_if(.., |(of, _)| of == call).map(|(_, child)| child).collect();
        for child in untaken.into_iter().chain(self.take_children(call)) {
            left.push(self.left_by(child)?);
        }
        Ok(left)
    }

    /// Reads from the log the sub-agents of calls that were aborted before they could return their state.
    pub(super) async fn logged_children(&mut self, calls: &HashSet<CallId>) -> Result<Vec<ChildLog>> {
        let schema = self.state.schema().clone();
        let Some(replay) = self.log.replay(schema.clone(), halt_grace_elapsed(&self.shared)).await? else {
            return Ok(Vec::new());
        };
        let thread = self.shared.thread.as_deref().unwrap_or_default();
        let (mut children, own) = (replay.children, &*self.shared.path);
        // Descends from the thread's root agent to this one.
        while let Some((_, above)) = children.extract_if(.., |path, _| own.starts_with(path)).next() {
            children = above.replay(thread, schema.clone())?.0.children;
        }
        Ok(children.into_values().filter(|child| calls.contains(&child.call)).collect())
    }

    /// Removes and returns the logs of a call's sub-agents that an earlier process left.
    pub(super) fn take_children(&mut self, call: &CallId) -> Vec<ChildLog> {
        let of_call = self.children.extract_if(.., |_, child| child.call == *call);
        of_call.map(|(_, child)| child).collect()
    }

    /// Discards questions about calls that a hook has answered since.
    pub(super) fn forget_answered(&mut self) -> Result<()> {
        let Some(asked) = self.state.get::<ActionRequests>().filter(|asked| !asked.is_empty()) else { return Ok(()) };
        let open: Vec<u32> = message::pending(self.state.messages()).iter().map(|open| open.index).collect();
        let idle = asked.values().map(|asked| &asked.request).filter(|q| !open.contains(&q.call.index));
        let drop: Vec<_> = idle.map(|question| ActionRequestChange::Drop(question.id.clone())).collect();
        if drop.is_empty() { Ok(()) } else { self.update(Update::new::<ActionRequests>(drop)) }
    }

    /// Discards the questions of a turn whose calls all have results.
    pub(super) fn forget_questions(&mut self) -> Result<()> {
        self.update(without_questions(&self.state))
    }
}
