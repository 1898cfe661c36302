//! Colours, symbols, and text that is safe to print.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal};

pub(crate) use deepagents_tui::text::{count, grouped};

/// Whether to use colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// Returns the style for stdout.
    pub(crate) fn of_stdout() -> Self {
        Self { colour: io::stdout().is_terminal() && wanted() }
    }

    /// Returns the style for stderr.
    pub(crate) fn of_stderr() -> Self {
        Self { colour: io::stderr().is_terminal() && wanted() }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }
}

fn wanted() -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && !is_dumb()
}

/// Whether the terminal is declared to support plain text only.
pub(crate) fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Removes characters that control a terminal or change how surrounding text appears: control characters other than
/// newlines and tabs, bidirectional overrides, and tags.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let bad = |c: char| is_command(c) && c != '\n' && c != '\t';
    if text.contains(bad) { Cow::Owned(text.replace(bad, "")) } else { Cow::Borrowed(text) }
}

fn is_command(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the first non-blank line, cut to `most` characters, without control characters.
pub(crate) fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().filter(|c| !is_command(*c)).collect();
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\tc\r\nd\u{9b}1m"), "a[2Jb\tc\nd1m");
        assert_eq!(printable("a\u{202e}b\u{2066}c\u{e0041}d"), "abcd");
        assert_eq!(first_line("\n  one\x07 \ntwo\u{202e}", 10), "one");
        assert_eq!(first_line("ééééé", 3), "ééé…");
    }
}
