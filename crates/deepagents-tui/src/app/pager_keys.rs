//! Keys of the pager and of the program's own questions.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};
use deepagents::Decision;

use super::effect::Effect;
use super::keys::control;
use super::pager::{Pager, Source};
use super::question_keys::Pressed;
use super::{App, Overlay, TrustQuestion};

impl App {
    pub(super) fn open_pager(&mut self) {
        let pager = match self.questions.current() {
            Some(question) => Pager::of(Source::Approval(Box::new(question.clone()))),
            None => Pager::conversation(),
        };
        self.overlay = Overlay::Pager(pager);
    }

    pub(super) fn pager_key(&mut self, key: KeyEvent, mut pager: Pager) {
        let page = isize::try_from(pager.room.saturating_sub(1)).unwrap_or(isize::MAX).max(1);
        let Some(key) = self.pager_answer(key, &mut pager, page) else { return };
        let mut by = |app: &Self, lines: isize| app.scroll(&mut pager, lines);
        match (key.code, control(key)) {
            (KeyCode::Esc | KeyCode::Char('q'), None) | (_, Some('o')) => {
                // Returns to the question or list that it belongs to.
                let all_shown = pager.is_read();
                self.overlay = match pager.source {
                    Source::Trust(question) => {
                        Overlay::Trust(TrustQuestion { all_shown: question.all_shown || all_shown, ..*question })
                    }
                    Source::Preview(picker) => Overlay::Picker(Arc::unwrap_or_clone(picker)),
                    _ => Overlay::None,
                };
                return;
            }
            (KeyCode::PageUp, _) | (_, Some('b')) => by(self, -page),
            (KeyCode::PageDown | KeyCode::Char(' '), _) | (_, Some('f')) => by(self, page),
            (KeyCode::Up | KeyCode::Char('k'), _) => by(self, -1),
            (KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter, _) => by(self, 1),
            (KeyCode::Home | KeyCode::Char('g'), _) => (pager.top, pager.at_end) = ((0, 0), false),
            (KeyCode::End | KeyCode::Char('G'), _) => pager.at_end = true,
            _ => {}
        }
        self.overlay = Overlay::Pager(pager);
    }

    /// Handles a key that answers the question that a pager shows. Returns other keys.
    fn pager_answer(&mut self, key: KeyEvent, pager: &mut Pager, page: isize) -> Option<KeyEvent> {
        let KeyEvent { code, .. } = key;
        let is_plain = control(key).is_none();
        // What is typed during a stop decides nothing.
        if self.stopping && matches!(pager.source, Source::Approval(_) | Source::Together(_)) {
            return Some(key);
        }
        let agrees = match &pager.source {
            Source::Approval(_) => matches!(code, KeyCode::Char('y' | 'a' | 'p' | 'e')),
            Source::Together(_) | Source::Trust(_) => code == KeyCode::Char('y'),
            Source::Conversation | Source::Items { .. } | Source::Preview(_) => false,
        };
        if agrees && is_plain && self.must_read_on(pager) {
            self.scroll(pager, page);
            self.overlay = Overlay::Pager(pager.clone());
            return None;
        }
        match (&pager.source, code) {
            (Source::Together(calls), KeyCode::Char('y' | 'n')) if is_plain => {
                let decision = if agrees { Decision::Approve } else { Decision::Reject { message: None } };
                self.questions.decide_together(calls, &decision);
                self.answer_if_decided();
                None
            }
            (Source::Trust(question), KeyCode::Char('y' | 'n')) if is_plain => {
                self.trust_key(key, TrustQuestion { all_shown: true, ..(**question).clone() });
                None
            }
            // The keys that answer a question work here too.
            (Source::Approval(_), KeyCode::Char('y' | 'n' | 'a' | 'p' | 'e' | 'f') | KeyCode::Tab) if is_plain => {
                self.question_key(key, Pressed::WhereRead);
                None
            }
            _ => Some(key),
        }
    }

    pub(super) fn trust_key(&mut self, key: KeyEvent, question: TrustQuestion) {
        let of = question.of;
        match (key.code, control(key)) {
            // Nothing can be approved before it is on the screen.
            (KeyCode::Char('y'), None) if question.shown && question.all_shown => {
                self.request(Effect::Trust { of, agreed: true })
            }
            (KeyCode::Char('n'), None) | (KeyCode::Esc, _) => self.request(Effect::Trust { of, agreed: false }),
            (KeyCode::PageUp | KeyCode::PageDown, _) | (_, Some('o')) => self.read_trust(question),
            // Whoever agrees has seen everything: the first such key shows it.
            (KeyCode::Char('y'), None) if question.shown => self.read_trust(question),
            _ => self.overlay = Overlay::Trust(question),
        }
    }

    fn read_trust(&mut self, question: TrustQuestion) {
        self.overlay = Overlay::Pager(Pager::of(Source::Trust(Box::new(question))));
    }

    fn scroll(&self, pager: &mut Pager, by: isize) {
        let columns = usize::from(self.size.0);
        let source = pager.source.clone();
        let (parts, part) = crate::view::parts(self, &source, columns);
        pager.scroll(by, parts, part);
    }
}
