//! Keys that were chosen for actions, and what keys are called.

use std::collections::HashMap;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::preferences::{chosen_key, key_named};

/// What a key may be chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Newline,
    Stop,
    Mode,
    Details,
    Search,
    Editor,
    Background,
    Redraw,
    Suspend,
    Quit,
}

impl Action {
    /// All of them with their names and their usual keys.
    const ALL: [(Self, &str, &str); 10] = [
        (Self::Newline, "newline", "ctrl-j"),
        (Self::Stop, "stop", "esc"),
        (Self::Mode, "mode", "shift-tab"),
        (Self::Details, "details", "ctrl-o"),
        (Self::Search, "search", "ctrl-r"),
        (Self::Editor, "editor", "ctrl-g"),
        (Self::Background, "background", "ctrl-b"),
        (Self::Redraw, "redraw", "ctrl-l"),
        (Self::Suspend, "suspend", "ctrl-z"),
        (Self::Quit, "quit", "ctrl-d"),
    ];
}

/// Which keys stand for which others.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyMap {
    /// The usual key that a pressed one stands for; nothing where it stands for nothing any more.
    map: HashMap<(KeyCode, KeyModifiers), Option<KeyEvent>>,
    /// The keys that were chosen, in order.
    chosen: Vec<(Action, String)>,
}

impl KeyMap {
    /// The map for these choices; what is no action or no key is told and passed over.
    pub(crate) fn new(choices: &[(String, String)]) -> (Self, Vec<String>) {
        let (mut map, mut problems) = (HashMap::new(), Vec::new());
        let (mut keys, mut chosen) = (Vec::new(), Vec::new());
        for (name, key) in choices {
            let Some((action, _, usual)) = Action::ALL.iter().find(|(_, known, _)| known == name) else {
                problems.push(format!("there is no action `{name}` to choose a key for"));
                continue;
            };
            match (chosen_key(key), key_named(usual)) {
                (Ok(pressed), Ok(usual)) if pressed == usual => {}
                (Ok(pressed), Ok(usual)) => {
                    keys.push((pressed, usual));
                    chosen.push((*action, key.clone()));
                }
                (Err(error), _) | (_, Err(error)) => problems.push(error.to_string()),
            }
        }
        for (_, usual) in &keys {
            map.insert((usual.code, usual.modifiers), None);
        }
        for (key, usual) in keys {
            map.insert((key.code, key.modifiers), Some(usual));
        }
        (Self { map, chosen }, problems)
    }

    /// What a pressed key means; nothing where its meaning has gone to another.
    pub(crate) fn translate(&self, key: KeyEvent) -> Option<KeyEvent> {
        // Shift+Tab comes with and without its modifier.
        let modifiers = if key.code == KeyCode::BackTab { KeyModifiers::SHIFT } else { key.modifiers };
        match self.map.get(&(key.code, modifiers)) {
            Some(meant) => meant.map(|meant| KeyEvent { kind: key.kind, ..meant }),
            None => Some(key),
        }
    }

    /// The first key of an action, as people write it. In lists and panels, where its usual key means something else, it is
    /// the name of what is pressed for that too.
    pub(crate) fn name(&self, action: Action) -> String {
        if let Some((_, key)) = self.chosen.iter().find(|(chosen, _)| *chosen == action) {
            return written(key);
        }
        let usual = Action::ALL.iter().find(|(known, ..)| *known == action).map_or("", |(.., usual)| usual);
        let is_free = key_named(usual).is_ok_and(|key| !self.map.contains_key(&(key.code, key.modifiers)));
        match action {
            _ if is_free => written(usual),
            // It stops in any case.
            Action::Stop => "Ctrl+C".to_owned(),
            _ => "no key".to_owned(),
        }
    }
}

/// The name of a key as people write it.
fn written(name: &str) -> String {
    let (mut out, mut rest) = (String::new(), name);
    for (prefix, modifier) in [("ctrl-", "Ctrl+"), ("alt-", "Alt+"), ("shift-", "Shift+")] {
        if let Some(after) = rest.strip_prefix(prefix) {
            out += modifier;
            rest = after;
        }
    }
    let mut letters = rest.chars();
    match (rest, letters.next()) {
        ("pgup", _) => out += "PgUp",
        ("pgdn", _) => out += "PgDn",
        (_, Some(letter)) => {
            if letter.is_uppercase() && !out.ends_with("Shift+") {
                out += "Shift+";
            }
            out.extend(letter.to_uppercase());
            out += letters.as_str();
        }
        _ => {}
    }
    out
}
