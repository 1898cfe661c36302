//! Durations formatted for people.

use std::time::Duration;

/// Formats a duration as `12 s`, `3m 05s` or `1h 02m`.
pub(crate) fn show(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}
