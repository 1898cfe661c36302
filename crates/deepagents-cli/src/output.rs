//! The one place that writes to stdout and stderr.

use std::io::{self, IsTerminal, Write};

use crate::render::style::{self, Style, printable};

/// Stdout as a person reads it: text in pieces, whole lines, and on a terminal one line of status below them.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Whether the cursor can be moved back.
    cursor: bool,
    /// Whether the next character begins a line.
    fresh: bool,
    /// What stands in the last line until something else is written.
    status: String,
}

impl Screen {
    /// The screen of this process.
    pub(crate) fn new() -> Self {
        Self { cursor: io::stdout().is_terminal() && !style::is_dumb(), fresh: true, status: String::new() }
    }

    /// Writes a piece of text at once. Control characters are left out, whatever stdout is: what a model or a file says
    /// must not command a terminal, and `tee` or `less` may stand before one.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_status()?;
        self.fresh = text.ends_with('\n');
        let mut out = io::stdout().lock();
        out.write_all(printable(text).as_bytes())?;
        out.flush()
    }

    /// Writes a line, beginning a new one where text has been left open. The line may hold colours.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.break_line()?;
        writeln!(io::stdout().lock(), "{line}")
    }

    /// Ends a line of text that was left open.
    pub(crate) fn break_line(&mut self) -> io::Result<()> {
        self.clear_status()?;
        if self.fresh {
            return Ok(());
        }
        self.fresh = true;
        writeln!(io::stdout().lock())
    }

    /// How many characters a line of the terminal holds.
    pub(crate) fn columns(&self) -> usize {
        columns(io::stdout())
    }

    /// Shows what goes on, until something else is written. Nothing where the cursor cannot be moved.
    pub(crate) fn status(&mut self, status: &str) -> io::Result<()> {
        if !self.cursor || self.status == status {
            return Ok(());
        }
        self.break_line()?;
        status.clone_into(&mut self.status);
        let mut out = io::stdout().lock();
        // Without wrapping the status stays one line, however narrow the terminal is.
        write!(out, "\x1b[?7l{status}\x1b[?7h")?;
        out.flush()
    }

    /// Takes the status away.
    pub(crate) fn clear_status(&mut self) -> io::Result<()> {
        if self.status.is_empty() {
            return Ok(());
        }
        self.status.clear();
        let mut out = io::stdout().lock();
        write!(out, "\r\x1b[K")?;
        // What comes next may go to stderr.
        out.flush()
    }

    /// Writes a remark to stderr, on a line of its own.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.break_line()?;
        io::stdout().flush()?;
        remark(text);
        Ok(())
    }
}

/// Writes a whole text and its end of line to stdout, without control characters, whatever stdout is. JSON has none: see
/// [`json_text`](crate::render::json_text).
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", printable(text))?;
    out.flush()
}

/// How many characters a line of the terminal holds that stderr is; none where it is something else.
pub(crate) fn stderr_columns() -> Option<usize> {
    io::stderr().is_terminal().then(|| columns(io::stderr()))
}

/// How many characters a line of the terminal holds that stdout is; none where it is something else.
pub(crate) fn stdout_columns() -> Option<usize> {
    io::stdout().is_terminal().then(|| columns(io::stdout()))
}

fn columns(of: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(of).map_or(0, |size| size.ws_col);
    if size == 0 { 80 } else { size.into() }
}

/// Asks whoever sits at the terminal: writes what is wrong with the answer before, the question and its prompt to stderr. What
/// was typed before does not answer it; whatever is typed once a part of it can be read does, as it is written in one piece.
pub(crate) fn ask(problem: Option<&str>, question: &str, prompt: &str) {
    let style = Style::of_stderr();
    let mut text = problem.map_or_else(String::new, |problem| format!("{}\n", error_line(style, problem)));
    if !question.is_empty() {
        text.push_str(&printable(question));
        text.push('\n');
    }
    text.push_str(&style.bold(&printable(prompt)));
    discard_typed_ahead();
    // Nobody is left to be asked when stderr is closed.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Throws away what was typed before a question, so that it answers nothing. Where stdin is no terminal, there is nothing to
/// throw away: a program says its lines in order.
fn discard_typed_ahead() {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        // A terminal that cannot be flushed has nothing to flush.
        let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
    }
}

/// Writes a remark to stderr.
pub(crate) fn remark(text: &str) {
    let style = Style::of_stderr();
    to_stderr(&style.dim(&printable(text)));
}

/// Writes text for whoever sits at the terminal to stderr.
pub(crate) fn say(text: &str) {
    to_stderr(&printable(text));
}

/// Writes an error to stderr.
pub(crate) fn print_error(text: &str) {
    to_stderr(&error_line(Style::of_stderr(), text));
}

fn error_line(style: Style, text: &str) -> String {
    format!("{} {}", style.red("deepagents:"), printable(text))
}

fn to_stderr(line: &str) {
    // Nobody is left to be told that stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
