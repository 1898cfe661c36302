//! The first start: the key of a provider, or the demonstration.

use crossterm::event::{KeyCode, KeyEvent};

use super::event::{Choice, Choices, Effect, ListOf, Secret};
use super::picker::Picker;
use super::{App, Overlay};
use crate::input::Editor;

/// What is chosen by somebody who wants to see the demonstration.
const DEMO: &str = "demo";
/// What is chosen by somebody whose model runs on this machine.
const LOCAL: &str = "local";

impl App {
    /// Lets the person choose whose key is given.
    pub(crate) fn choose_provider(&mut self) {
        let row = |key: &str, label: &str, detail: &str| Choice {
            key: key.to_owned(),
            label: label.to_owned(),
            detail: detail.to_owned(),
        };
        // What needs no key stands first: the list is longer than many screens.
        let mut rows = vec![
            row(LOCAL, "a model on this machine", "Ollama, llama.cpp or vLLM; no key"),
            row(DEMO, "none: show me the demonstration", "a real agent, a script in the place of the model"),
        ];
        rows.extend(self.providers.iter().map(|(name, detail)| row(name, name, detail)));
        self.overlay = Overlay::Picker(Picker::new(Choices { of: ListOf::Providers, rows }));
    }

    /// Lets the person give the key of a provider that they name, or choose one.
    pub(super) fn auth(&mut self, name: &str) {
        if self.providers.iter().any(|(known, _)| known == name) {
            self.overlay = Overlay::Secret { provider: name.to_owned(), editor: Editor::default() };
            return;
        }
        if !name.is_empty() {
            self.note(format!("there is no provider `{name}` whose key could be given; choose one"), true);
        }
        self.choose_provider();
    }

    pub(super) fn provider_chosen(&mut self, name: String) -> Vec<Effect> {
        match name.as_str() {
            DEMO => vec![Effect::Demo],
            LOCAL => vec![Effect::List(ListOf::Models)],
            _ => {
                self.overlay = Overlay::Secret { provider: name, editor: Editor::default() };
                Vec::new()
            }
        }
    }

    pub(super) fn secret_key(&mut self, key: KeyEvent, provider: String, mut editor: Editor) -> Vec<Effect> {
        match key.code {
            KeyCode::Esc => self.choose_provider(),
            KeyCode::Enter => {
                let typed = editor.take();
                if typed.trim().is_empty() {
                    self.overlay = Overlay::Secret { provider, editor };
                    return Vec::new();
                }
                return vec![Effect::SaveKey { provider, key: Secret(typed.trim().to_owned()) }];
            }
            _ => {
                editor.key(key);
                self.overlay = Overlay::Secret { provider, editor };
            }
        }
        Vec::new()
    }

    /// How to go on, for somebody who gives no key now.
    pub(super) fn without_key(&mut self) {
        if self.session.connected.is_none() {
            self.note("there is no model yet: /auth gives a key, /model NAME uses a model, /quit ends", false);
        }
    }
}
