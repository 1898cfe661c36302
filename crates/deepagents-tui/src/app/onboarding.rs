//! The first start: the user enters a provider's key, or sees the demonstration.

use crossterm::event::{KeyCode, KeyEvent};

use super::effect::{Effect, ListOf};
use super::event::{Choice, Choices};
use super::picker::Picker;
use super::{App, Overlay};
use crate::input::Editor;

/// The key of the entry for the demonstration.
const DEMO: &str = "demo";
/// The key of the entry for a model on this machine.
const LOCAL: &str = "local";

impl App {
    /// Lists the providers that accept a key.
    pub(crate) fn choose_provider(&mut self) {
        // Entries that need no key come first, as the list may be longer than the screen.
        let mut rows = vec![
            Choice::new(LOCAL, "a model on this machine", "Ollama, llama.cpp or vLLM; no key"),
            Choice::new(DEMO, "none: show me the demonstration", "a real agent, with a script in place of the model"),
        ];
        rows.extend(self.providers.iter().map(|(name, detail)| Choice::new(name, name, detail)));
        self.overlay = Overlay::Picker(Picker::new(Choices { of: ListOf::Providers, rows }));
    }

    /// Asks for the key of the named provider, or lists the providers.
    pub(super) fn auth(&mut self, name: &str) {
        if self.providers.iter().any(|(known, _)| known == name) {
            self.overlay = Overlay::Secret { provider: name.to_owned(), editor: Editor::default() };
            return;
        }
        if !name.is_empty() {
            self.note(format!("there is no provider `{name}` that takes a key; choose one"), true);
        }
        self.choose_provider();
    }

    pub(super) fn provider_chosen(&mut self, name: String) {
        match name.as_str() {
            DEMO => self.request(Effect::Demo),
            LOCAL => self.request(Effect::List(ListOf::Models)),
            _ => self.overlay = Overlay::Secret { provider: name, editor: Editor::default() },
        }
    }

    pub(super) fn secret_key(&mut self, key: KeyEvent, provider: String, mut editor: Editor) {
        match key.code {
            KeyCode::Esc => self.choose_provider(),
            KeyCode::Enter => match editor.take().trim() {
                "" => self.overlay = Overlay::Secret { provider, editor },
                key => self.request(Effect::SaveKey { provider, key: key.into() }),
            },
            _ => {
                editor.key(key);
                self.overlay = Overlay::Secret { provider, editor };
            }
        }
    }

    /// Uses a model of the provider whose key was saved, or asks again.
    pub(super) fn key_saved(&mut self, saved: Result<String, String>) {
        match saved {
            Ok(model) => {
                self.note("the key is stored; you can begin", false);
                self.use_model(&model);
            }
            Err(problem) => {
                self.note(problem, true);
                self.choose_provider();
            }
        }
    }

    /// Tells a user who enters no key how to continue.
    pub(super) fn without_key(&mut self) {
        if self.session.connected.is_none() {
            self.note("there is no model yet: /auth to enter a key, /model NAME to use a model, /quit to end", false);
        }
    }
}
