//! Custom key bindings and the display names of keys.

use std::collections::HashMap;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::preferences::{chosen_key, key_named};

/// An action that a key can be bound to.
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
    /// All actions with their names and default keys.
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

/// The custom key bindings.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyMap {
    /// The default key that a pressed key stands for; `None` if the pressed key has lost its meaning.
    map: HashMap<(KeyCode, KeyModifiers), Option<KeyEvent>>,
    /// The chosen keys, in order.
    chosen: Vec<(Action, String)>,
}

impl KeyMap {
    /// Builds the map from the user's choices. Skips unknown actions and keys, and returns a message for each.
    pub(crate) fn new(choices: &[(String, String)]) -> (Self, Vec<String>) {
        let (mut map, mut problems) = (HashMap::new(), Vec::new());
        let (mut keys, mut chosen) = (Vec::new(), Vec::new());
        for (name, key) in choices {
            let Some((action, _, usual)) = Action::ALL.iter().find(|(_, known, _)| known == name) else {
                problems.push(format!("there is no action `{name}` to bind a key to"));
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

    /// Returns the default key that a pressed key stands for, or `None` if its meaning has moved to another key.
    pub(crate) fn translate(&self, key: KeyEvent) -> Option<KeyEvent> {
        // Terminals report Shift+Tab with or without the modifier.
        let modifiers = if key.code == KeyCode::BackTab { KeyModifiers::SHIFT } else { key.modifiers };
        match self.map.get(&(key.code, modifiers)) {
            Some(meant) => meant.map(|meant| KeyEvent { kind: key.kind, ..meant }),
            None => Some(key),
        }
    }

    /// Returns the display name of an action's first key. The default key has another meaning in lists and panels; this
    /// key stands for it there too.
    pub(crate) fn name(&self, action: Action) -> String {
        if let Some((_, key)) = self.chosen.iter().find(|(chosen, _)| *chosen == action) {
            return written(key);
        }
        let usual = Action::ALL.iter().find(|(known, ..)| *known == action).map_or("", |(.., usual)| usual);
        let is_free = key_named(usual).is_ok_and(|key| !self.map.contains_key(&(key.code, key.modifiers)));
        match action {
            _ if is_free => written(usual),
            // Ctrl+C always works.
            Action::Stop => "Ctrl+C".to_owned(),
            _ => "no key".to_owned(),
        }
    }
}

/// Returns the display name of a key.
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
