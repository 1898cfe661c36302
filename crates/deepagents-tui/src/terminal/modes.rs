//! Raw mode, which is left however the program ends.

use std::io::{self, Write};
use std::panic;
use std::sync::{Mutex, Once, PoisonError};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Disables synchronised output, bracketed paste and colours, and shows the cursor.
const RESTORE: &[u8] = b"\x1b[?2026l\x1b[?2004l\x1b[0m\x1b[?25h";
/// Enables bracketed paste.
const BEGIN: &[u8] = b"\x1b[?2004h";
/// Disables modes that another program may have left on: the alternate screen, mouse reports, application cursor keys
/// and application keypad.
const LEFT_ON: &[u8] = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1l\x1b>";

/// The message and location of the last panic.
static PANIC: Mutex<Option<String>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Takes the message of the last panic, if there was one.
pub(crate) fn last_panic() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns the columns and rows of the terminal.
pub(crate) fn size() -> (u16, u16) {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => (80, 24),
    }
}

/// Returns the width and height of a cell in pixels, or a common size if the terminal does not report it.
pub(crate) fn cell() -> (u16, u16) {
    let of = |pixels: u16, cells: u16| pixels.checked_div(cells).filter(|pixels| *pixels > 0);
    let known = crossterm::terminal::window_size().ok();
    known.and_then(|known| of(known.width, known.columns).zip(of(known.height, known.rows))).unwrap_or((10, 20))
}

/// The terminal in raw mode. Dropping it restores the terminal, including during a panic.
#[derive(Debug)]
pub(crate) struct Modes {
    raw: bool,
    /// The terminal attributes before raw mode, if known.
    given: Option<Termios>,
}

impl Modes {
    /// Enables raw mode. From then on, panics are recorded instead of printed: panics of tools are caught, and their
    /// messages would appear in the middle of the screen.
    pub(crate) fn enter() -> io::Result<Self> {
        HOOK.call_once(|| {
            panic::set_hook(Box::new(|info| {
                *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
            }));
        });
        let mut modes = Self { raw: false, given: None };
        modes.resume()?;
        Ok(modes)
    }

    /// Enables raw mode again, even if another program has disabled it.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        if self.raw {
            // crossterm does not know of changes made by others.
            disable_raw_mode()?;
        } else {
            self.given = tcgetattr(stdin()).ok();
        }
        enable_raw_mode()?;
        self.raw = true;
        write(BEGIN)
    }

    /// Takes over the terminal from another program, in whatever state that left it.
    pub(crate) fn take_back(&mut self) -> io::Result<()> {
        self.give();
        // Enable raw mode before any output: an Enter pressed in response would otherwise arrive as another key.
        self.resume()?;
        write(LEFT_ON)
    }

    /// Restores the terminal attributes from before raw mode.
    fn give(&self) {
        if let Some(given) = &self.given {
            // If the terminal is gone, there is nothing to restore.
            let _ = tcsetattr(stdin(), OptionalActions::Now, given);
        }
    }

    /// Returns the terminal to its previous modes.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.raw) {
            write(RESTORE)?;
            disable_raw_mode()?;
        }
        Ok(())
    }

    /// Disables raw mode without writing anything.
    pub(crate) fn abandon(&mut self) {
        if std::mem::take(&mut self.raw) {
            // If the terminal is gone, there is nothing to restore.
            let _ = disable_raw_mode();
        }
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        if self.raw {
            // If the terminal is gone, there is nothing to restore.
            let _ = write(RESTORE);
            let _ = disable_raw_mode();
        }
    }
}

/// Writes to the terminal at once.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
