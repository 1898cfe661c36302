//! The one place that writes to stdout and stderr.

use std::io::{self, IsTerminal, Write};

use crate::render::style::{self, Style, printable};

/// Stdout for a person: pieces of text, whole lines, and on a terminal a status line below them.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Whether the terminal can move the cursor back.
    cursor: bool,
    /// Whether the next character begins a line.
    fresh: bool,
    /// The status shown in the last line until something else is written.
    status: String,
}

impl Screen {
    /// Returns the screen of this process.
    pub(crate) fn new() -> Self {
        Self { cursor: io::stdout().is_terminal() && !style::is_dumb(), fresh: true, status: String::new() }
    }

    /// Writes a piece of text and flushes it. Control characters are removed, whatever stdout is: the text of a model
    /// or a file must not control a terminal, and `tee` or `less` may sit in between.
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

    /// Writes a line, ending an open line of text first. The line may contain colours.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.break_line()?;
        writeln!(io::stdout().lock(), "{line}")
    }

    /// Ends an open line of text.
    pub(crate) fn break_line(&mut self) -> io::Result<()> {
        self.clear_status()?;
        if self.fresh {
            return Ok(());
        }
        self.fresh = true;
        writeln!(io::stdout().lock())
    }

    /// Returns the width of the terminal in characters.
    pub(crate) fn columns(&self) -> usize {
        columns(io::stdout())
    }

    /// Shows a status until something else is written. Does nothing if the cursor cannot be moved.
    pub(crate) fn status(&mut self, status: &str) -> io::Result<()> {
        if !self.cursor || self.status == status {
            return Ok(());
        }
        self.break_line()?;
        status.clone_into(&mut self.status);
        let mut out = io::stdout().lock();
        // With wrapping off, the status stays on one line, however narrow the terminal is.
        write!(out, "\x1b[?7l{status}\x1b[?7h")?;
        out.flush()
    }

    /// Removes the status.
    pub(crate) fn clear_status(&mut self) -> io::Result<()> {
        if self.status.is_empty() {
            return Ok(());
        }
        self.status.clear();
        let mut out = io::stdout().lock();
        write!(out, "\r\x1b[K")?;
        // The next output may go to stderr.
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

/// Writes a whole text and a newline to stdout. Control characters are removed, whatever stdout is; JSON contains none:
/// see [`json_text`](crate::render::json_text).
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", printable(text))?;
    out.flush()
}

/// Returns the width of the terminal that stderr is, or `None` if it is not a terminal.
pub(crate) fn stderr_columns() -> Option<usize> {
    io::stderr().is_terminal().then(|| columns(io::stderr()))
}

/// Returns the width of the terminal that stdout is, or `None` if it is not a terminal.
pub(crate) fn stdout_columns() -> Option<usize> {
    io::stdout().is_terminal().then(|| columns(io::stdout()))
}

fn columns(of: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(of).map_or(0, |size| size.ws_col);
    if size == 0 { 80 } else { size.into() }
}

/// Asks the user at the terminal: writes the problem with the previous answer, the question and its prompt to stderr.
/// Input typed earlier is discarded. The question is written in one piece, so input typed once any of it can be read is
/// an answer to it.
pub(crate) fn ask(problem: Option<&str>, question: &str, prompt: &str) {
    let style = Style::of_stderr();
    let mut text = problem.map_or_else(String::new, |problem| format!("{}\n", error_line(style, problem)));
    if !question.is_empty() {
        text.push_str(&printable(question));
        text.push('\n');
    }
    text.push_str(&style.bold(&printable(prompt)));
    discard_typed_ahead();
    // If stderr is closed, there is nobody to ask.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Discards what was typed before a question, so that it does not answer it. Does nothing if stdin is not a terminal: a
/// program sends its lines in order.
fn discard_typed_ahead() {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        // If the terminal cannot be flushed, there is nothing to discard.
        let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
    }
}

/// Writes a remark to stderr.
pub(crate) fn remark(text: &str) {
    let style = Style::of_stderr();
    to_stderr(&style.dim(&printable(text)));
}

/// Writes each of these remarks to stderr.
pub(crate) fn remarks(texts: impl IntoIterator<Item = impl AsRef<str>>) {
    texts.into_iter().for_each(|text| remark(text.as_ref()));
}

/// Writes text for the user at the terminal to stderr.
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
    // If stderr is closed, there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
