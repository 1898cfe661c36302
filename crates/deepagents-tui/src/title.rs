//! The window's title, and the progress that a taskbar shows.

use crate::app::App;
use crate::preferences::Preferences;

/// Has the terminal remember its title.
pub(crate) const PUSH: &[u8] = b"\x1b[22;2t";
/// Has it show that one again.
const POP: &[u8] = b"\x1b[23;2t";

/// What goes on, as far as a title says it.
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

/// The title: what goes on, and where. Nothing that a model has said is in it.
pub(crate) fn text(app: &App, state: State) -> String {
    let place = app.session.directory.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/");
    let place: String = place.chars().filter(|c| !c.is_control()).take(60).collect();
    match state {
        State::Idle => format!("deepagents: {place}"),
        State::Busy => format!("* deepagents: {place}"),
        State::Waits => format!("? deepagents: {place}"),
    }
}

/// What makes the terminal show it.
pub(crate) fn sequence(title: &str, state: State, preferences: &Preferences) -> Vec<u8> {
    let mut out = Vec::new();
    if preferences.title {
        out.extend_from_slice(format!("\x1b]2;{title}\x07").as_bytes());
    }
    if preferences.progress {
        // 3 is progress of an unknown end, 4 one that pauses.
        let progress = match state {
            State::Idle => "0",
            State::Busy => "3",
            State::Waits => "4;50",
        };
        out.extend_from_slice(format!("\x1b]9;4;{progress}\x07").as_bytes());
    }
    out
}

/// What puts the terminal back.
pub(crate) fn pop(progress: bool) -> Vec<u8> {
    let mut out = POP.to_vec();
    if progress {
        out.extend_from_slice(b"\x1b]9;4;0\x07");
    }
    out
}
