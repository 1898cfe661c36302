//! A run that waits for a person, and its going on.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::driver::Driver;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::CallId;
use crate::interrupt::PendingInterrupt;
use crate::interrupt::answers_to;
use crate::interrupt::open_questions;
use crate::interrupt::{
    ActionRequest, ActionRequestChange, ActionRequests, Decision, EditedAction, PausedChange, PausedChildren,
};
use crate::message;
use crate::state::{State, Update};
use crate::tool::ChildState;

impl Driver {
    /// Whether no call of the turn may be made before a question is answered.
    pub(super) fn is_gated(&self) -> bool {
        open_questions(&self.state).any(|question| question.call.path == *self.shared.path && question.is_gate())
    }

    /// Whether a call waits for an answer, to itself or to a sub-agent that it runs.
    pub(super) fn is_asking(&self, call: &CallId) -> bool {
        let paused = self.state.get::<PausedChildren>();
        let below = |path: &[String]| {
            let mut children = paused.into_iter().flat_map(|paused| paused.values());
            children.any(|child| child.call == *call && path.starts_with(&child.path))
        };
        open_questions(&self.state).any(|question| question.call == *call || below(&question.call.path))
    }

    /// What a person put in the place of a call.
    pub(super) fn edited(&self, call: &CallId) -> Option<&EditedAction> {
        match self.state.get::<ActionRequests>()?.get(&call.to_string())?.answer.as_ref()? {
            Decision::Edit { edited_action } => Some(edited_action),
            _ => None,
        }
    }

    /// Takes answers in; every one of them, or none. Gives what is to be told of them.
    pub(super) fn take_answers(&mut self, answers: Vec<(String, Decision)>) -> Result<Vec<EventKind>> {
        let changes = answers_to(&self.state, answers, self.shared.agent.clock.now())?;
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let events = changes.iter().filter_map(|change| match change {
            ActionRequestChange::Decide(id, decision) => {
                Some(EventKind::ActionDecided { id: id.clone(), decision: decision.clone() })
            }
            _ => None,
        });
        let events = events.collect();
        self.update(Update::new::<ActionRequests>(changes))?;
        Ok(events)
    }

    /// Keeps what a call asks. Needs a thread, or a run above that has one.
    pub(super) fn record_interrupt(&mut self, pause: PendingInterrupt) -> Result<()> {
        let mut update = Update::none();
        if let Some(child) = pause.child {
            update = update.with::<PausedChildren>(vec![PausedChange::Put(child)]);
        }
        let ask = |question: ActionRequest| ActionRequestChange::Request(Box::new(question));
        self.update(update.with::<ActionRequests>(pause.questions.into_iter().map(ask).collect()))
    }

    /// Tells what is asked, and refuses to wait where nobody could ever answer.
    pub(super) fn wait(&mut self) -> Result<()> {
        // The run of the main agent tells the questions of all.
        if !self.shared.path.is_empty() {
            return Ok(());
        }
        if self.shared.thread.is_none() {
            return Err(Error::Input(
                "a call waits for a decision, but the run has no thread to keep it in: give the agent a journal and the run a thread"
                    .to_owned(),
            ));
        }
        let questions: Vec<ActionRequest> = open_questions(&self.state).cloned().collect();
        for question in questions {
            self.queue_event(|| EventKind::ActionRequested { question: Box::new(question) });
        }
        Ok(())
    }

    /// Forgets what was asked, since the thread goes on without answers, and says whether anything was. What sub-agents
    /// had changed before they began to wait is kept.
    pub(super) fn drop_questions(&mut self) -> Result<bool> {
        if self.state.get::<ActionRequests>().is_none_or(BTreeMap::is_empty) {
            return Ok(false);
        }
        let calls: Vec<CallId> =
            self.state.get::<PausedChildren>().into_iter().flatten().map(|(_, c)| c.call.clone()).collect();
        for call in calls {
            if let Some(ChildState { given, left }) = self.left_by_paused(&call)? {
                let (joined, _conflicts) = self.state.join(&given, &left)?;
                self.update(joined)?;
            }
        }
        self.forget_questions()?;
        Ok(true)
    }

    /// What a sub-agent that waits has changed so far.
    pub(super) fn left_by_paused(&self, call: &CallId) -> Result<Option<ChildState>> {
        let mut paused = self.state.get::<PausedChildren>().into_iter().flat_map(|paused| paused.values());
        let Some(child) = paused.find(|child| child.call == *call) else { return Ok(None) };
        // Channels that this agent does not have are none of its business.
        let read = |values: &Map<String, Value>| State::from_json(self.state.schema().clone(), values.clone());
        Ok(Some(ChildState { given: read(&child.given)?, left: read(&child.state)? }))
    }

    /// Forgets questions about calls that a hook has answered after they were asked.
    pub(super) fn forget_answered(&mut self) -> Result<()> {
        let Some(asked) = self.state.get::<ActionRequests>().filter(|asked| !asked.is_empty()) else { return Ok(()) };
        let open: Vec<u32> = message::pending(self.state.messages()).iter().map(|open| open.index).collect();
        let idle = asked.values().map(|asked| &asked.question).filter(|q| !open.contains(&q.call.index));
        let drop: Vec<_> = idle.map(|question| ActionRequestChange::Drop(question.id.clone())).collect();
        if drop.is_empty() { Ok(()) } else { self.update(Update::new::<ActionRequests>(drop)) }
    }

    /// Forgets the questions of a turn whose calls all have results.
    pub(super) fn forget_questions(&mut self) -> Result<()> {
        if self.state.get::<ActionRequests>().is_none_or(BTreeMap::is_empty) {
            return Ok(());
        }
        let none = Update::new::<ActionRequests>(vec![ActionRequestChange::Clear]);
        self.update(none.with::<PausedChildren>(vec![PausedChange::Clear]))
    }
}
