//! The user's preferences for the interface.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::terminal::{Colours, Graphics};

/// The user's preferences for the interface. The default is used for anything not configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferences {
    /// The name of the theme.
    pub theme: String,
    /// The user's own themes.
    pub themes: Vec<UserTheme>,
    /// Whether the terminal can show characters beyond ASCII.
    pub unicode: bool,
    /// The colours that the terminal supports.
    pub colours: Colours,
    /// Whether to show words instead of symbols, and no animations.
    pub screen_reader: bool,
    /// The graphics protocol of the terminal. With `None`, images are described in words.
    pub images: Option<Graphics>,
    /// Whether messages are edited with vi key bindings.
    pub vi: bool,
    /// Whether the window title shows the current state.
    pub title: bool,
    /// Whether the taskbar shows progress.
    pub progress: bool,
    /// Custom key bindings as pairs of action and key. See [`check_key`] for the names of keys.
    pub keys: Vec<(String, String)>,
    /// A command whose first output line is shown below the input.
    pub status_line: Option<String>,
    /// How the user is notified when the agent waits or is done.
    pub notifications: Notifications,
}

/// How the user is notified when the agent waits or is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifications {
    /// The terminal bell.
    pub bell: bool,
    /// The terminal's own notifications (OSC 9).
    pub terminal: bool,
    /// A command that gets `{"event", "message", "thread", "directory"}` as JSON on stdin.
    pub command: Option<String>,
}

/// A theme defined by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserTheme {
    /// Its name.
    pub name: String,
    /// Pairs of a role, such as `accent`, and its colour: `#rrggbb`, a number up to 255 or a name such as `lightblue`.
    /// The role `base` names the theme that provides the other colours.
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

/// Reports a name that is not a key, or a key that cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` {why}")]
pub struct KeyError {
    name: String,
    why: &'static str,
}

/// The message for a name that is not a key.
const NO_KEY: &str = "is not a valid key: write it as in ctrl-o, alt-enter, f5, shift-tab or esc";

/// Checks the name of a key: `ctrl-`, `alt-` and `shift-` before a letter, or before `enter`, `esc`, `tab`, `up`,
/// `down`, `left`, `right`, `home`, `end`, `pgup`, `pgdn`, `backspace`, `delete`, `space`, `f1` to `f12`.
///
/// # Errors
/// Returns an error if the name is not a key, or the key cannot be bound: because it types text or sends the message,
/// is Ctrl+C, which always interrupts, or is not sent by terminals.
pub fn check_key(name: &str) -> Result<(), KeyError> {
    chosen_key(name).map(drop)
}

/// Parses the name of a key that can be bound to an action.
pub(crate) fn chosen_key(name: &str) -> Result<KeyEvent, KeyError> {
    let key = key_named(name)?;
    let (control, alt) = (key.modifiers.contains(KeyModifiers::CONTROL), key.modifiers.contains(KeyModifiers::ALT));
    let shift = key.modifiers.contains(KeyModifiers::SHIFT);
    let why = match key.code {
        KeyCode::Enter if key.modifiers.is_empty() => "sends the message",
        KeyCode::Char('c') if control && !alt => "stops what is in progress, or quits",
        KeyCode::Char(_) if !control && !alt => "types a character: put ctrl- or alt- before it",
        // Terminals send Ctrl with a letter as one byte, which for some letters is that of Tab, Enter or Esc.
        KeyCode::Char('i' | 'm') if control => "is indistinguishable from Tab or Enter in a terminal",
        KeyCode::Char(c) if control && (shift || !(c.is_ascii_lowercase() || matches!(c, '4'..='7' | ' '))) => {
            "is not sent by terminals"
        }
        _ => return Ok(key),
    };
    Err(KeyError { name: name.to_owned(), why })
}

/// Parses the name of a key.
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
