//! Formats file content for the model.

use std::fmt::Write;

use deepagents_fs::lines::LineWindow;

use super::ReadFormat;
use crate::tokens;

/// Number of characters after which a line continues under the next marker.
const LINE_PART_CHARS: usize = 5_000;

/// How to format a window of lines.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) format: ReadFormat,
    /// Maximum weight in quarters of a token, if there is a limit.
    pub(super) budget: Option<usize>,
    /// Number of characters of the first line before the window.
    pub(super) column: u64,
    /// Further notes.
    pub(super) notices: Vec<String>,
}

/// Formats a window of lines, with notes on what is not shown.
pub(super) fn window(window: &LineWindow, shown: Shown) -> String {
    let Shown { format, budget, column, notices: mut notes } = shown;
    let fitting = Fitting::new(window, format, budget.unwrap_or(usize::MAX));
    let last = window.offset + fitting.lines.len() as u64;
    let cut = fitting.cut_at.map(|chars| Cut { line: last, from: column, to: column + chars as u64 });
    let more = fitting.lines.len() < window.lines.len() || window.next.is_some();
    if window.lossy {
        notes.push("bytes that are not UTF-8 are shown as \u{fffd}".to_owned());
    }
    let of = window.total.map(|total| format!(" of {total}")).unwrap_or_default();
    match format {
        ReadFormat::Numbered => {
            if let Some(Cut { line, from, to }) = cut {
                let offset = line - 1;
                notes.push(format!(
                    "line {line} is too long: characters {} to {to} are shown; continue with offset {offset} and column {to}",
                    from + 1
                ));
            } else if fitting.lines.len() < window.lines.len() {
                notes.push("the result was cut at its size limit".to_owned());
            }
            if more {
                let next = if cut.is_some() { "the next line is at" } else { "continue with" };
                notes.push(format!("lines {}-{last}{of}; {next} offset {last}", window.offset + 1));
            }
            let mut out = fitting.lines.concat();
            if notes.is_empty() {
                out.pop();
            } else {
                let _ = write!(out, "[{}]", notes.join("; "));
            }
            out
        }
        ReadFormat::Plain => {
            let mut head: String = notes.iter().map(|note| format!("[{note}]\n")).collect();
            let _ = write!(head, "@@ lines {}-{last}{of}", window.offset + 1);
            if more {
                let _ = write!(head, " | next offset {last}");
            }
            if let Some(Cut { to, .. }) = cut {
                let _ = write!(head, " | truncated mid-line | next column {to}");
            } else if fitting.lines.len() < window.lines.len() {
                head += " | truncated due to size";
            }
            let mut out = format!("{head} @@\n{}", fitting.lines.concat());
            out.pop();
            out
        }
    }
}

/// Where an overlong line was cut, in characters of the line.
#[derive(Clone, Copy)]
struct Cut {
    line: u64,
    from: u64,
    to: u64,
}

/// The formatted lines that fit.
struct Fitting {
    lines: Vec<String>,
    /// Number of characters shown of the last line, if it is incomplete.
    cut_at: Option<usize>,
}

impl Fitting {
    fn new(window: &LineWindow, format: ReadFormat, budget: usize) -> Self {
        let mut lines = Vec::with_capacity(window.lines.len());
        let mut left = budget;
        for (number, text) in (window.offset + 1..).zip(&window.lines) {
            let line = render(number, text, format);
            let weight = tokens::quarters(&line);
            if weight <= left {
                left -= weight;
                lines.push(line);
                continue;
            }
            if lines.is_empty() {
                // Show the beginning of a line that alone exceeds the limit.
                let kept = tokens::head(text, left.saturating_sub(left / 100 + 16));
                let chars = kept.chars().count();
                return Self { lines: vec![render(number, kept, format)], cut_at: Some(chars) };
            }
            return Self { lines, cut_at: None };
        }
        let cut_at = window.cut.then(|| window.lines.last().map_or(0, |line| line.chars().count()));
        Self { lines, cut_at }
    }
}

fn render(number: u64, text: &str, format: ReadFormat) -> String {
    match format {
        ReadFormat::Plain => format!("{text}\n"),
        ReadFormat::Numbered => {
            let mut out = String::with_capacity(text.len() + 8);
            let mut rest = text;
            for part in 0u64.. {
                let end = rest.char_indices().nth(LINE_PART_CHARS).map_or(rest.len(), |(at, _)| at);
                let (head, tail) = rest.split_at(end);
                let marker = if part == 0 { number.to_string() } else { format!("{number}.{part}") };
                let _ = writeln!(out, "{marker:>6}\t{head}");
                rest = tail;
                if rest.is_empty() {
                    break;
                }
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use deepagents_fs::Version;
    use deepagents_fs::lines::{LineRange, window as lines};

    use super::*;

    fn show(content: &str, offset: u64, limit: u64, budget: usize) -> String {
        let range = LineRange::new(offset, limit);
        let shown = Shown { format: ReadFormat::Numbered, budget: Some(budget), column: 0, notices: Vec::new() };
        window(&lines(content.as_bytes(), range, Version::new("1")), shown)
    }

    #[test]
    fn lines_are_numbered() {
        assert_eq!(show("one\ntwo\n", 0, 10, 1000), "     1\tone\n     2\ttwo");
    }

    #[test]
    fn a_partial_file_says_where_to_continue() {
        assert_eq!(show("a\nb\nc\n", 1, 1, 1000), "     2\tb\n[lines 2-2 of 3; continue with offset 2]");
    }

    #[test]
    fn a_long_line_continues_in_numbered_parts() {
        let text = show(&"x".repeat(LINE_PART_CHARS + 3), 0, 10, 100_000);
        assert!(text.ends_with("\n   1.1\txxx"), "{text}");
    }

    #[test]
    fn a_result_over_budget_ends_at_a_full_line_and_says_so() {
        let text = show("aaaa\nbbbb\ncccc\n", 0, 10, 25);
        assert_eq!(
            text,
            "     1\taaaa\n     2\tbbbb\n[the result was cut at its size limit; lines 1-2 of 3; continue with offset 2]"
        );
    }

    #[test]
    fn a_single_line_over_budget_is_cut_and_says_so() {
        let text = show(&"y".repeat(500), 0, 10, 100);
        let note = "[line 1 is too long: characters 1 to 83 are shown; continue with offset 0 and column 83]";
        assert!(text.ends_with(note), "{text}");
    }
}
