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
        if let (Source::Together(calls), KeyCode::Char(key @ ('y' | 'n')), None) =
            (&pager.source, key.code, control(key))
        {
            let decision = if key == 'y' { Decision::Approve } else { Decision::Reject { message: None } };
            self.questions.decide_together(calls, &decision);
            return self.answer_if_decided();
        }
        if let (Source::Trust(question), KeyCode::Char('y' | 'n'), None) = (&pager.source, key.code, control(key)) {
            return self.trust_key(key, (**question).clone());
        }
        let is_question = matches!(pager.source, Source::Approval(_));
        let mut by = |app: &Self, lines: isize| app.scroll(&mut pager, lines);
        match (key.code, control(key)) {
            (KeyCode::Esc | KeyCode::Char('q'), None) | (_, Some('o')) => {
                // Returns to the question or list that it belongs to.
                self.overlay = match pager.source {
                    Source::Trust(question) => Overlay::Trust(*question),
                    Source::Preview(picker) => Overlay::Picker(Arc::unwrap_or_clone(picker)),
                    _ => Overlay::None,
                };
                return;
            }
            // The keys that answer a question work here too.
            (KeyCode::Char('y' | 'n' | 'a' | 'p' | 'e' | 'f') | KeyCode::Tab, None) if is_question => {
                self.question_key(key, Pressed::WhereRead);
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

    pub(super) fn trust_key(&mut self, key: KeyEvent, question: TrustQuestion) {
        let of = question.of;
        match (key.code, control(key)) {
            // Nothing can be approved before it is on the screen.
            (KeyCode::Char('y'), None) if question.shown => self.request(Effect::Trust { of, agreed: true }),
            (KeyCode::Char('n'), None) | (KeyCode::Esc, _) => self.request(Effect::Trust { of, agreed: false }),
            (KeyCode::PageUp | KeyCode::PageDown, _) | (_, Some('o')) => {
                self.overlay = Overlay::Pager(Pager::of(Source::Trust(Box::new(question))));
            }
            _ => self.overlay = Overlay::Trust(question),
        }
    }

    fn scroll(&self, pager: &mut Pager, by: isize) {
        let columns = usize::from(self.size.0);
        let source = pager.source.clone();
        let (parts, part) = crate::view::parts(self, &source, columns);
        pager.scroll(by, parts, part);
    }
}
