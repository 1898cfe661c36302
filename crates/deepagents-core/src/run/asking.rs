//! A run that waits for a person, and its going on.

use super::driver::Driver;
use super::history;
use crate::ask::{
    AnswerError, Asked, Decision, PausedChange, PausedChild, PausedChildren, Question, QuestionChange, Questions,
};
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::journal::Open;
use crate::message::{Message, MessageOp, ToolMessage};
use crate::run::Machine;
use crate::state::{MessagesChannel, State, Update};
use crate::tool::CallId;

/// Why a call did not end: it waits for answers.
#[derive(Debug)]
pub struct Pause {
    pub(crate) questions: Vec<Question>,
    /// The sub-agent that asks, if the call runs one.
    pub(crate) child: Option<Box<PausedChild>>,
}

impl Pause {
    pub(crate) fn child(
        state: &State,
        given: &State,
        machine: Machine,
        open: Open,
    ) -> Result<Self, crate::state::ChannelError> {
        let child = PausedChild { given: given.to_json(true)?, state: state.to_json(true)?, machine, open };
        Ok(Self { questions: open_questions(state).cloned().collect(), child: Some(Box::new(child)) })
    }
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

impl Driver {
    /// Whether a call of the turn waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        open_questions(&self.state).next().is_some()
    }

    /// Takes answers in; every one of them, or none.
    pub(super) fn take_answers(&mut self, answers: Vec<(String, Decision)>) -> Result<()> {
        let now = self.shared.agent.clock.now();
        let asked = self.state.get::<Questions>().cloned().unwrap_or_default();
        let mut changes = Vec::new();
        for (id, decision) in answers {
            let Some(Asked { question, answer }) = asked.get(&id) else {
                let open = open_questions(&self.state).map(|q| q.id.clone()).collect();
                return Err(AnswerError::Unknown { id, open }.into());
            };
            let twice = changes.iter().any(|c| matches!(c, QuestionChange::Answer(other, _) if *other == id));
            if answer.is_some() || twice {
                return Err(AnswerError::Answered { id }.into());
            }
            question.check(&decision, now)?;
            changes.push(QuestionChange::Answer(id, decision));
        }
        for question in open_questions(&self.state).filter(|q| q.is_expired(now)) {
            let message = Some("nobody decided in time".to_owned());
            changes.push(QuestionChange::Answer(question.id.clone(), Decision::Reject { message }));
        }
        if changes.is_empty() { Ok(()) } else { self.update(Update::of::<Questions>(changes)) }
    }

    /// Keeps what a call asks. Needs a thread, or a run above that has one.
    pub(super) fn ask(&mut self, call: &CallId, pause: Pause) -> Result<()> {
        let mut update = Update::none();
        if let Some(child) = pause.child {
            update = update.with::<PausedChildren>(vec![PausedChange::Pause(call.to_string(), child)]);
        }
        let ask = |question: Question| QuestionChange::Ask(Box::new(question));
        self.update(update.with::<Questions>(pause.questions.into_iter().map(ask).collect()))
    }

    /// Tells what is asked, and refuses to wait where nobody could ever answer.
    pub(super) fn wait(&mut self) -> Result<()> {
        if self.shared.path.is_empty() && self.shared.thread.is_none() {
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

    /// Answers the calls that nobody decided on before the thread went on without them.
    pub(super) fn drop_questions(&mut self) -> Result<()> {
        let Some(asked) = self.state.get::<Questions>().filter(|asked| !asked.is_empty()) else { return Ok(()) };
        let mut ops = Vec::new();
        for open in history::pending(self.state.messages()) {
            let about = |asked: &Asked| {
                let call = &asked.question.call;
                // A question of a sub-agent is one about the call that runs it.
                call.index == open.index && call.path == *self.shared.path || call.path.len() > self.shared.path.len()
            };
            if asked.values().any(about) {
                let name = open.call.name();
                let text = format!("The call of {name} was not made: the conversation went on before anybody decided.");
                ops.push(MessageOp::put(Message::Tool(ToolMessage::error(open.call.wire_id(), name, text))));
            }
        }
        let none = Update::of::<Questions>(vec![QuestionChange::Clear])
            .with::<PausedChildren>(vec![PausedChange::Clear])
            .with::<MessagesChannel>(ops);
        self.update(none)
    }

    /// Forgets the questions of a turn whose calls all have results.
    pub(super) fn forget_questions(&mut self) -> Result<()> {
        if self.state.get::<Questions>().is_none_or(std::collections::BTreeMap::is_empty) {
            return Ok(());
        }
        let none = Update::of::<Questions>(vec![QuestionChange::Clear]);
        self.update(none.with::<PausedChildren>(vec![PausedChange::Clear]))
    }
}
