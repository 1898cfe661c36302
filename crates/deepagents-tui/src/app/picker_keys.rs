//! Lists to choose from: opening them, and their keys.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};

use super::effect::{Effect, ListOf, RewindScope};
use super::event::Choices;
use super::keys::control;
use super::pager::{Pager, Source};
use super::picker::{Picker, Stage};
use super::{App, Overlay, Work};
use crate::input::Editor;

impl App {
    pub(super) fn choose(&mut self, choices: Choices) {
        if choices.rows.is_empty() {
            let text = match choices.of {
                ListOf::Threads => "this directory has no earlier threads",
                ListOf::Checkpoints => "there is no message to go back to",
                ListOf::Models => {
                    "no models are known by name: start a model server, such as `ollama serve`, or give a name: /model NAME"
                }
                ListOf::SubAgents => "there were no sub-agents in this conversation",
                ListOf::Efforts | ListOf::Themes | ListOf::Providers => "there is nothing to choose from",
            };
            return self.note(text, false);
        }
        self.overlay = Overlay::Picker(Picker::new(choices));
        self.preview();
    }

    /// Takes over an updated list.
    pub(super) fn refreshed(&mut self, choices: Choices) {
        if let Some(picker) = self.overlay.picker_mut() {
            picker.refresh(choices);
        }
        self.preview();
    }

    /// Requests the preview of the selected entry, if it has one.
    pub(super) fn preview(&mut self) {
        if let Some(picker) = self.overlay.picker_mut() {
            self.effects.extend(picker.wants_preview().map(|(of, key)| Effect::Preview { of, key }));
        }
    }

    pub(super) fn picker_key(&mut self, key: KeyEvent, mut picker: Picker) {
        match std::mem::take(&mut picker.stage) {
            Stage::Choose => self.choose_key(key, picker),
            Stage::Confirm(scope) => self.confirm_key(key, picker, scope),
            Stage::Delete => self.delete_key(key, picker),
            Stage::Rename(editor) => self.rename_key(key, picker, editor),
        }
    }

    fn choose_key(&mut self, key: KeyEvent, mut picker: Picker) {
        let of_threads = picker.of == ListOf::Threads;
        match (key.code, control(key)) {
            (KeyCode::Esc, _) => {
                if picker.of == ListOf::Providers {
                    self.without_key();
                }
                return;
            }
            (KeyCode::Up, _) | (_, Some('p')) => picker.move_selection(false),
            (KeyCode::Down, _) | (_, Some('n')) => picker.move_selection(true),
            (KeyCode::PageUp, _) => picker.step(-10),
            (KeyCode::PageDown, _) => picker.step(10),
            (KeyCode::Home, _) => picker.step(isize::MIN),
            (KeyCode::End, _) => picker.step(isize::MAX),
            (KeyCode::Enter, _) => return self.picked(picker),
            (_, Some('d')) if of_threads && picker.current().is_some() => picker.stage = Stage::Delete,
            (_, Some('r')) if of_threads => {
                if let Some(choice) = picker.current() {
                    picker.stage = Stage::Rename(Editor::with_text(choice.label));
                }
            }
            (_, Some('f')) if of_threads => {
                if let Some(choice) = picker.current() {
                    return self.begin_if_idle("copying", Effect::ForkThread(choice.key));
                }
            }
            (KeyCode::Backspace, _) => picker.narrow(|filter| {
                filter.pop();
            }),
            (_, Some('u')) => picker.narrow(String::clear),
            (KeyCode::Char(c), None) => picker.narrow(|filter| filter.push(c)),
            _ => {}
        }
        self.overlay = Overlay::Picker(picker);
        self.preview();
    }

    fn picked(&mut self, mut picker: Picker) {
        let Some(choice) = picker.current() else {
            self.overlay = Overlay::Picker(picker);
            return;
        };
        match picker.of {
            ListOf::Threads => self.begin_if_idle("opening", Effect::Open(choice.key)),
            ListOf::Models => self.use_model(&choice.key),
            ListOf::Providers => self.provider_chosen(choice.key),
            ListOf::SubAgents => {
                self.request(Effect::OpenSubAgent { key: choice.key, title: choice.label.trim().to_owned() });
            }
            ListOf::Efforts => self.use_effort(&choice.key),
            ListOf::Themes => self.theme(&choice.key),
            ListOf::Checkpoints => {
                picker.stage = Stage::Confirm(RewindScope::default());
                self.overlay = Overlay::Picker(picker);
                self.preview();
            }
        }
    }

    fn confirm_key(&mut self, key: KeyEvent, mut picker: Picker, mut scope: RewindScope) {
        match (key.code, control(key)) {
            (KeyCode::Esc, _) => {
                self.overlay = Overlay::Picker(picker);
                return;
            }
            (KeyCode::Up, _) | (_, Some('p')) => scope = scope.step(false),
            (KeyCode::Down, _) | (_, Some('n')) => scope = scope.step(true),
            (KeyCode::Enter, _) => {
                let Some(choice) = picker.current() else { return };
                let Ok(position) = choice.key.parse() else { return };
                self.begin(Work::Other("going back"));
                return self.request(Effect::Rewind { position, text: choice.detail, scope });
            }
            (KeyCode::PageUp | KeyCode::PageDown, _) | (_, Some('o')) if !picker.preview().is_empty() => {
                picker.stage = Stage::Confirm(scope);
                self.overlay = Overlay::Pager(Pager::of(Source::Preview(Arc::new(picker))));
                return;
            }
            _ => {}
        }
        picker.stage = Stage::Confirm(scope);
        self.overlay = Overlay::Picker(picker);
    }

    fn delete_key(&mut self, key: KeyEvent, mut picker: Picker) {
        match (key.code, picker.current()) {
            (KeyCode::Char('y'), Some(choice)) => self.request(Effect::DeleteThread(choice.key)),
            (KeyCode::Char('n') | KeyCode::Esc, _) => {}
            _ => picker.stage = Stage::Delete,
        }
        self.overlay = Overlay::Picker(picker);
    }

    fn rename_key(&mut self, key: KeyEvent, mut picker: Picker, mut editor: Editor) {
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Enter => {
                let title = editor.take();
                if let (Some(choice), false) = (picker.current(), title.trim().is_empty()) {
                    self.request(Effect::RenameThread { id: choice.key, title: title.trim().to_owned() });
                }
            }
            _ => {
                editor.key(key);
                picker.stage = Stage::Rename(editor);
            }
        }
        self.overlay = Overlay::Picker(picker);
    }

    /// Requests an effect that is work of its own, unless other work is in progress.
    pub(super) fn begin_if_idle(&mut self, what: &'static str, effect: Effect) {
        if self.is_busy() {
            return self.note(self.stop_first(), true);
        }
        self.begin(Work::Other(what));
        self.request(effect);
    }
}
