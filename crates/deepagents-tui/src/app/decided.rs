//! What was decided before all questions of a turn were, kept with the thread: whoever opens it is not asked again.

use deepagents::core::env::Timestamp;
use deepagents::{ActionRequest, Decision, DecisionRecord};
use serde::{Deserialize, Serialize};

use super::event::{Effect, PendingApproval};
use super::{App, Work};

/// A decision, and the question that it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptDecision {
    id: String,
    /// When it was asked: a call that is made once more after going back is asked about again.
    asked_at: String,
    pub(crate) decided: DecisionRecord,
}

impl KeptDecision {
    fn of((request, decided): &(ActionRequest, DecisionRecord)) -> Self {
        Self { id: request.id.clone(), asked_at: request.asked_at.clone(), decided: decided.clone() }
    }

    /// Whether it decides about this question, now.
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
    /// Has what was decided kept with the thread until the run is told.
    pub(super) fn keep_decided(&mut self) -> Vec<Effect> {
        let decided: Vec<KeptDecision> = self.questions.decided().iter().map(KeptDecision::of).collect();
        if decided == self.kept_decided.1 {
            return Vec::new();
        }
        // What is decided on no more is so on the thread where it was asked.
        let before = self.kept_decided.0.take();
        let thread = if decided.is_empty() { before } else { self.session.thread.clone() };
        self.kept_decided = (thread.clone(), decided.clone());
        thread.map(|thread| Effect::KeepDecided { thread, decided }).into_iter().collect()
    }

    /// Asks what a thread waits for; nothing runs meanwhile. What was decided before is not asked again, as long as
    /// something is left to ask: nothing goes on because a thread is opened.
    pub(super) fn questions_wait(&mut self, questions: Vec<PendingApproval>, decided: &[KeptDecision]) {
        let before = |question: &PendingApproval| decided.iter().find(|kept| kept.decides(&question.request));
        let is_left = questions.iter().any(|question| before(question).is_none());
        for question in questions {
            match before(&question).filter(|_| is_left) {
                Some(kept) => {
                    let call = crate::view::call_title(&question.request.tool, &question.request.args);
                    self.note(format!("you have decided before: {}: {call}", kept.word()), false);
                    self.questions.decide_before(question, kept.decided.clone());
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
