//! Information about the program itself: help, themes, effort, the clipboard.

use super::commands::{COMMANDS, KEYS};
use super::effect::{Effect, ListOf};
use super::event::{Choice, Choices};
use super::picker::Picker;
use super::transcript::Item;
use super::{App, Overlay};
use crate::key_map::Action;
use crate::theme::NamedTheme;

impl App {
    pub(super) fn help(&mut self) {
        let line = |name: &str, args: &str, about: &str| {
            let name = format!("/{name} {args}");
            format!("{:<32} {about}\n", name.trim_end())
        };
        let own = COMMANDS.iter().map(|command| line(command.name, command.args, command.about));
        let files = self.session.connected.iter().flat_map(|connected| &connected.commands);
        let files = files.map(|command| line(&command.name, &command.args, &command.about));
        let body: String = own.chain(files).collect();
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

    pub(super) fn copy(&mut self) {
        let answer = self.items.iter().rev().find_map(|item| match item {
            Item::Answer(text) | Item::CutAnswer(text) => Some(text.clone()),
            _ => None,
        });
        match answer {
            Some(text) => {
                self.hint = Some("copied".to_owned());
                self.request(Effect::Copy(text));
            }
            None => self.note("there is no answer to copy yet", false),
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
            Choice::new(&known.name, &known.name, format!("{}{present}", known.about))
        };
        let rows = self.themes.all.iter().map(row).collect();
        self.overlay = Overlay::Picker(Picker::new(Choices { of: ListOf::Themes, rows }));
    }

    /// Lists the reasoning efforts to choose from.
    pub(super) fn efforts(&mut self) {
        let present = self.effort.map_or("off", crate::host::Effort::as_str);
        let row = |(word, about): &(&str, &str)| {
            let present = if *word == present { " · in use" } else { "" };
            Choice::new(*word, *word, format!("{about}{present}"))
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
