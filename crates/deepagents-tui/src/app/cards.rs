//! Information about the program itself: help, themes, effort, the clipboard.

use super::App;
use super::Overlay;
use super::commands::{COMMANDS, KEYS};
use super::effect::{Effect, ListOf};
use super::event::{Choice, Choices};
use super::picker::Picker;
use super::transcript::Item;
use crate::key_map::Action;
use crate::theme::NamedTheme;

impl App {
    pub(super) fn help(&mut self) {
        let mut body = String::new();
        for command in COMMANDS {
            let name = format!("/{} {}", command.name, command.args);
            body += &format!("{:<32} {}\n", name.trim_end(), command.about);
        }
        for command in self.session.connected.iter().flat_map(|connected| &connected.commands) {
            let name = format!("/{} {}", command.name, command.args);
            body += &format!("{:<32} {}\n", name.trim_end(), command.about);
        }
        self.card("Commands", body);
        self.keys_card();
    }

    pub(super) fn keys_card(&mut self) {
        let line = |(action, beside, about): &(Option<Action>, &str, &str)| {
            let chosen = action.map(|action| self.keys.name(action));
            let beside = (!beside.is_empty()).then(|| (*beside).to_owned());
            let keys: Vec<String> = chosen.into_iter().chain(beside).collect();
            format!("{:<24} {about}\n", keys.join(", "))
        };
        let body: String = KEYS.iter().map(line).collect();
        self.card("Keys", body);
    }

    pub(super) fn copy(&mut self) -> Vec<Effect> {
        let answer = self.items.iter().rev().find_map(|item| match item {
            Item::Answer(text) => Some(text.clone()),
            _ => None,
        });
        match answer {
            Some(text) => {
                self.hint = Some("copied".to_owned());
                vec![Effect::Copy(text)]
            }
            None => {
                self.note("there is no answer to copy yet", false);
                Vec::new()
            }
        }
    }

    /// Switches to a theme, or lists the themes.
    pub(super) fn theme(&mut self, name: &str) {
        if let Some(theme) = self.themes.choose(name) {
            self.theme = theme;
            self.repaint = true;
            return;
        }
        if !name.is_empty() {
            let list = self.themes.all.iter().map(|known| format!("{:<10} {}", known.name, known.about));
            let list = list.collect::<Vec<_>>().join("\n");
            self.note(format!("there is no theme `{name}`:\n{list}"), true);
            return;
        }
        let row = |known: &NamedTheme| {
            let present = if known.name == self.themes.present { " · in use" } else { "" };
            Choice { key: known.name.clone(), label: known.name.clone(), detail: format!("{}{present}", known.about) }
        };
        let rows = self.themes.all.iter().map(row).collect();
        self.overlay = Overlay::Picker(Picker::new(Choices { of: ListOf::Themes, rows }));
    }

    /// Lists the reasoning efforts to choose from.
    pub(super) fn efforts(&mut self) {
        let present = self.effort.map_or("off", crate::host::Effort::as_str);
        let row = |(word, about): &(&str, &str)| {
            let detail = if *word == present { format!("{about} · in use") } else { (*about).to_owned() };
            Choice { key: (*word).to_owned(), label: (*word).to_owned(), detail }
        };
        let rows = EFFORTS.iter().map(row).collect();
        self.overlay = Overlay::Picker(Picker::new(Choices { of: ListOf::Efforts, rows }));
    }
}

const EFFORTS: [(&str, &str); 4] = [
    ("off", "the model's default"),
    ("low", "a quick answer"),
    ("medium", "between the two"),
    ("high", "a slow and careful answer"),
];
