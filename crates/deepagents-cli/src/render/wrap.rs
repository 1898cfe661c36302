//! Wrapping lines to the terminal, so that a continuation cannot look like a new line.

/// Minimum width in columns, whatever the terminal says.
const MIN_COLUMNS: usize = 20;

/// The width of lines in columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns(usize);

impl Columns {
    /// Returns the width of a terminal; unlimited without one.
    pub(crate) fn new(terminal: Option<usize>) -> Self {
        Self(terminal.map_or(usize::MAX, |columns| columns.max(MIN_COLUMNS)))
    }

    /// Whether a text fits on one line.
    pub(crate) fn fit(self, text: &str) -> bool {
        width(text) <= self.0
    }

    /// Wraps a text into lines: the first begins with `first`, the others with `rest`.
    pub(crate) fn wrap(self, first: &str, rest: &str, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = first.to_owned();
        let mut used = width(first);
        for c in text.chars() {
            if used + columns_of(c) > self.0 {
                lines.push(std::mem::replace(&mut line, rest.to_owned()));
                used = width(rest);
            }
            line.push(c);
            used += columns_of(c);
        }
        lines.push(line);
        lines
    }

    /// Joins parts with `between` while they fit on a line; a part that does not fit begins a new line.
    pub(crate) fn join(self, first: &str, rest: &str, between: &str, parts: &[String]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for part in parts {
            match lines.last_mut() {
                Some(line) if self.fit(&format!("{line}{between}{part}")) => {
                    line.push_str(between);
                    line.push_str(part);
                }
                Some(_) => lines.extend(self.wrap(rest, rest, part)),
                None => lines.extend(self.wrap(first, rest, part)),
            }
        }
        lines
    }
}

/// Returns the maximum number of columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns the maximum number of columns that a character takes: outside ASCII, it may be two.
fn columns_of(c: char) -> usize {
    if c.is_ascii() || matches!(c, '│' | '┊' | '─' | '→' | '…') { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_kept_whole_when_they_fit_on_a_line() {
        let parts = ["one".to_owned(), "two".to_owned(), "a".repeat(22)];
        let joined = |columns| Columns::new(columns).join("- ", "  ┊ ", "  ", &parts);
        assert_eq!(joined(None), [format!("- one  two  {}", "a".repeat(22))]);
        assert_eq!(
            joined(Some(20)),
            ["- one  two".to_owned(), format!("  ┊ {}", "a".repeat(16)), "  ┊ aaaaaa".to_owned()]
        );
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit_the_terminal_and_lose_nothing(text in ".*", columns in 20_usize..60) {
            let lines = Columns::new(Some(columns)).wrap("| ", "> ", &text);
            prop_assert!(lines.iter().all(|line| width(line) <= columns), "{:?}", lines);
            let whole: String = lines.iter().filter_map(|line| line.get(2..)).collect();
            prop_assert_eq!(whole, text);
        }
    }
}
