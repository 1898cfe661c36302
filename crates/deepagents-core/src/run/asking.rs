//! A run that waits for a person, and its going on.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::driver::Driver;
use super::history;
use crate::ask::{
    AnswerError, Asked, Decision, Edited, PausedChange, PausedChild, PausedChildren, Question, QuestionChange,
    Questions,
};
use crate::env::Timestamp;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::journal::Open;
use crate::run::Machine;
use crate::state::{ChannelError, State, Update};
use crate::tool::{CallId, Handback};

/// Why a call did not end: it waits for answers.
#[derive(Debug)]
pub struct Pause {
    pub(crate) questions: Vec<Question>,
    /// The sub-agent that asks, if the call runs one.
    pub(crate) child: Option<Box<PausedChild>>,
}

impl Pause {
    /// What the call asks, itself or below it.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// A sub-agent waits: `place` is the call that runs it, what that call names it, and its path.
    pub(crate) fn child(
        place: (CallId, String, Vec<String>),
        state: &State,
        given: &State,
        (machine, open): (Machine, Open),
    ) -> Result<Self, ChannelError> {
        let (call, label, path) = place;
        let (given, left) = (given.to_json(true)?, state.to_json(true)?);
        let child = PausedChild { call, label, path, given, state: left, machine, open };
        Ok(Self { questions: open_questions(state).cloned().collect(), child: Some(Box::new(child)) })
    }
}

/// The turn that waits gets another number, and so do its calls and what is asked about them.
pub(crate) fn renumber(state: &mut State, turn: u32) -> Result<(), ChannelError> {
    let asked = state.get::<Questions>().cloned().unwrap_or_default();
    let paused = state.get::<PausedChildren>().cloned().unwrap_or_default();
    let mut update = Update::none();
    if !asked.is_empty() {
        let mut changes = vec![QuestionChange::Clear];
        for Asked { mut question, answer } in asked.into_values() {
            // Where a sub-agent is in the tree does not change.
            if question.call.path.is_empty() {
                let rest = question.id.strip_prefix(&question.call.to_string()).unwrap_or_default().to_owned();
                question.call.turn = turn;
                question.id = format!("{}{rest}", question.call);
            }
            let answer = answer.map(|answer| QuestionChange::Answer(question.id.clone(), answer));
            changes.push(QuestionChange::Ask(Box::new(question)));
            changes.extend(answer);
        }
        update = update.with::<Questions>(changes);
    }
    if !paused.is_empty() {
        let again = paused.into_values().map(|mut child| {
            child.call.turn = turn;
            PausedChange::Pause(Box::new(child))
        });
        update = update.with::<PausedChildren>([PausedChange::Clear].into_iter().chain(again).collect());
    }
    state.apply(&update)
}

/// The questions of a state that have no answer.
pub(crate) fn open_questions(state: &State) -> impl Iterator<Item = &Question> {
    let asked = state.get::<Questions>().into_iter().flat_map(|asked| asked.values());
    asked.filter(|asked| asked.answer.is_none()).map(|asked| &asked.question)
}

/// The answers that a state holds for a part of the tree, as changes for the sub-agent there.
pub(crate) fn answers_below(state: &State, path: &[String]) -> Vec<QuestionChange> {
    let asked = state.get::<Questions>().into_iter().flat_map(|asked| asked.values());
    asked
        .filter(|asked| asked.question.call.path.starts_with(path))
        .filter_map(|Asked { question, answer }| Some(QuestionChange::Answer(question.id.clone(), answer.clone()?)))
        .collect()
}

/// Answers as changes, every one of them or none, with those that time has given.
pub(crate) fn answers_to(
    state: &State,
    answers: Vec<(String, Decision)>,
    now: Timestamp,
) -> Result<Vec<QuestionChange>, AnswerError> {
    let asked = state.get::<Questions>().cloned().unwrap_or_default();
    let mut changes = Vec::new();
    for (id, decision) in answers {
        let Some(Asked { question, answer }) = asked.get(&id) else {
            let open = open_questions(state).map(|q| q.id.clone()).collect();
            return Err(AnswerError::Unknown { id, open });
        };
        let twice = changes.iter().any(|c| matches!(c, QuestionChange::Answer(other, _) if *other == id));
        if answer.is_some() || twice {
            return Err(AnswerError::Answered { id });
        }
        question.check(&decision, now)?;
        changes.push(QuestionChange::Answer(id, decision));
    }
    for question in open_questions(state).filter(|q| q.is_expired(now)) {
        let message = Some("nobody decided in time".to_owned());
        changes.push(QuestionChange::Answer(question.id.clone(), Decision::Reject { message }));
    }
    Ok(changes)
}

