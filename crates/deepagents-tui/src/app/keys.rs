//! Key handling.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::effect::Effect;
use super::menu::MenuKind;
use super::messages::Recipient;
use super::pending::Asking;
use super::picker::Stage;
use super::question_keys::Pressed;
use super::state::CameBack;
use super::{App, Overlay, QUIT_INTERVAL, QueuedMessage, Work};
use crate::input::KeyResult;

/// Returns the character of a key pressed with Ctrl.
pub(super) fn control(key: KeyEvent) -> Option<char> {
    match key.code {
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => Some(c),
        _ => None,
    }
}

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let Some(key) = self.keys.translate(key) else { return };
        self.drop_hint();
        let again = self.last_interrupt.take().is_some_and(|last| self.elapsed_since(last) < QUIT_INTERVAL);
        if control(key) == Some('c') {
            return self.control_c(again);
        }
        if control(key) == Some('z') {
            return self.request(Effect::Suspend);
        }
        match std::mem::take(&mut self.overlay) {
            Overlay::None => {}
            Overlay::Pager(pager) => return self.pager_key(key, pager),
            Overlay::Picker(picker) => return self.picker_key(key, picker),
            Overlay::Search { words, skip } => return self.search_key(key, words, skip),
            Overlay::Secret { provider, editor } => return self.secret_key(key, provider, editor),
            Overlay::Trust(question) => return self.trust_key(key, question),
        }
        if control(key) == Some('o') {
            return self.open_pager();
        }
        if key.code == KeyCode::BackTab {
            return self.set_mode(self.mode.next());
        }
        let at_question = self.questions.current().is_some() && self.question_key(key, Pressed::AtInput);
        if !at_question && !self.menu_key(key) {
            self.input_key(key);
        }
    }

    pub(super) fn set_mode(&mut self, mode: crate::policy::Mode) {
        self.mode = mode;
        self.request(Effect::SetMode(mode));
    }

    /// Clears the input, stops the current work or quits.
    fn control_c(&mut self, again: bool) {
        match std::mem::take(&mut self.overlay) {
            Overlay::None => {}
            Overlay::Search { .. } => return self.leave_search(),
            Overlay::Secret { .. } => return self.without_key(),
            _ => return,
        }
        let decides = match &self.questions.asking {
            Asking::Decide => true,
            Asking::Respond(form) => form.is_choosing(),
            Asking::Reason(_) | Asking::Change(_) | Asking::Remember(_) => false,
        };
        if !decides {
            self.questions.ask_plainly();
        } else if !self.editor.is_empty() {
            self.history.add(&self.editor.expanded());
            self.editor.clear();
            self.menu = None;
            self.reset_vi();
        } else if self.can_interrupt() && !(self.stopping && matches!(self.work, Work::Other(_))) {
            self.interrupt();
        } else if again {
            self.request(Effect::Quit);
        } else {
            self.last_interrupt = Some(self.now.0);
            self.hint = Some("press Ctrl+C again to quit".to_owned());
            self.hint_ends = Some(self.now.0 + QUIT_INTERVAL);
        }
    }

    /// Handles a key of the menu. Returns whether it was one.
    fn menu_key(&mut self, key: KeyEvent) -> bool {
        let Some(menu) = &mut self.menu else { return false };
        match (key.code, control(key)) {
            (KeyCode::Esc, _) => self.close_menu(),
            (KeyCode::Up, _) | (_, Some('p')) => menu.step(false),
            (KeyCode::Down, _) | (_, Some('n')) => menu.step(true),
            (KeyCode::Tab, _) => self.take_completion_and_go_on(),
            (KeyCode::Enter, _) if key.modifiers.is_empty() => {
                let text = menu.current().map(|row| row.text.clone()).unwrap_or_default();
                let (_, word) = self.editor.word_before();
                let (kind, complete) = (menu.kind, self.editor.before().ends_with(&text));
                if menu.kind == MenuKind::Command && menu.rows.iter().any(|row| row.text == word) {
                    self.menu = None;
                    return false;
                }
                self.take_completion();
                // Enter sends a completed command; a completed file is part of a message.
                return !complete && kind != MenuKind::Command;
            }
            _ => return false,
        }
        true
    }

    fn input_key(&mut self, key: KeyEvent) {
        let came_back = std::mem::take(&mut self.came_back);
        if key.code == KeyCode::Char('/') && control(key).is_none() {
            match came_back {
                CameBack::Typed => {}
                CameBack::FromRewind => self.editor.set(""),
                CameBack::Unsent => self.aside = Some(std::mem::take(&mut self.editor)),
            }
        }
        // The screen says that this key stops the work, so it does in each mode of an empty input.
        let stops = key.code == KeyCode::Esc && self.editor.is_empty() && self.can_interrupt();
        if let Some(vi) = self.vi.as_mut().filter(|_| !stops) {
            match vi.key(key, &mut self.editor) {
                KeyResult::Nothing => {}
                KeyResult::Key => {
                    self.typed = Some(self.now.0);
                    return self.complete();
                }
                KeyResult::Older => return self.older(),
                KeyResult::Newer => return self.newer(),
            }
        }
        match (key.code, control(key)) {
            (KeyCode::Enter, _) if key.modifiers.is_empty() => {
                self.reset_vi();
                self.enter();
            }
            (KeyCode::Esc, _) if self.can_interrupt() => self.interrupt(),
            (KeyCode::Esc, _) => {}
            (_, Some('d')) if self.editor.is_empty() => self.request(Effect::Quit),
            (_, Some('b')) if self.work == Work::Run && self.editor.is_empty() => self.move_to_background(),
            (_, Some('l')) => self.repaint = true,
            (_, Some('g')) => self.request(Effect::Edit(self.editor.expanded())),
            (_, Some('r')) => self.begin_search(),
            (KeyCode::Tab, _) if self.work == Work::Run && !self.editor.is_empty() => self.queue(),
            (KeyCode::Up, _) | (_, Some('p')) => self.older(),
            (KeyCode::Down, _) | (_, Some('n')) => self.newer(),
            _ if self.editor.key(key) => {
                self.typed = Some(self.now.0);
                self.history.stop_viewing();
                self.complete();
            }
            _ => {}
        }
    }

    /// Returns to insert mode, for the next message.
    fn reset_vi(&mut self) {
        if let Some(vi) = &mut self.vi {
            vi.reset();
        }
    }

    /// Moves to the line above, takes back waiting messages or recalls an earlier input.
    fn older(&mut self) {
        if self.editor.is_empty() && self.waiting.iter().any(|waiting| waiting.to != Recipient::Thread) {
            return self.fetch_waiting();
        }
        if self.editor.up() {
            return;
        }
        let present = self.editor.text().to_owned();
        if let Some(text) = self.history.older(&present).map(str::to_owned) {
            self.editor.set(text);
            self.close_menu();
        }
    }

    /// Moves to the line below or recalls a later input.
    fn newer(&mut self) {
        if !self.editor.down()
            && let Some(text) = self.history.newer().map(str::to_owned)
        {
            self.editor.restore(&text);
        }
    }

    /// Takes waiting messages back into the input.
    fn fetch_waiting(&mut self) {
        if self.waiting.iter().any(|waiting| waiting.to.is_sent()) {
            self.request(Effect::Retract);
        } else {
            self.take_back(&[]);
        }
    }

    /// Queues a message until the run ends.
    fn queue(&mut self) {
        let text = self.editor.take();
        self.history.add(&text);
        self.waiting.push(QueuedMessage::after_current_work(text));
    }

    /// Returns the text that was put aside for a command to the input, once that is empty again.
    pub(super) fn bring_back(&mut self) {
        if self.editor.is_empty()
            && let Some(text) = self.aside.take()
        {
            (self.editor, self.came_back) = (text, CameBack::Unsent);
        }
    }

    pub(super) fn pasted(&mut self, text: &str) {
        self.drop_hint();
        let asked = self.questions.current().is_some();
        match (&mut self.overlay, &mut self.questions.asking) {
            (Overlay::Picker(picker), _) => match &mut picker.stage {
                Stage::Choose => picker.narrow(|filter| filter.extend(text.chars().filter(|c| !c.is_control()))),
                Stage::Rename(editor) => editor.insert(&text.replace(char::is_control, " ")),
                Stage::Confirm(_) | Stage::Delete => {}
            },
            (Overlay::Secret { editor, .. }, _) => editor.insert(text.trim()),
            (Overlay::Search { words, .. }, _) => {
                let line = text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control());
                let words = words.chars().chain(line).collect();
                self.search(words, 0);
            }
            // While an answer is being chosen, the text goes into the input.
            (Overlay::None, Asking::Respond(form)) if asked && form.takes_text() => form.paste(text),
            (Overlay::None, Asking::Reason(editor) | Asking::Change(editor)) if asked => editor.paste(text),
            (Overlay::None, _) => {
                self.typed = Some(self.now.0);
                self.came_back = CameBack::Typed;
                self.editor.paste(text);
                self.menu = None;
            }
            _ => {}
        }
    }
}
