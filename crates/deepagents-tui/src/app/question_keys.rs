//! Key handling at a question.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use deepagents::remembered::RememberedRule;
use deepagents::{Decision, DecisionKind};

use super::effect::Effect;
use super::form::{Filled, Form};
use super::keys::control;
use super::pager::{Pager, Source};
use super::pending::{Asking, is_command};
use super::{App, Overlay};
use crate::input::Editor;
use crate::policy::Rule;

/// Where a key that may decide was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// At the input, which the key may belong to.
    AtInput,
    /// In the pager that shows the whole question, where no text is typed.
    WhereRead,
}

impl App {
    /// Returns whether the user began a message after the question appeared, so that keys continue the message.
    pub(crate) fn is_writing(&self) -> bool {
        self.questions.is_begun_after_question(self.editor.text())
    }

    /// Handles a key at a question. Returns `false` if it belongs to the input.
    pub(super) fn question_key(&mut self, key: KeyEvent, pressed: Pressed) -> bool {
        // What is typed during a stop is meant for what comes after it: nothing is decided or allowed any more.
        if self.stopping {
            return false;
        }
        // Keys that do not choose an answer work as at any question, or go into the input.
        if let Asking::Respond(form) = &self.questions.asking
            && form.is_choosing()
        {
            let chooses = form.chooses(key, self.editor.is_blank());
            let is_written = pressed == Pressed::AtInput && self.is_writing();
            if !chooses || is_written || !self.questions.takes_keys(self.now.0, self.editor.text()) {
                return self.decision_key(key, pressed);
            }
        }
        if control(key) == Some('g')
            && let Some(editor) = self.questions.written()
        {
            let text = editor.expanded();
            self.edits_answer = true;
            self.request(Effect::Edit(text));
            return true;
        }
        let is_enter = key.code == KeyCode::Enter && key.modifiers.is_empty();
        match &mut self.questions.asking {
            Asking::Decide => return self.decision_key(key, pressed),
            Asking::Remember(rule) => {
                let rule = rule.clone();
                return self.keep_key(key, rule);
            }
            Asking::Reason(_) | Asking::Change(_) if key.code == KeyCode::Esc => self.questions.ask_plainly(),
            Asking::Reason(editor) if is_enter => {
                let reason = editor.take();
                let message = (!reason.trim().is_empty()).then_some(reason);
                self.decide(Decision::Reject { message });
            }
            Asking::Change(editor) if is_enter => {
                let text = editor.expanded();
                match self.questions.edited(&text) {
                    Ok(decision) => self.decide(decision),
                    Err(problem) => self.questions.problem = Some(problem),
                }
            }
            Asking::Reason(editor) | Asking::Change(editor) => drop(editor.key(key)),
            Asking::Respond(form) => match form.key(key) {
                Filled::Taken => self.questions.problem = None,
                Filled::Wrong(problem) => self.questions.problem = Some(problem),
                Filled::Left => self.questions.ask_plainly(),
                Filled::Done(message) => self.decide(Decision::Respond { message }),
            },
        }
        true
    }

    fn decision_key(&mut self, key: KeyEvent, pressed: Pressed) -> bool {
        if !key.modifiers.difference(KeyModifiers::SHIFT).is_empty()
            || !self.questions.takes_keys(self.now.0, self.editor.text())
        {
            return false;
        }
        // A key continues a message begun in the meantime, even if it could decide.
        if pressed == Pressed::AtInput && self.is_writing() {
            let stops = key.code == KeyCode::Esc && self.menu.is_none();
            if stops {
                self.stop();
            }
            return stops;
        }
        let allows = |kind| self.questions.allows(kind);
        let (approves, responds) = (allows(DecisionKind::Approve), allows(DecisionKind::Respond));
        let (rejects, edits) = (allows(DecisionKind::Reject), allows(DecisionKind::Edit));
        // Questions that only a text answers get a form.
        let has_form = responds && !self.questions.has_choices();
        let is_blank = self.editor.is_blank();
        if pressed == Pressed::AtInput && self.agrees(key) && !self.questions.is_all_shown() {
            // Whoever agrees has seen the whole call: the first such key shows it.
            self.open_pager();
            return true;
        }
        match key.code {
            // At a question for a text, typing begins the answer: `no` is a text here.
            KeyCode::Char(_) if self.questions.accepts_only_text() => {
                self.respond();
                return self.question_key(key, pressed);
            }
            KeyCode::Char('r' | 'R') if has_form => self.respond(),
            KeyCode::Enter if has_form && !approves && is_blank => self.respond(),
            KeyCode::Char('y' | 'Y') if approves => self.decide(Decision::Approve),
            // Enter sends the text in the input, and decides nothing then.
            KeyCode::Enter if approves && is_blank => self.decide(Decision::Approve),
            KeyCode::Char('n' | 'N') if rejects => self.decide(Decision::Reject { message: None }),
            KeyCode::Char('f' | 'F') | KeyCode::Tab if rejects => {
                self.questions.asking = Asking::Reason(Editor::default());
            }
            KeyCode::Char('a' | 'A') => {
                let Some(rule) = self.session_rule() else { return false };
                self.allow(rule);
            }
            KeyCode::Char('p' | 'P') => {
                let Some(rule) = self.lasting_rule() else { return false };
                self.questions.asking = Asking::Remember(rule);
            }
            KeyCode::Char('t' | 'T') => return self.show_together(),
            KeyCode::Char('e' | 'E') if edits => {
                let Some(text) = self.questions.editable() else { return false };
                self.questions.asking = Asking::Change(Editor::with_text(text));
            }
            KeyCode::Esc => self.stop(),
            _ => return false,
        }
        true
    }