/// Forgets what is asked, for a state that another run begins with.
pub(crate) fn forget_asked(state: &mut State) -> Result<(), ChannelError> {
    if state.get::<Questions>().is_some_and(|asked| !asked.is_empty()) {
        state.apply(&Update::of::<Questions>(vec![QuestionChange::Clear]))?;
    }
    if state.get::<PausedChildren>().is_some_and(|paused| !paused.is_empty()) {
        state.apply(&Update::of::<PausedChildren>(vec![PausedChange::Clear]))?;
    }
    Ok(())
}

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
    pub(super) fn edited(&self, call: &CallId) -> Option<&Edited> {
        match self.state.get::<Questions>()?.get(&call.to_string())?.answer.as_ref()? {
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
        let told = changes.iter().filter_map(|change| match change {
            QuestionChange::Answer(id, decision) => {
                Some(EventKind::Answered { id: id.clone(), decision: decision.clone() })
            }
            _ => None,
        });
        let told = told.collect();
        self.update(Update::of::<Questions>(changes))?;
        Ok(told)
    }

    /// Keeps what a call asks. Needs a thread, or a run above that has one.
    pub(super) fn ask(&mut self, pause: Pause) -> Result<()> {
        let mut update = Update::none();
        if let Some(child) = pause.child {
            update = update.with::<PausedChildren>(vec![PausedChange::Pause(child)]);
        }
        let ask = |question: Question| QuestionChange::Ask(Box::new(question));
        self.update(update.with::<Questions>(pause.questions.into_iter().map(ask).collect()))
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
        let questions: Vec<Question> = open_questions(&self.state).cloned().collect();
        for question in questions {
            self.tell(|| EventKind::Asked { question: Box::new(question) });
        }
        Ok(())
    }

    /// Forgets what was asked, since the thread goes on without answers, and says whether anything was. What sub-agents
    /// had changed before they began to wait is kept.
    pub(super) fn drop_questions(&mut self) -> Result<bool> {
        if self.state.get::<Questions>().is_none_or(BTreeMap::is_empty) {
            return Ok(false);
        }
        let calls: Vec<CallId> =
            self.state.get::<PausedChildren>().into_iter().flatten().map(|(_, c)| c.call.clone()).collect();
        for call in calls {
            if let Some(Handback { given, left }) = self.left_by_paused(&call)? {
                let (joined, _conflicts) = self.state.join(&given, &left)?;
                self.update(joined)?;
            }
        }
        self.forget_questions()?;
        Ok(true)
    }

    /// What a sub-agent that waits has changed so far.
    pub(super) fn left_by_paused(&self, call: &CallId) -> Result<Option<Handback>> {
        let mut paused = self.state.get::<PausedChildren>().into_iter().flat_map(|paused| paused.values());
        let Some(child) = paused.find(|child| child.call == *call) else { return Ok(None) };
        // Channels that this agent does not have are none of its business.
        let read = |values: &Map<String, Value>| State::from_json(self.state.schema().clone(), values.clone());
        Ok(Some(Handback { given: read(&child.given)?, left: read(&child.state)? }))
    }

    /// Forgets questions about calls that a hook has answered after they were asked.
    pub(super) fn forget_answered(&mut self) -> Result<()> {
        let Some(asked) = self.state.get::<Questions>().filter(|asked| !asked.is_empty()) else { return Ok(()) };
        let open: Vec<u32> = history::pending(self.state.messages()).iter().map(|open| open.index).collect();
        let idle = asked.values().map(|asked| &asked.question).filter(|q| !open.contains(&q.call.index));
        let drop: Vec<_> = idle.map(|question| QuestionChange::Drop(question.id.clone())).collect();
        if drop.is_empty() { Ok(()) } else { self.update(Update::of::<Questions>(drop)) }
    }

    /// Forgets the questions of a turn whose calls all have results.
    pub(super) fn forget_questions(&mut self) -> Result<()> {
        if self.state.get::<Questions>().is_none_or(BTreeMap::is_empty) {
            return Ok(());
        }
        let none = Update::of::<Questions>(vec![QuestionChange::Clear]);
        self.update(none.with::<PausedChildren>(vec![PausedChange::Clear]))
    }
}
