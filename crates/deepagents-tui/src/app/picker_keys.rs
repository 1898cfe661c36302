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

impl Picker {
    /// Returns whether typed characters filter the list.
    pub(super) fn filters_by_typing(&self) -> bool {
        matches!(self.stage, Stage::Choose)
    }
}

impl App {
    pub(super) fn choose(&mut self, choices: Choices) -> Vec<Effect> {
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
            self.note(text, false);
            return Vec::new();
        }
        self.overlay = Overlay::Picker(Picker::new(choices));
        self.preview()
    }

    /// Requests the preview of the selected entry, if it has one.
    pub(super) fn preview(&self) -> Vec<Effect> {
        let Overlay::Picker(picker) = &self.overlay else { return Vec::new() };
        picker.wants_preview().map(|(of, key)| Effect::Preview { of, key }).into_iter().collect()
    }

    pub(super) fn picker_key(&mut self, key: KeyEvent, mut picker: Picker) -> Vec<Effect> {
        let stage = std::mem::take(&mut picker.stage);
        match stage {
            Stage::Choose => self.choose_key(key, picker),
            Stage::Confirm(scope) => self.confirm_key(key, picker, scope),
            Stage::Delete => self.delete_key(key, picker),
            Stage::Rename(editor) => self.rename_key(key, picker, editor),
        }
    }

    fn choose_key(&mut self, key: KeyEvent, mut picker: Picker) -> Vec<Effect> {
        let of_threads = picker.of == ListOf::Threads;
        match (key.code, control(key)) {
            (KeyCode::Esc, _) => {
                if picker.of == ListOf::Providers {
                    self.without_key();
                }
                return Vec::new();
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
                    let mut editor = Editor::default();
                    editor.set(choice.label);
                    picker.stage = Stage::Rename(editor);
                }
            }
            (_, Some('f')) if of_threads => {
                if let Some(choice) = picker.current() {
                    if self.is_busy() {
                        self.note(self.stop_first(), true);
                        return Vec::new();
                    }
                    self.begin(Work::Other("copying"));
                    return vec![Effect::ForkThread(choice.key)];
                }
            }
            (KeyCode::Backspace, _) => picker
                .narrow(|filter| filter.truncate(filter.len() - filter.chars().next_back().map_or(0, char::len_utf8))),
            (_, Some('u')) => picker.narrow(String::clear),
            (KeyCode::Char(c), None) => picker.narrow(|filter| filter.push(c)),
            _ => {}
        }
        self.overlay = Overlay::Picker(picker);
        self.preview()
    }

    fn picked(&mut self, mut picker: Picker) -> Vec<Effect> {
        let Some(choice) = picker.current() else {
            self.overlay = Overlay::Picker(picker);
            return Vec::new();
        };
        match picker.of {
            ListOf::Threads if self.is_busy() => {
                self.note(self.stop_first(), true);
                Vec::new()
            }
            ListOf::Threads => {
                self.begin(Work::Other("opening"));
                vec![Effect::Open(choice.key)]
            }
            ListOf::Models => self.use_model(&choice.key),
            ListOf::Providers => self.provider_chosen(choice.key),
            ListOf::SubAgents => {
                vec![Effect::OpenSubAgent { key: choice.key, title: choice.label.trim().to_owned() }]
            }
            ListOf::Efforts => self.use_effort(&choice.key),
            ListOf::Themes => {
                self.theme(&choice.key);
                Vec::new()
            }
            ListOf::Checkpoints => {
                picker.stage = Stage::Confirm(RewindScope::default());
                self.overlay = Overlay::Picker(picker);
                self.preview()
            }
        }
    }

    fn confirm_key(&mut self, key: KeyEvent, mut picker: Picker, mut scope: RewindScope) -> Vec<Effect> {
        match (key.code, control(key)) {
            (KeyCode::Esc, _) => {
                self.overlay = Overlay::Picker(picker);
                return Vec::new();
            }
            (KeyCode::Up, _) | (_, Some('p')) => scope = scope.step(false),
            (KeyCode::Down, _) | (_, Some('n')) => scope = scope.step(true),
            (KeyCode::Enter, _) => {
                let Some(choice) = picker.current() else { return Vec::new() };
                let Ok(position) = choice.key.parse() else { return Vec::new() };
                self.begin(Work::Other("going back"));
                return vec![Effect::Rewind { position, text: choice.detail, scope }];
            }
            (KeyCode::PageUp | KeyCode::PageDown, _) | (_, Some('o')) if !picker.preview().is_empty() => {
                picker.stage = Stage::Confirm(scope);
                self.overlay = Overlay::Pager(Pager::of(Source::Preview(Arc::new(picker))));
                return Vec::new();
            }
            _ => {}
        }
        picker.stage = Stage::Confirm(scope);
        self.overlay = Overlay::Picker(picker);
        Vec::new()
    }

    fn delete_key(&mut self, key: KeyEvent, mut picker: Picker) -> Vec<Effect> {
        let chosen = picker.current();
        let effects = match (key.code, chosen) {
            (KeyCode::Char('y'), Some(choice)) => vec![Effect::DeleteThread(choice.key)],
            (KeyCode::Char('n') | KeyCode::Esc, _) => Vec::new(),
            _ => {
                picker.stage = Stage::Delete;
                Vec::new()
            }
        };
        self.overlay = Overlay::Picker(picker);
        effects
    }

    fn rename_key(&mut self, key: KeyEvent, mut picker: Picker, mut editor: Editor) -> Vec<Effect> {
        let mut effects = Vec::new();
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Enter => {
                let title = editor.take();
                if let (Some(choice), false) = (picker.current(), title.trim().is_empty()) {
                    effects.push(Effect::RenameThread { id: choice.key, title: title.trim().to_owned() });
                }
            }
            _ => {
                editor.key(key);
                picker.stage = Stage::Rename(editor);
            }
        }
        self.overlay = Overlay::Picker(picker);
        effects
    }
}
