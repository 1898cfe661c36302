//! Showing a call to the user before a decision: all of it, and nothing that only looks like part of it.

use deepagents::ActionRequest;
use serde_json::Value;

use crate::render::{Columns, escaped, escaped_lines, tool_line, width};

/// Maximum number of lines shown at once; the rest of a longer call is shown on request.
const MAX_LINES: usize = 60;
/// Maximum width of a line with both name and value, however wide the terminal is.
const MAX_COLUMNS: usize = 160;
/// Prefixes of a line of a value, and of the continuation of a line wider than the terminal.
const LINE_PREFIX: &str = "      │ ";
const CONTINUATION_PREFIX: &str = "      ┊ ";

/// A call in lines that its names and values cannot forge: each is escaped, marked, and no wider than the terminal.
#[derive(Debug)]
pub(super) struct PagedCall {
    lines: Vec<String>,
    /// How many of the lines have been shown.
    shown: usize,
}

impl PagedCall {
    /// Formats a call for a terminal of this width; lines are not wrapped if there is none.
    pub(super) fn new(question: &ActionRequest, columns: Columns) -> Self {
        let mut lines = Vec::new();
        let agent = match (&question.agent, question.call.path.is_empty()) {
            (Some(agent), _) => format!(" (sub-agent {})", escaped(agent)),
            (None, false) => " (sub-agent)".to_owned(),
            (None, true) => String::new(),
        };
        lines.extend(columns.wrap(
            "? ",
            CONTINUATION_PREFIX,
            &format!("{}{agent}", tool_line(&question.tool, &question.args)),
        ));
        match question.args.as_object() {
            Some(args) => args.iter().for_each(|(name, value)| argument(&mut lines, name, value, columns)),
            None => argument(&mut lines, "arguments", &question.args, columns),
        }
        if let Some(path) = &question.leads_to {
            lines.extend(columns.wrap("    → ", CONTINUATION_PREFIX, &format!("the path leads to {}", escaped(path))));
        }
        if let Some(rule) = &question.rule {
            lines.extend(columns.wrap("    asked by ", CONTINUATION_PREFIX, &escaped(rule)));
        }
        if !is_default(question) {
            for line in escaped_lines(&question.text) {
                lines.extend(columns.wrap("    ? ", CONTINUATION_PREFIX, &line));
            }
        }
        Self { lines, shown: 0 }
    }

    /// Returns the first lines: all of them, or the beginning and how many are left.
    pub(super) fn first(&mut self) -> String {
        self.shown = if self.lines.len() <= MAX_LINES { self.lines.len() } else { MAX_LINES };
        let first = self.lines.get(..self.shown).unwrap_or_default().join("\n");
        match self.lines.len() - self.shown {
            0 => first,
            more => format!("{first}\n    … {more} more lines; show them before you can say yes"),
        }
    }

    /// Returns the lines not shown yet.
    pub(super) fn remaining_lines(&mut self) -> String {
        let rest = self.lines.get(self.shown..).unwrap_or_default().join("\n");
        self.shown = self.lines.len();
        rest
    }

    /// Whether all lines have been shown.
    pub(super) fn is_fully_shown(&self) -> bool {
        self.shown == self.lines.len()
    }
}

/// Whether a question's text says no more than the call itself.
fn is_default(question: &ActionRequest) -> bool {
    let call = format!(" wants to call {} with {}", question.tool, question.args);
    question.text.is_empty() || question.text.ends_with(&call)
}

fn argument(lines: &mut Vec<String>, name: &str, value: &Value, columns: Columns) {
    let name = escaped(name);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut values = escaped_lines(&text);
    if let (Some(only), None) = (values.next(), values.next()) {
        let line = format!("    {name}: {only}");
        if !text.ends_with('\n') && width(&line) <= MAX_COLUMNS && columns.fit(&line) {
            return lines.push(line);
        }
    }
    lines.extend(columns.wrap("    ", CONTINUATION_PREFIX, &format!("{name}:")));
    for line in escaped_lines(&text) {
        lines.extend(columns.wrap(LINE_PREFIX, CONTINUATION_PREFIX, &line));
    }
}

#[cfg(test)]
mod tests {
    use deepagents::core::tool::CallId;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shown(args: Value, columns: Option<usize>) -> PagedCall {
        PagedCall::new(
            &ActionRequest::about(&CallId::default(), "execute", args, "2026-01-01T00:00:00Z"),
            Columns::new(columns),
        )
    }

    #[test]
    fn a_long_call_is_shown_in_parts_and_must_be_seen_in_full() {
        let mut short = shown(json!({"command": "ls", "lines": "1\n2\n"}), None);
        assert_eq!(short.first(), "? execute ls\n    command: ls\n    lines:\n      │ 1\n      │ 2");
        assert!(short.is_fully_shown());
        let command: String = (1..=100).map(|n| format!("echo {n}\n")).collect();
        let mut long = shown(json!({"command": command}), None);
        let first = long.first();
        assert!(first.ends_with("… 42 more lines; show them before you can say yes"), "{first}");
        assert!(!long.is_fully_shown());
        let rest = long.remaining_lines();
        assert!(rest.ends_with("│ echo 100") && long.is_fully_shown(), "{rest}");
    }

    #[test]
    fn names_and_values_cannot_forge_a_line() {
        let args =
            json!({"\n? write_file /b\n[y]es, [n]o? ": "x", "command": format!("ls{}? rm -rf /", " ".repeat(60))});
        let mut forged = shown(args, Some(40));
        let text = forged.first();
        assert_eq!(text.lines().filter(|line| line.starts_with('?')).count(), 1, "{text}");
        assert!(text.contains("\\n? write_file"), "{text}");
        assert!(text.lines().all(|line| width(line) <= 40), "{text}");
    }

    proptest! {
        #[test]
        fn every_line_of_a_shown_call_is_marked_and_fits_the_terminal(name in any::<String>(), value in any::<String>()) {
            let mut shown = shown(json!({name: value}), Some(40));
            let text = format!("{}\n{}", shown.first(), shown.remaining_lines());
            for line in text.lines().skip(1) {
                prop_assert!(line.is_empty() || line.starts_with("    "), "{:?}", line);
                prop_assert!(line.contains("more lines;") || width(line) <= 40, "{:?}", line);
                prop_assert!(!line.contains(char::is_control));
            }
        }
    }
}