    /// Shows the calls that can be decided on together. Returns whether there are several.
    fn show_together(&mut self) -> bool {
        let calls = self.questions.together();
        let are_several = !calls.is_empty();
        if are_several {
            self.overlay = Overlay::Pager(Pager::of(Source::Together(calls)));
        }
        are_several
    }

    /// Allows the current call, and all that the rule covers in this session.
    fn allow(&mut self, rule: Rule) {
        self.questions.allow(&rule);
        self.hint = Some(format!("{rule}: no longer asked about in this session"));
        self.request(Effect::Allow(rule));
        self.answer_if_decided();
    }

    /// Returns whether a key can lead to the call being made, as it is or changed.
    fn agrees(&self, key: KeyEvent) -> bool {
        let allows = |kind| self.questions.allows(kind);
        match key.code {
            KeyCode::Char('y' | 'Y') => allows(DecisionKind::Approve),
            KeyCode::Enter => allows(DecisionKind::Approve) && self.editor.is_blank(),
            KeyCode::Char('a' | 'A') => self.session_rule().is_some(),
            KeyCode::Char('p' | 'P') => self.lasting_rule().is_some(),
            KeyCode::Char('e' | 'E') => allows(DecisionKind::Edit) && self.questions.editable().is_some(),
            _ => false,
        }
    }

    /// Handles a key at the question whether to save a rule for the directory.
    fn keep_key(&mut self, key: KeyEvent, rule: RememberedRule) -> bool {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        match key.code {
            KeyCode::Char('y' | 'Y') | KeyCode::Enter if plain => {
                self.questions.remember(&rule);
                self.hint = Some(format!("{rule}: no longer asked about in this directory"));
                if let Some(connected) = &mut self.session.connected {
                    connected.remembered.push(rule.clone());
                }
                self.request(Effect::Remember(rule));
                self.answer_if_decided();
            }
            KeyCode::Char('n' | 'N') | KeyCode::Esc => self.questions.ask_plainly(),
            // Another letter continues a message that begins with `p`.
            KeyCode::Char(_) if plain && self.editor.is_empty() => {
                self.questions.ask_plainly();
                self.editor.insert("p");
                return false;
            }
            _ => {}
        }
        true
    }

    /// Returns the session rule that the current question can create.
    pub(crate) fn session_rule(&self) -> Option<Rule> {
        self.questions.rule().filter(|_| self.is_repeatable_later())
    }

    /// Returns the rule for the directory that the current question can create.
    pub(crate) fn lasting_rule(&self) -> Option<RememberedRule> {
        self.questions.lasting_rule(&self.session.connected.as_ref()?.reach).filter(|_| self.is_repeatable_later())
    }

    /// Returns whether the call has the same meaning later. A command in a shared shell has not.
    fn is_repeatable_later(&self) -> bool {
        let shares_shell = self.session.connected.as_ref().is_some_and(|connected| connected.shares_shell);
        !shares_shell || !self.questions.current().is_some_and(|question| is_command(&question.request.tool))
    }

    fn respond(&mut self) {
        if let Some(question) = self.questions.current() {
            self.questions.asking = Asking::Respond(Form::of(&question.request));
        }
    }

    fn decide(&mut self, decision: Decision) {
        self.questions.decide(decision);
        self.answer_if_decided();
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::Event as TerminalEvent;
    use deepagents::core::tool::CallId;
    use deepagents::{ActionRequest, FinishReason};
    use serde_json::json;

    use super::*;
    use crate::app::event::{Event, PendingApproval, RunEnd};
    use crate::app::{SessionInfo, Work};
    use crate::input::History;
    use crate::policy::Mode;
    use crate::view::{LaidOut, Printer, frame};

    fn question() -> PendingApproval {
        let request = ActionRequest::about(&CallId::default(), "execute", json!({"command": "touch a.txt"}), "");
        PendingApproval { request, file: None, tool: None, task: None, laid_out: LaidOut::default() }
    }

    fn press(app: &mut App, code: KeyCode) {
        app.update(Event::Terminal(TerminalEvent::Key(KeyEvent::new(code, KeyModifiers::NONE))));
    }

    #[test]
    fn keys_pressed_during_a_stop_neither_approve_nor_allow_anything() {
        for pager in [false, true] {
            let info = SessionInfo::default();
            let mut app = App::new((80, 24), Default::default(), Mode::Ask, info, History::default());
            app.begin(Work::Run);
            // The question is on the screen before the run has ended with it.
            app.update(Event::ApprovalRequested(Box::new(question())));
            frame(&mut app, &mut Printer::default(), false);
            app.update(Event::Drawn);
            assert!(app.questions.is_all_shown());
            press(&mut app, KeyCode::Esc);
            if pager {
                app.open_pager();
            }
            press(&mut app, KeyCode::Char('y'));
            press(&mut app, KeyCode::Char('a'));
            let stop = Ok(FinishReason::Interrupted);
            let end =
                RunEnd { questions: vec![question()], text: String::new(), stop, unsent: None, early: Vec::new() };
            let effects = app.update(Event::RunEnded(Box::new(end)));
            assert!(app.left.is_empty() && !app.is_busy(), "{:?}", app.left);
            assert!(
                !effects.iter().any(|effect| matches!(effect, Effect::Allow(_) | Effect::Resume { .. })),
                "{effects:?}"
            );
            assert_eq!(app.editor.text(), if pager { "" } else { "ya" });
        }
    }
}
