//! How a person wants the screens to be.

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
pub(crate) fn chosen_key(name: &str) -> Result<KeyEvent, KeyError> {
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
