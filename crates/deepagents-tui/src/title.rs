//! The window title, and the progress shown in the taskbar.

use crate::app::App;
use crate::preferences::Preferences;

/// Makes the terminal save its title.
pub(crate) const PUSH: &[u8] = b"\x1b[22;2t";
/// Makes the terminal restore the saved title.
const POP: &[u8] = b"\x1b[23;2t";

/// The state shown in the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Busy,
    Waits,
}

impl State {
    pub(crate) fn of(app: &App) -> Self {
        if !app.questions.is_empty() {
            Self::Waits
        } else if app.is_busy() {
            Self::Busy
        } else {
            Self::Idle
        }
    }
}

/// Returns the title: the state and the directory. It contains no text from the model.
pub(crate) fn text(app: &App, state: State) -> String {
    let place = app.session.directory.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/");
    let place: String = place.chars().filter(|c| !c.is_control()).take(60).collect();
    let mark = match state {
        State::Idle => "",
        State::Busy => "* ",
        State::Waits => "? ",
    };
    format!("{mark}deepagents: {place}")
}

/// Returns the control sequence that sets the title and the progress.
pub(crate) fn sequence(title: &str, state: State, preferences: &Preferences) -> Vec<u8> {
    let mut out = Vec::new();
    if preferences.title {
        out.extend_from_slice(format!("\x1b]2;{title}\x07").as_bytes());
    }
    if preferences.progress {
        // 3 means progress without a known end, 4 paused progress.
        let progress = match state {
            State::Idle => "0",
            State::Busy => "3",
            State::Waits => "4;50",
        };
        out.extend_from_slice(format!("\x1b]9;4;{progress}\x07").as_bytes());
    }
    out
}

/// Returns the control sequence that restores the title and clears the progress.
pub(crate) fn pop(progress: bool) -> Vec<u8> {
    let mut out = POP.to_vec();
    if progress {
        out.extend_from_slice(b"\x1b]9;4;0\x07");
    }
    out
}
