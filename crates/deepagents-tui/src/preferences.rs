//! How a person wants the screens to be.

use std::collections::HashMap;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::terminal::{Colours, Graphics};

/// How a person wants the screens to be. The default is that of somebody who has said nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// The name of a theme.
    pub theme: String,
    /// The person's own themes.
    pub themes: Vec<UserTheme>,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
    /// How many colours the terminal shows.
    pub colours: Colours,
    /// Words in the place of marks, and nothing that moves.
    pub screen_reader: bool,
    /// How the terminal takes pictures; nothing where it takes none: they are described then.
    pub images: Option<Graphics>,
    /// Messages are edited with the keys of vi.
    pub vi: bool,
    /// Whether the window's title says what goes on.
    pub title: bool,
    /// Whether the taskbar shows that something goes on.
    pub progress: bool,
    /// Keys by the actions that they are for, where they are others than usual; see [`check_key`] for their names.
    pub keys: Vec<(String, String)>,
    /// A command whose first line is shown below the input.
    pub status_line: Option<String>,
    /// How the person is told that the agent waits or is done.
    pub notifications: Notifications,
}

/// How a person is told that the agent waits or is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifications {
    /// By the terminal's bell.
    pub bell: bool,
    /// By the terminal's own notifications (OSC 9).
    pub terminal: bool,
    /// By a command that reads `{"event", "message", "thread", "directory"}` as JSON.
    pub command: Option<String>,
}

/// A person's own theme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserTheme {
    /// Its name.
    pub name: String,
    /// Colours by what they are for, such as `accent`, as `#rrggbb`, a number up to 255 or a name such as `lightblue`; with
    /// `base` the theme that has the others.
    pub colours: Vec<(String, String)>,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            theme: "dark".to_owned(),
            themes: Vec::new(),
            unicode: true,
            colours: Colours::All,
            screen_reader: false,
            images: None,
            vi: false,
            title: true,
            progress: false,
            keys: Vec::new(),
            status_line: None,
            notifications: Notifications { bell: true, terminal: true, command: None },
        }
    }
}

/// The actions that a key may be chosen for, with their usual keys.
const ACTIONS: [(&str, &str); 10] = [
    ("newline", "ctrl-j"),
    ("stop", "esc"),
    ("mode", "shift-tab"),
    ("details", "ctrl-o"),
    ("search", "ctrl-r"),
    ("editor", "ctrl-g"),
    ("background", "ctrl-b"),
    ("redraw", "ctrl-l"),
    ("suspend", "ctrl-z"),
    ("quit", "ctrl-d"),
];

/// Why a key is none, or none that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` {why}")]
pub struct KeyError {
    name: String,
    why: &'static str,
}

/// What is no key.
const NO_KEY: &str = "is no key: write it as in ctrl-o, alt-enter, f5, shift-tab or esc";

/// Checks the name of a key: `ctrl-`, `alt-` and `shift-` before a letter, or before `enter`, `esc`, `tab`, `up`, `down`,
/// `left`, `right`, `home`, `end`, `pgup`, `pgdn`, `backspace`, `delete`, `space`, `f1` to `f12`.
///
/// # Errors
/// When it is none, or none that may be chosen: messages are typed with it, Ctrl+C stops whatever goes on, and some no
/// terminal sends.
pub fn check_key(name: &str) -> Result<(), KeyError> {
    chosen_key(name).map(drop)
}

/// The key of a name, where it may be chosen for an action.
fn chosen_key(name: &str) -> Result<KeyEvent, KeyError> {
    let key = key_named(name)?;
    let (control, alt) = (key.modifiers.contains(KeyModifiers::CONTROL), key.modifiers.contains(KeyModifiers::ALT));
    let shift = key.modifiers.contains(KeyModifiers::SHIFT);
    let why = match key.code {
        KeyCode::Enter if key.modifiers.is_empty() => "sends the message",
        KeyCode::Char('c') if control && !alt => "stops what is under way, or quits",
        KeyCode::Char(_) if !control && !alt => "is typed: put ctrl- or alt- before it",
        // Terminals send Ctrl with a letter as one byte, which is that of Tab, Enter and Esc for three of them.
        KeyCode::Char('i' | 'm') if control => "is sent by terminals as Tab and Enter are",
        KeyCode::Char(c) if control && (shift || !(c.is_ascii_lowercase() || matches!(c, '4'..='7' | ' '))) => {
            "is not sent by terminals"
        }
        _ => return Ok(key),
    };
    Err(KeyError { name: name.to_owned(), why })
}

