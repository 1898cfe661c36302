//! Raw mode and its end, whatever ends it.

use std::io::{self, Write};
use std::panic;
use std::sync::{Mutex, Once, PoisonError};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Everything that may have been switched on, off: synchronised output, paste marks, colours; the cursor on.
const RESTORE: &[u8] = b"\x1b[?2026l\x1b[?2004l\x1b[0m\x1b[?25h";
/// Marks around pasted text.
const BEGIN: &[u8] = b"\x1b[?2004h";
/// What a program may have left on that was at the terminal meanwhile, off: the other screen, reports of the mouse, other
/// codes of the arrow keys and the number pad.
const LEFT_ON: &[u8] = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1l\x1b>";
/// The other screen, and back.
const ALTERNATE: (&[u8], &[u8]) = (b"\x1b[?1049h", b"\x1b[?1049l");

/// What the last panic said, and where.
static PANIC: Mutex<Option<String>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// What the last panic said, if there was one.
pub(crate) fn last_panic() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Columns and rows of the terminal.
pub(crate) fn size() -> (u16, u16) {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => (80, 24),
    }
}

/// Pixels of a cell, across and down; a usual size where the terminal does not say.
pub(crate) fn cell() -> (u16, u16) {
    let of = |pixels: u16, cells: u16| pixels.checked_div(cells).filter(|pixels| *pixels > 0);
    let known = crossterm::terminal::window_size().ok();
    known.and_then(|known| of(known.width, known.columns).zip(of(known.height, known.rows))).unwrap_or((10, 20))
}

/// The terminal in raw mode. It is whole again when this is dropped, a panic included.
#[derive(Debug)]
pub(crate) struct Modes {
    raw: bool,
    /// How the terminal was before raw mode, where that is known.
    given: Option<Termios>,
}

impl Modes {
    /// Switches raw mode on. From then on panics are noted instead of printed: those of tools are caught, and what they
    /// say would stand in the middle of the screen.
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

    /// Switches raw mode on again, also where somebody else switched it off.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        if self.raw {
            // What a signal from elsewhere has changed is not known to the switch.
            disable_raw_mode()?;
        } else {
            self.given = tcgetattr(stdin()).ok();
        }
        enable_raw_mode()?;
        self.raw = true;
        write(BEGIN)
    }

    /// Takes the terminal from a program that was at it, however it has left it.
    pub(crate) fn take_back(&mut self) -> io::Result<()> {
        self.give();
        // Raw before a word is said: Enter that is pressed upon it would come as another key.
        self.resume()?;
        write(LEFT_ON)
    }

    /// Makes the terminal what it was before.
    fn give(&self) {
        if let Some(given) = &self.given {
            // A terminal that is gone need not be whole.
            let _ = tcsetattr(stdin(), OptionalActions::Now, given);
        }
    }

    /// Gives the terminal back.
    pub(crate) fn suspend(&mut self, alternate: bool) -> io::Result<()> {
        if std::mem::take(&mut self.raw) {
            if alternate {
                write(ALTERNATE.1)?;
            }
            write(RESTORE)?;
            disable_raw_mode()?;
        }
        Ok(())
    }
}

impl Modes {
    /// Switches raw mode off without writing anything.
    pub(crate) fn abandon(&mut self) {
        if std::mem::take(&mut self.raw) {
            // A terminal that is gone need not be whole.
            let _ = disable_raw_mode();
        }
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        if self.raw {
            // A terminal that is gone need not be whole.
            let _ = write(RESTORE);
            let _ = disable_raw_mode();
        }
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
