//! How files are shown to a model.

use std::fmt::Write;

use deepagents_fs::lines::LineWindow;

use super::ReadFormat;

/// Characters of a line before it goes on under the next marker.
const LINE_PART: usize = 5_000;

/// A window of lines as text, at most `budget` characters of it, with notes on what is not shown.
pub(super) fn window(window: &LineWindow, format: ReadFormat, budget: Option<usize>) -> String {
    let shown = Shown::of(window, format, budget.unwrap_or(usize::MAX));
    let mut notes = Vec::new();
    if let Some(chars) = shown.cut_at {
        let number = window.offset + shown.lines.len() as u64;
        notes.push(format!("line {number} is too long: only its first {chars} characters are shown"));
    }
    let next = window.offset + shown.lines.len() as u64;
    let more = shown.lines.len() < window.lines.len() || window.next.is_some();
    if shown.lines.len() < window.lines.len() {
        notes.push("the result was cut at its size limit".to_owned());
    }
    if more {
        let of = window.total.map(|total| format!(" of {total}")).unwrap_or_default();
        notes.push(format!("lines {}-{next}{of}; continue with offset {next}", window.offset + 1));
    }
    if window.lossy {
        notes.push("bytes that are not UTF-8 are shown as \u{fffd}".to_owned());
    }
    match format {
        ReadFormat::Numbered => {
            let mut out = shown.lines.concat();
            if notes.is_empty() {
                out.pop();
            } else {
                let _ = write!(out, "[{}]", notes.join("; "));
            }
            out
        }
        ReadFormat::Plain => {
            let of = window.total.map(|total| format!(" of {total}")).unwrap_or_default();
            let mut head = format!("@@ lines {}-{next}{of}", window.offset + 1);
            if more {
                let _ = write!(head, " | next offset {next}");
            }
            if shown.cut_at.is_some() {
                head += " | truncated mid-line";
            } else if shown.lines.len() < window.lines.len() {
                head += " | truncated due to size";
            }
            let mut out = format!("{head} @@\n{}", shown.lines.concat());
            out.pop();
            out
        }
    }
}

/// The lines that fit, each with its end.
struct Shown {
    lines: Vec<String>,
    /// Characters shown of the last line, if the rest of it is missing.
    cut_at: Option<usize>,
}

impl Shown {
    fn of(window: &LineWindow, format: ReadFormat, budget: usize) -> Self {
        let mut lines = Vec::with_capacity(window.lines.len());
        let mut left = budget;
        for (number, text) in (window.offset + 1..).zip(&window.lines) {
            let line = render(number, text, format);
            let chars = line.chars().count();
            if chars <= left {
                left -= chars;
                lines.push(line);
                continue;
            }
            if lines.is_empty() {
                // Something of a line that alone is too long is better than nothing.
                let kept: String = text.chars().take(left.saturating_sub(left / 100 + 16)).collect();
                let chars = kept.chars().count();
                return Self { lines: vec![render(number, &kept, format)], cut_at: Some(chars) };
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
                let end = rest.char_indices().nth(LINE_PART).map_or(rest.len(), |(at, _)| at);
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
        window(&lines(content.as_bytes(), range, Version::new("1")), ReadFormat::Numbered, Some(budget))
    }

    #[test]
    fn lines_carry_their_numbers() {
        assert_eq!(show("one\ntwo\n", 0, 10, 1000), "     1\tone\n     2\ttwo");
    }

    #[test]
    fn a_part_of_a_file_says_where_to_go_on() {
        assert_eq!(show("a\nb\nc\n", 1, 1, 1000), "     2\tb\n[lines 2-2 of 3; continue with offset 2]");
    }

    #[test]
    fn a_long_line_goes_on_under_numbered_parts() {
        let text = show(&"x".repeat(LINE_PART + 3), 0, 10, 100_000);
        assert!(text.ends_with("\n   1.1\txxx"), "{text}");
    }

    #[test]
    fn a_result_over_its_budget_ends_at_a_whole_line_and_says_so() {
        let text = show("aaaa\nbbbb\ncccc\n", 0, 10, 25);
        assert_eq!(
            text,
            "     1\taaaa\n     2\tbbbb\n[the result was cut at its size limit; lines 1-2 of 3; continue with offset 2]"
        );
    }

    #[test]
    fn a_single_line_over_the_budget_is_cut_and_says_so() {
        let text = show(&"y".repeat(500), 0, 10, 100);
        assert!(text.contains("line 1 is too long: only its first 83 characters are shown"), "{text}");
    }
}
