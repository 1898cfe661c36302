//! What has been on the screen of a question: only somebody who has seen all of it can agree.

use std::cell::Cell;

use deepagents::DecisionKind;

use super::effect::Trusted;
use super::pager::{Pager, Source};
use super::state::{App, Overlay};

/// The question whether to trust definitions or servers in the directory.
#[derive(Clone, Debug)]
pub(crate) struct TrustQuestion {
    pub(crate) of: Trusted,
    pub(crate) title: String,
    pub(crate) body: String,
    /// Whether it has been on the screen, with its keys, and whether all of it has.
    pub(crate) shown: bool,
    pub(crate) all_shown: bool,
    /// Whether it was last laid out in full.
    pub(crate) is_whole: Cell<bool>,
}

impl TrustQuestion {
    pub(crate) fn new(of: Trusted, title: String, body: String) -> Self {
        Self { of, title, body, shown: false, all_shown: false, is_whole: Cell::default() }
    }

    /// Marks what was laid out last as shown.
    pub(super) fn drawn(&mut self) {
        self.shown = true;
        self.all_shown |= self.is_whole.get();
    }
}

impl App {
    /// Marks the current question as shown, if it was in the last frame.
    pub(super) fn question_drawn(&mut self) {
        let Some(question) = self.questions.current().filter(|_| self.shows_question()) else { return };
        let shows_all = match &self.overlay {
            Overlay::Pager(pager) => Some(pager.is_read()).filter(|_| pager.room > 0),
            _ => question.laid_out.shows_all(),
        };
        if let Some(all) = shows_all {
            self.questions.drawn(self.editor.text(), all);
        }
    }

    /// Returns whether a pager shows a question that cannot be answered with yes yet, because there is more below.
    pub(crate) fn must_read_on(&self, pager: &Pager) -> bool {
        let is_question = match pager.source {
            Source::Approval(_) => {
                let allows = |kind| self.questions.allows(kind);
                (allows(DecisionKind::Approve) || allows(DecisionKind::Edit)) && !self.questions.is_all_shown()
            }
            Source::Together(_) | Source::Trust(_) => true,
            Source::Conversation | Source::Items { .. } | Source::Preview(_) => false,
        };
        is_question && !pager.is_read()
    }

    /// Returns whether the current question is visible, and not covered by something else.
    pub(crate) fn shows_question(&self) -> bool {
        let Some(question) = self.questions.current() else { return false };
        match &self.overlay {
            Overlay::None | Overlay::Search { .. } => true,
            Overlay::Pager(pager) => match &pager.source {
                Source::Approval(read) => read.request.id == question.request.id,
                Source::Together(calls) => calls.iter().any(|call| call.request.id == question.request.id),
                Source::Conversation | Source::Items { .. } | Source::Preview(_) | Source::Trust(_) => false,
            },
            Overlay::Picker(_) | Overlay::Secret { .. } | Overlay::Trust(_) => false,
        }
    }
}
