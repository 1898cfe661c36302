//! Decisions made while other questions of the turn are open. They are saved with the thread, so that opening it does
//! not ask again.

use deepagents::core::env::Timestamp;
use deepagents::{ActionRequest, Decision, DecisionRecord};
use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::event::PendingApproval;
use super::{App, Work};

/// A decision and the question that it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptDecision {
    id: String,
    /// When the question was asked. After a rewind, the same call is asked about again.
    asked_at: String,
    pub(crate) decided: DecisionRecord,
}

impl KeptDecision {
    fn of((request, decided): &(ActionRequest, DecisionRecord)) -> Self {
        Self { id: request.id.clone(), asked_at: request.asked_at.clone(), decided: decided.clone() }
    }

    /// Returns whether this decision answers the question and is still valid.
    fn decides(&self, request: &ActionRequest) -> bool {
        self.id == request.id
            && self.asked_at == request.asked_at
            && request.check(&self.decided.decision, Timestamp::now()).is_ok()
    }

    fn word(&self) -> &'static str {
        match self.decided.decision {
            Decision::Approve => "yes",
            Decision::Reject { .. } => "no",
            Decision::Edit { .. } => "edited",
            _ => "answered",
        }
    }
}

impl App {
    /// Saves the decisions with the thread until the run gets them.
    pub(super) fn keep_decided(&mut self) {
        let decided: Vec<KeptDecision> = self.questions.decided().iter().map(KeptDecision::of).collect();
        if decided == self.kept_decided.1 {
            return;
        }
        // Decisions are removed from the thread on which they were made.
        let before = self.kept_decided.0.take();
        let thread = if decided.is_empty() { before } else { self.session.thread.clone() };
        self.kept_decided = (thread.clone(), decided.clone());
        self.effects.extend(thread.map(|thread| Effect::KeepDecided { thread, decided }));
    }

    /// Shows the questions that a thread waits for while nothing runs. Earlier decisions are not asked for again,
    /// unless they would answer every question: opening a thread must not resume its run.
    pub(super) fn questions_wait(&mut self, questions: Vec<PendingApproval>, decided: &[KeptDecision]) {
        let before = |question: &PendingApproval| decided.iter().find(|kept| kept.decides(&question.request));
        let is_left = questions.iter().any(|question| before(question).is_none());
        for question in questions {
            match before(&question).filter(|_| is_left) {
                Some(kept) => {
                    let call = crate::view::call_title(&question.request.tool, &question.request.args);
                    self.note(format!("you already decided: {}: {call}", kept.word()), false);
                    self.questions.record(question, kept.decided.clone());
                }
                None => drop(self.questions.ask(question, None)),
            }
        }
        if !self.questions.is_empty() {
            self.begin(Work::Run);
            self.waits = true;
        }
    }
}