/// The key of a name.
pub(crate) fn key_named(name: &str) -> Result<KeyEvent, KeyError> {
    let (mut modifiers, mut rest) = (KeyModifiers::NONE, name);
    for (prefix, modifier) in
        [("ctrl-", KeyModifiers::CONTROL), ("alt-", KeyModifiers::ALT), ("shift-", KeyModifiers::SHIFT)]
    {
        if let Some(after) = rest.strip_prefix(prefix) {
            (modifiers, rest) = (modifiers | modifier, after);
        }
    }
    let number = rest.strip_prefix('f').and_then(|number| number.parse::<u8>().ok());
    let mut letters = rest.chars();
    let code = match (rest, letters.next(), letters.next()) {
        ("tab", ..) if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        ("enter", ..) => KeyCode::Enter,
        ("esc", ..) => KeyCode::Esc,
        ("tab", ..) => KeyCode::Tab,
        ("up", ..) => KeyCode::Up,
        ("down", ..) => KeyCode::Down,
        ("left", ..) => KeyCode::Left,
        ("right", ..) => KeyCode::Right,
        ("home", ..) => KeyCode::Home,
        ("end", ..) => KeyCode::End,
        ("pgup", ..) => KeyCode::PageUp,
        ("pgdn", ..) => KeyCode::PageDown,
        ("backspace", ..) => KeyCode::Backspace,
        ("delete", ..) => KeyCode::Delete,
        ("space", ..) => KeyCode::Char(' '),
        (_, Some(letter), None) if !letter.is_control() => KeyCode::Char(letter),
        _ => match number {
            Some(number @ 1..=12) => KeyCode::F(number),
            _ => return Err(KeyError { name: name.to_owned(), why: NO_KEY }),
        },
    };
    Ok(KeyEvent::new(code, modifiers))
}

/// Which keys stand for which others.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyMap {
    /// The usual key that a pressed one stands for; nothing where it stands for nothing any more.
    map: HashMap<(KeyCode, KeyModifiers), Option<KeyEvent>>,
    /// The name of the key that stops, where another was chosen.
    stop: Option<String>,
}

impl KeyMap {
    /// The key that stops what is under way, for people.
    pub(crate) fn stop(&self) -> &str {
        self.stop.as_deref().filter(|key| *key != "esc").unwrap_or("Esc")
    }

    /// The map for these choices; what is no action or no key is told and passed over.
    pub(crate) fn new(choices: &[(String, String)]) -> (Self, Vec<String>) {
        let (mut map, mut problems) = (HashMap::new(), Vec::new());
        let chosen = choices.iter().filter_map(|(action, key)| {
            let Some((_, usual)) = ACTIONS.iter().find(|(name, _)| name == action) else {
                problems.push(format!("there is no action `{action}` to choose a key for"));
                return None;
            };
            match (chosen_key(key), key_named(usual)) {
                (Ok(key), Ok(usual)) => Some((key, usual)),
                (Err(error), _) | (_, Err(error)) => {
                    problems.push(error.to_string());
                    None
                }
            }
        });
        let chosen: Vec<(KeyEvent, KeyEvent)> = chosen.filter(|(key, usual)| key != usual).collect();
        for (_, usual) in &chosen {
            map.insert((usual.code, usual.modifiers), None);
        }
        for (key, usual) in chosen {
            map.insert((key.code, key.modifiers), Some(usual));
        }
        let named = |(action, key): &&(String, String)| action == "stop" && chosen_key(key).is_ok();
        let stop = choices.iter().rfind(named).map(|(_, key)| key.clone());
        (Self { map, stop }, problems)
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
}
