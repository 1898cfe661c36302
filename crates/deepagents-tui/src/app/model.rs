//! The model and its effort.

use super::App;
use super::effect::Effect;
use super::transcript::Item;
use crate::host::Effort;

impl App {
    pub(super) fn use_model(&mut self, name: &str) {
        // A run that waits for a decision makes no model call before it.
        if self.is_busy() && !self.waits {
            self.note(format!("model: {name}, after this turn"), false);
            self.next_model = Some(name.to_owned());
            return;
        }
        self.without_model = false;
        name.clone_into(&mut self.session.model);
        self.note(model_note(name), false);
        self.request(Effect::Connect(name.to_owned()));
    }

    /// Takes back the choice of a model that cannot be used.
    pub(super) fn model_refused(&mut self, name: &str, problem: String, kept: Option<String>) {
        let note = Item::Note { text: model_note(name), bad: false };
        if let Some(at) = self.items.iter().rposition(|item| *item == note) {
            self.items.remove(at);
            self.repaint = true;
        }
        self.note(problem.clone(), true);
        match kept {
            Some(model) => {
                self.note(format!("still using {model}"), false);
                self.session.model = model;
            }
            None => {
                (self.session.problem, self.without_model) = (Some(problem), true);
                "no model".clone_into(&mut self.session.model);
            }
        }
    }

    /// Switches to the model chosen while other work was in progress.
    pub(super) fn use_next_model(&mut self) {
        if (!self.is_busy() || self.waits)
            && let Some(name) = self.next_model.take()
        {
            self.use_model(&name);
        }
    }

    pub(super) fn effort_set(&mut self, effort: Option<Effort>) {
        self.effort = effort;
        let text = effort.map_or("the model's default", Effort::as_str);
        self.note(format!("effort: {text}"), false);
    }

    pub(super) fn use_effort(&mut self, word: &str) {
        if self.is_busy() {
            return self.note("the effort can be changed after this turn", true);
        }
        let effort = Effort::from_word(word);
        if effort.is_none() && !matches!(word, "off" | "none" | "default") {
            return self.note(format!("there is no effort `{word}`: low, medium, high or off"), true);
        }
        self.request(Effect::SetEffort(effort));
    }
}

/// Returns the notice of another model.
fn model_note(name: &str) -> String {
    format!("model: {name}")
}
