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

    /// Handles a key at a question. Returns `None` if it belongs to the input.
    pub(super) fn question_key(&mut self, key: KeyEvent, pressed: Pressed) -> Option<Vec<Effect>> {
        // Keys that do not choose an answer work as at any question, or go into the input.
        if let Asking::Respond(form) = &self.questions.asking
            && form.is_choosing()
        {
            let chooses = form.chooses(key, self.editor.is_blank());
            let is_written = pressed == Pressed::AtInput && self.is_writing();
            if !chooses || is_written || !self.questions.takes_keys(self.now, self.editor.text()) {
                return self.decision_key(key, pressed);
            }
        }
        if control(key) == Some('g')
            && let Some(editor) = self.questions.written()
        {
            self.edits_answer = true;
            return Some(vec![Effect::Edit(editor.expanded())]);
        }
        let effects = match &mut self.questions.asking {
            Asking::Decide => return self.decision_key(key, pressed),
            Asking::Remember(rule) => {
                let rule = rule.clone();
                return self.keep_key(key, rule);
            }
            Asking::Reason(editor) => match key.code {
                KeyCode::Esc => {
                    self.questions.ask_plainly();
                    Vec::new()
                }
                KeyCode::Enter if key.modifiers.is_empty() => {
                    let reason = editor.take();
                    let message = (!reason.trim().is_empty()).then_some(reason);
                    self.decide(Decision::Reject { message })
                }
                _ => {
                    editor.key(key);
                    Vec::new()
                }
            },
            Asking::Respond(form) => match form.key(key) {
                Filled::Taken => {
                    self.questions.problem = None;
                    Vec::new()
                }
                Filled::Wrong(problem) => {
                    self.questions.problem = Some(problem);
                    Vec::new()
                }
                Filled::Left => {
                    self.questions.ask_plainly();
                    Vec::new()
                }
                Filled::Done(message) => self.decide(Decision::Respond { message }),
            },
            Asking::Change(editor) => match key.code {
                KeyCode::Esc => {
                    self.questions.ask_plainly();
                    Vec::new()
                }
                KeyCode::Enter if key.modifiers.is_empty() => {
                    let text = editor.expanded();
                    let edited = self.questions.edited(&text);
                    match edited {
                        Ok(decision) => self.decide(decision),
                        Err(problem) => {
                            self.questions.problem = Some(problem);
                            Vec::new()
                        }
                    }
                }
                _ => {
                    editor.key(key);
                    Vec::new()
                }
            },
        };
        Some(effects)
    }

    fn decision_key(&mut self, key: KeyEvent, pressed: Pressed) -> Option<Vec<Effect>> {
        if !key.modifiers.difference(KeyModifiers::SHIFT).is_empty()
            || !self.questions.takes_keys(self.now, self.editor.text())
        {
            return None;
        }
        // A key continues a message begun in the meantime, even if it could decide.
        if pressed == Pressed::AtInput && self.is_writing() {
            return (key.code == KeyCode::Esc && self.menu.is_none()).then(|| self.stop());
        }
        let allows = |kind| self.questions.allows(kind);
        let (approves, responds) = (allows(DecisionKind::Approve), allows(DecisionKind::Respond));
        let (rejects, edits) = (allows(DecisionKind::Reject), allows(DecisionKind::Edit));
        let effects = match key.code {
            // At a question for a text, typing begins the answer: `no` is a text here.
            KeyCode::Char(_) if self.questions.accepts_only_text() => {
                self.respond();
                return self.question_key(key, pressed);
            }
            // Questions that only a text answers get a form.
            KeyCode::Char('r' | 'R') if responds && !self.questions.has_choices() => {
                self.respond();
                Vec::new()
            }
            KeyCode::Enter if responds && !approves && self.editor.is_blank() && !self.questions.has_choices() => {
                self.respond();
                Vec::new()
            }
            KeyCode::Char('y' | 'Y') | KeyCode::Enter if !approves => return None,
            KeyCode::Char('n' | 'N' | 'f' | 'F') | KeyCode::Tab if !rejects => return None,
            KeyCode::Char('e' | 'E') if !edits => return None,
            KeyCode::Char('y' | 'Y') => self.decide(Decision::Approve),
            // Enter sends the text in the input, and decides nothing then.
            KeyCode::Enter if self.editor.is_blank() => self.decide(Decision::Approve),
            KeyCode::Char('n' | 'N') => self.decide(Decision::Reject { message: None }),
            KeyCode::Char('a' | 'A') => {
                let rule = self.session_rule()?;
                self.questions.allow(&rule);
                self.hint = Some(format!("{rule}: no longer asked about in this session"));
                let mut effects = vec![Effect::Allow(rule)];
                effects.extend(self.answer_if_decided());
                effects
            }
            KeyCode::Char('p' | 'P') => {
                self.questions.asking = Asking::Remember(self.lasting_rule()?);
                Vec::new()
            }
            KeyCode::Char('t' | 'T') => {
                let calls = self.questions.together();
                if calls.is_empty() {
                    return None;
                }
                self.overlay = Overlay::Pager(Pager::of(Source::Together(calls)));
                Vec::new()
            }
            KeyCode::Char('f' | 'F') | KeyCode::Tab => {
                self.questions.asking = Asking::Reason(Editor::default());
                Vec::new()
            }
            KeyCode::Char('e' | 'E') => {
                let mut editor = Editor::default();
                editor.set(self.questions.editable()?);
                self.questions.asking = Asking::Change(editor);
                Vec::new()
            }
            KeyCode::Esc => self.stop(),
            _ => return None,
        };
        Some(effects)
    }

    /// Handles a key at the question whether to save a rule for the directory.
    fn keep_key(&mut self, key: KeyEvent, rule: RememberedRule) -> Option<Vec<Effect>> {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        match key.code {
            KeyCode::Char('y' | 'Y') | KeyCode::Enter if plain => {
                self.questions.remember(&rule);
                self.hint = Some(format!("{rule}: no longer asked about in this directory"));
                if let Some(connected) = &mut self.session.connected {
                    connected.remembered.push(rule.clone());
                }
                let mut effects = vec![Effect::Remember(rule)];
                effects.extend(self.answer_if_decided());
                return Some(effects);
            }
            KeyCode::Char('n' | 'N') | KeyCode::Esc => self.questions.ask_plainly(),
            // Another letter continues a message that begins with `p`.
            KeyCode::Char(_) if plain && self.editor.is_empty() => {
                self.questions.ask_plainly();
                self.editor.insert("p");
                return None;
            }
            _ => {}
        }
        Some(Vec::new())
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

    fn decide(&mut self, decision: Decision) -> Vec<Effect> {
        self.questions.decide(decision);
        self.answer_if_decided()
    }
}
