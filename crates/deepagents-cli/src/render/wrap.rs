//! Lines that stay within a terminal, so that none of them can look like the beginning of another.

/// Columns that a line may not be narrower than, whatever the terminal says.
const NARROWEST: usize = 20;

/// How wide lines may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns(usize);

impl Columns {
    /// Those of a terminal; as many as a line takes where there is none.
    pub(crate) fn new(terminal: Option<usize>) -> Self {
        Self(terminal.map_or(usize::MAX, |columns| columns.max(NARROWEST)))
    }

    /// Whether a text fits into a line.
    pub(crate) fn fit(self, text: &str) -> bool {
        width(text) <= self.0
    }

    /// The text behind `first`, in as many lines as it takes; those after the first begin with `rest`.
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

    /// Parts with this `between` them where they fit into one line, and in lines of their own where they do not.
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

/// Columns that a text takes at most.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Columns that a character takes at most: what is not ASCII may take two.
fn columns_of(c: char) -> usize {
    if c.is_ascii() || matches!(c, '│' | '┊' | '─' | '→' | '…') { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_stay_whole_where_they_fit_into_a_line() {
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
        fn no_line_is_wider_than_the_terminal_and_nothing_is_left_out(text in ".*", columns in 20_usize..60) {
            let lines = Columns::new(Some(columns)).wrap("| ", "> ", &text);
            prop_assert!(lines.iter().all(|line| width(line) <= columns), "{:?}", lines);
            let whole: String = lines.iter().filter_map(|line| line.get(2..)).collect();
            prop_assert_eq!(whole, text);
        }
    }
}
