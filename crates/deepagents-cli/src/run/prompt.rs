//! Asking a person at the terminal.

use std::io;

use deepagents::core::env::Timestamp;
use deepagents::core::interrupt::EditedAction;
use deepagents::{ActionRequest, Decision};
use serde_json::Value;

use super::stdin::Lines;
use crate::output;
use crate::render::style::first_line;
use crate::render::tool_line;

/// Lines of an argument that are shown.
const LINES: usize = 12;
/// Characters of a line that are shown.
const WIDTH: usize = 160;

const KEYS: &str = "[y]es, [n]o REASON, [e]dit {ARGUMENTS}, [r]espond TEXT? ";

/// A person who is asked on stderr and answers with lines.
#[derive(Debug)]
pub(super) struct Person {
    lines: Lines,
}

/// What a line says.
#[derive(Debug, PartialEq)]
enum Said {
    Decision(Decision),
    /// More is needed: this is asked for.
    Ask(&'static str),
    Unclear(String),
}

impl Person {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines }
    }

    /// Asks one question after the other; stops where there are no more answers.
    pub(super) async fn decide(&mut self, questions: &[ActionRequest]) -> io::Result<Vec<(String, Decision)>> {
        let mut answers = Vec::new();
        for question in questions {
            output::say(&shown(question));
            match self.ask(question).await? {
                Some(decision) => answers.push((question.id.clone(), decision)),
                None => break,
            }
        }
        Ok(answers)
    }

    async fn ask(&mut self, question: &ActionRequest) -> io::Result<Option<Decision>> {
        let mut begun = String::new();
        let mut prompt = KEYS;
        loop {
            output::prompt(prompt);
            let Some(line) = self.lines.next().await? else {
                output::say("");
                return Ok(None);
            };
            match understand(&format!("{begun}{line}"), question) {
                Said::Decision(decision) => match question.check(&decision, Timestamp::now()) {
                    Ok(()) => return Ok(Some(decision)),
                    Err(error) => output::print_error(&error.to_string()),
                },
                Said::Ask(more) if begun.is_empty() => {
                    begun = format!("{} ", line.trim());
                    prompt = more;
                    continue;
                }
                Said::Ask(_) => {}
                Said::Unclear(problem) => output::print_error(&problem),
            }
            begun.clear();
            prompt = KEYS;
        }
    }
}

/// What the line of a person says about a call.
fn understand(line: &str, question: &ActionRequest) -> Said {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word.to_lowercase().as_str() {
        "y" | "yes" if rest.is_empty() => Said::Decision(Decision::Approve),
        "n" | "no" => Said::Decision(Decision::Reject { message: (!rest.is_empty()).then(|| rest.to_owned()) }),
        "e" | "edit" if rest.is_empty() => Said::Ask("arguments, as JSON: "),
        "e" | "edit" => match serde_json::from_str::<Value>(rest) {
            Ok(args) => {
                Said::Decision(Decision::Edit { edited_action: EditedAction { name: question.tool.clone(), args } })
            }
            Err(error) => Said::Unclear(format!("that is no JSON: {error}")),
        },
        "r" | "respond" if rest.is_empty() => Said::Ask("what the agent is told in place of the result: "),
        "r" | "respond" => Said::Decision(Decision::Respond { message: rest.to_owned() }),
        _ => Said::Unclear("answer with y, n, e or r".to_owned()),
    }
}

/// The call as a person judges it: every argument, long ones cut.
fn shown(question: &ActionRequest) -> String {
    let agent = if question.call.path.is_empty() { "" } else { " (sub-agent)" };
    let mut out = format!("? {}{agent}", tool_line(&question.tool, &question.args));
    for (name, value) in question.args.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if text.lines().count() < 2 && text.chars().count() <= WIDTH {
            out += &format!("\n    {name}: {text}");
            continue;
        }
        out += &format!("\n    {name}:");
        for line in text.lines().take(LINES) {
            let cut: String = line.chars().take(WIDTH).collect();
            let mark = if cut.len() < line.len() { "…" } else { "" };
            out += &format!("\n      {cut}{mark}");
        }
        match text.lines().count().saturating_sub(LINES) {
            0 => {}
            more => out += &format!("\n      … {more} more lines"),
        }
    }
    // What is said of every call by default says no more than is shown already.
    if question.text.is_empty() || question.text.contains(" wants to call ") {
        return out;
    }
    format!("{out}\n    {}", first_line(&question.text, WIDTH))
}

#[cfg(test)]
mod tests {
    use deepagents::core::tool::CallId;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn question() -> ActionRequest {
        let args = json!({"file_path": "/a.txt", "content": "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14"});
        ActionRequest::about(&CallId::default(), "write_file", args, "2026-01-01T00:00:00Z")
    }

    #[test]
    fn a_letter_or_a_word_decides_and_what_follows_belongs_to_it() {
        let said = |line| understand(line, &question());
        assert_eq!(said(" Y "), Said::Decision(Decision::Approve));
        assert_eq!(said("no"), Said::Decision(Decision::Reject { message: None }));
        assert_eq!(said("n too long"), Said::Decision(Decision::Reject { message: Some("too long".to_owned()) }));
        assert_eq!(said("r ok then"), Said::Decision(Decision::Respond { message: "ok then".to_owned() }));
        assert!(matches!(said("e {\"content\":\"b\"}"), Said::Decision(Decision::Edit { .. })));
        assert!(matches!(said("e"), Said::Ask(_)) && matches!(said("r"), Said::Ask(_)));
        for unclear in ["", "yes please", "maybe", "e {"] {
            assert!(matches!(said(unclear), Said::Unclear(_)), "{unclear}");
        }
    }

    #[test]
    fn long_arguments_are_cut() {
        let text = shown(&question());
        assert!(text.starts_with("? write_file /a.txt\n    file_path: /a.txt\n    content:\n      1\n"), "{text}");
        assert!(text.ends_with("      12\n      … 2 more lines"), "{text}");
    }

    proptest! {
        #[test]
        fn any_line_is_understood_or_not(line in ".{0,24}") {
            let _ = understand(&line, &question());
        }
    }
}
