//! Key handling.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::effect::Effect;
use super::menu::MenuKind;
use super::pending::Asking;
use super::question_keys::Pressed;
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
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let Some(key) = self.keys.translate(key) else { return Vec::new() };
        self.drop_hint();
        let again =
            self.last_interrupt.take().is_some_and(|last| self.now.saturating_duration_since(last) < QUIT_INTERVAL);
        if control(key) == Some('c') {
            return self.control_c(again);
        }
        if control(key) == Some('z') {
            return vec![Effect::Suspend];
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
        if self.questions.current().is_some()
            && let Some(effects) = self.question_key(key, Pressed::AtInput)
        {
            return effects;
        }
        if self.menu.is_some()
            && let Some(effects) = self.menu_key(key)
        {
            return effects;
        }
        self.input_key(key)
    }

    pub(super) fn set_mode(&mut self, mode: crate::policy::Mode) -> Vec<Effect> {
        self.mode = mode;
        vec![Effect::SetMode(mode)]
    }

    /// Clears the input, stops the current work or quits.
    fn control_c(&mut self, again: bool) -> Vec<Effect> {
        match std::mem::take(&mut self.overlay) {
            Overlay::None => {}
            Overlay::Search { .. } => {
                self.leave_search();
                return Vec::new();
            }
            Overlay::Secret { .. } => {
                self.without_key();
                return Vec::new();
            }
            _ => return Vec::new(),
        }
        let decides = match &self.questions.asking {
            Asking::Decide => true,
            Asking::Respond(form) => form.is_choosing(),
            Asking::Reason(_) | Asking::Change(_) | Asking::Remember(_) => false,
        };
        if !decides {
            self.questions.ask_plainly();
            return Vec::new();
        }
        if !self.editor.is_empty() {
            self.history.add(&self.editor.expanded());
            self.editor.clear();
            self.menu = None;
            return Vec::new();
        }
        if self.is_busy() || self.background_shell.is_some() {
            return self.interrupt();
        }
        if again {
            return vec![Effect::Quit];
        }
        self.last_interrupt = Some(self.now);
        (self.hint, self.hint_ends) = (Some("press Ctrl+C again to quit".to_owned()), Some(self.now + QUIT_INTERVAL));
        Vec::new()
    }

    fn menu_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let menu = self.menu.as_mut()?;
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
                    return None;
                }
                self.take_completion();
                // Enter sends a completed command; a completed file is part of a message.
                return if complete || kind == MenuKind::Command { None } else { Some(Vec::new()) };
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn input_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if std::mem::take(&mut self.came_back) && key.code == KeyCode::Char('/') && control(key).is_none() {
            self.editor.set("");
        }
        // The screen says that this key stops the work, so it does in each mode of an empty input.
        let stops =
            key.code == KeyCode::Esc && self.editor.is_empty() && (self.is_busy() || self.background_shell.is_some());
        if let Some(vi) = self.vi.as_mut().filter(|_| !stops) {
            match vi.key(key, &mut self.editor) {
                KeyResult::Nothing => {}
                KeyResult::Key => {
                    self.typed = Some(self.now);
                    return self.complete();
                }
                KeyResult::Older => return self.older(),
                KeyResult::Newer => return self.newer(),
            }
        }
        match (key.code, control(key)) {
            (KeyCode::Enter, _) if key.modifiers.is_empty() => {
                if let Some(vi) = &mut self.vi {
                    vi.reset();
                }
                return self.enter();
            }
            (KeyCode::Esc, _) => {
                if self.is_busy() || self.background_shell.is_some() {
                    return self.interrupt();
                }
                return Vec::new();
            }
            (_, Some('d')) if self.editor.is_empty() => return vec![Effect::Quit],
            (_, Some('b')) if self.work == Work::Run && self.editor.is_empty() => return self.move_to_background(),
            (_, Some('l')) => {
                self.repaint = true;
                return Vec::new();
            }
            (_, Some('g')) => return vec![Effect::Edit(self.editor.expanded())],
            (_, Some('r')) => {
                self.begin_search();
                return Vec::new();
            }
            (KeyCode::Tab, _) if self.work == Work::Run && !self.editor.is_empty() => return self.queue(),
            (KeyCode::Up, _) | (_, Some('p')) => return self.older(),
            (KeyCode::Down, _) | (_, Some('n')) => return self.newer(),
            _ => {}
        }
        if self.editor.key(key) {
            self.typed = Some(self.now);
            self.history.stop_viewing();
            return self.complete();
        }
        Vec::new()
    }

    /// Moves to the line above, takes back waiting messages or recalls an earlier input.
    fn older(&mut self) -> Vec<Effect> {
        if self.editor.is_empty() && !self.waiting.is_empty() {
            return self.fetch_waiting();
        }
        if self.editor.up() {
            return Vec::new();
        }
        let present = self.editor.text().to_owned();
        if let Some(text) = self.history.older(&present).map(str::to_owned) {
            self.editor.set(text);
            self.close_menu();
        }
        Vec::new()
    }

    /// Moves to the line below or recalls a later input.
    fn newer(&mut self) -> Vec<Effect> {
        if !self.editor.down()
            && let Some(text) = self.history.newer().map(str::to_owned)
        {
            self.editor.restore(&text);
        }
        Vec::new()
    }

    /// Takes waiting messages back into the input.
    fn fetch_waiting(&mut self) -> Vec<Effect> {
        if self.waiting.iter().any(|waiting| waiting.is_sent) {
            return vec![Effect::Retract];
        }
        self.take_back(&[]);
        Vec::new()
    }

    /// Queues a message until the run ends.
    fn queue(&mut self) -> Vec<Effect> {
        let text = self.editor.take();
        self.history.add(&text);
        self.waiting.push(QueuedMessage::after_current_work(text));
        Vec::new()
    }

    pub(super) fn pasted(&mut self, text: &str) -> Vec<Effect> {
        self.drop_hint();
        let asked = self.questions.current().is_some();
        match (&mut self.overlay, &mut self.questions.asking) {
            (Overlay::Picker(picker), _) if picker.filters_by_typing() => {
                let text: String = text.chars().filter(|c| !c.is_control()).collect();
                picker.narrow(|filter| filter.push_str(&text));
            }
            (Overlay::Secret { editor, .. }, _) => editor.insert(text.trim()),
            (Overlay::Search { words, .. }, _) => {
                let line = text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control());
                let words = words.chars().chain(line).collect();
                self.search(words, 0);
            }
            // While an answer is being chosen, the text goes into the input.
            (Overlay::None, Asking::Respond(form)) if asked && form.takes_text() => form.paste(text),
            (Overlay::None, Asking::Reason(editor) | Asking::Change(editor)) if asked => {
                editor.paste(text);
            }
            (Overlay::None, _) => {
                self.typed = Some(self.now);
                self.editor.paste(text);
                self.menu = None;
            }
            _ => {}
        }
        Vec::new()
    }
}
