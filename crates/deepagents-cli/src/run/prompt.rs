//! Asking the user at the terminal.

use std::io;

use deepagents::core::interrupt::EditedAction;
use deepagents::remembered::RememberedRule;
use deepagents::{ActionRequest, AnswerForm, Decision, DecisionKind, DeepAgent, FormField};
use serde_json::{Map, Value};

use super::always::Commands;
use super::question::PagedCall;
use super::stdin::Lines;
use crate::output;
use crate::render::{Columns, escaped};

/// The user, who is asked on stderr and answers with lines on stdin.
#[derive(Debug)]
pub(super) struct Person {
    pub(super) lines: Lines,
}

/// The user's answer about a call.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// A decision on this call only.
    Once(Decision),
    /// Approval of this call and of all that the rule covers, for as long as the rule lasts.
    Always(RememberedRule, Lasting),
}

/// How long a rule lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasting {
    /// For this thread.
    Session,
    /// For this directory.
    Project,
}

/// The meaning of an input line.
#[derive(Debug, PartialEq)]
enum Reply {
    Decision(Decision),
    Always,
    /// Show the rest of the call.
    Show,
    /// Fill in the fields of the question's form.
    FillIn,
    /// More input is needed, with this prompt.
    Ask(&'static str),
    Unclear(String),
}

/// The text above the next prompt.
#[derive(Debug, Default)]
struct Next {
    /// The problem with the previous answer.
    problem: Option<String>,
    /// The text to show.
    text: String,
}

impl Next {
    fn show(text: String) -> Self {
        Self { problem: None, text }
    }

    fn problem(problem: impl Into<String>) -> Self {
        Self { problem: Some(problem.into()), text: String::new() }
    }
}

impl Person {
    /// Asks about a call; `None` if the input has ended.
    pub(super) async fn decide(
        &mut self,
        question: &ActionRequest,
        commands: &Commands,
        agent: &DeepAgent,
    ) -> io::Result<Option<Answer>> {
        let columns = Columns::new(output::stderr_columns());
        let mut shown = PagedCall::new(question, columns);
        let rule = commands.rule(question);
        let keys = keys(question, rule.is_some());
        let mut next = Next::show(shown.first());
        let mut begun = String::new();
        let mut more = None;
        loop {
            let Some(line) = self.line(&std::mem::take(&mut next), more.unwrap_or(&keys)).await? else {
                return Ok(None);
            };
            match parse_reply(&format!("{begun}{line}"), question) {
                Reply::Show => next = Next::show(shown.remaining_lines()),
                Reply::Decision(Decision::Approve) | Reply::Always if !shown.is_fully_shown() => {
                    next = Next::problem("part of the call has not been shown: s shows the rest");
                }
                Reply::Decision(decision) => match agent.check_decision(question, &decision) {
                    Ok(()) => return Ok(Some(Answer::Once(decision))),
                    Err(error) => next = Next::problem(error.to_string()),
                },
                Reply::Always => match (agent.check_decision(question, &Decision::Approve), &rule) {
                    (Ok(()), Some(rule)) => return self.remember(rule.clone(), columns).await,
                    (Ok(()), None) => {
                        next = Next::problem("a command may depend on earlier ones in its shell: say yes to each one");
                    }
                    (Err(error), _) => next = Next::problem(error.to_string()),
                },
                Reply::FillIn => {
                    let message = self.fill_in(question, columns).await?;
                    return Ok(message.map(|message| Answer::Once(Decision::Respond { message })));
                }
                Reply::Ask(what) if begun.is_empty() => {
                    begun = format!("{} ", line.trim());
                    more = Some(what);
                    continue;
                }
                Reply::Ask(_) => {}
                Reply::Unclear(problem) => next = Next::problem(problem),
            }
            begun.clear();
            more = None;
        }
    }

    /// Shows the rule that an answer would create, and asks how long it should last.
    async fn remember(&mut self, rule: RememberedRule, columns: Columns) -> io::Result<Option<Answer>> {
        let mut next = Next::show(columns.wrap("  always: ", "      ┊ ", &escaped(&rule.to_string())).join("\n"));
        loop {
            let line = self.line(&next, "in this [s]ession, this [p]roject, or just [o]nce? ").await?;
            let Some(line) = line else { return Ok(None) };
            match line.trim().to_lowercase().as_str() {
                "s" | "session" => return Ok(Some(Answer::Always(rule, Lasting::Session))),
                "p" | "project" => return Ok(Some(Answer::Always(rule, Lasting::Project))),
                "o" | "once" => return Ok(Some(Answer::Once(Decision::Approve))),
                _ => next = Next::problem("answer with s, p or o"),
            }
        }
    }

    /// Asks for the fields of a question's form; `None` if the input has ended.
    async fn fill_in(&mut self, question: &ActionRequest, columns: Columns) -> io::Result<Option<String>> {
        let mut values = Map::new();
        for field in fields(question).into_iter().flatten() {
            let (options, prompt) = super::fields::asked(field);
            let mut shown: Vec<String> =
                options.iter().flat_map(|option| columns.wrap("    ", "      ┊ ", option)).collect();
            // The answer is typed after the last line of the prompt.
            let mut lines = columns.wrap("  ", "      ┊ ", &prompt);
            let prompt = lines.pop().unwrap_or_default();
            shown.append(&mut lines);
            let mut next = Next::show(shown.join("\n"));
            loop {
                let Some(line) = self.line(&next, &prompt).await? else { return Ok(None) };
                match super::fields::value(field, &line) {
                    Ok(value) => {
                        values.extend(value.map(|value| (field.name.clone(), value)));
                        break;
                    }
                    Err(problem) => next = Next::problem(escaped(&problem)),
                }
            }
        }
        Ok(Some(Value::Object(values).to_string()))
    }

    /// Returns the next line of the answer to a prompt. Input typed earlier is discarded.
    async fn line(&mut self, next: &Next, prompt: &str) -> io::Result<Option<String>> {
        output::ask(next.problem.as_deref(), &next.text, prompt);
        let line = self.lines.next().await?;
        if line.is_none() {
            output::say("");
        }
        Ok(line)
    }
}

/// Returns the fields that a question asks to fill in.
fn fields(question: &ActionRequest) -> Option<&[FormField]> {
    match &question.form {
        Some(AnswerForm::Fields { fields }) => Some(fields),
        _ => None,
    }
}

/// Lists the possible answers.
fn keys(question: &ActionRequest, may_be_remembered: bool) -> String {
    if asks_for_text(question) {
        return "your answer? ".to_owned();
    }
    let may = |kind| question.allowed.contains(&kind);
    let keys = [
        may(DecisionKind::Approve).then_some(if may_be_remembered { "[y]es, [a]lways" } else { "[y]es" }),
        may(DecisionKind::Reject).then_some("[n]o REASON"),
        may(DecisionKind::Edit).then_some("[e]dit {ARGUMENTS}"),
        may(DecisionKind::Respond).then_some(if fields(question).is_some() { "[r]espond" } else { "[r]espond TEXT" }),
    ];
    format!("{}? ", keys.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Whether the agent asks for an answer, rather than for permission.
fn asks_for_text(question: &ActionRequest) -> bool {
    question.tool == "ask_user" && !question.allowed.contains(&DecisionKind::Approve)
}

/// Interprets the user's line about a call.
fn parse_reply(line: &str, question: &ActionRequest) -> Reply {
    let line = line.trim();
    if asks_for_text(question) {
        return match line {
            "" => Reply::Unclear("say something, such as that you do not know".to_owned()),
            words => Reply::Decision(Decision::Respond { message: words.to_owned() }),
        };
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word.to_lowercase().as_str() {
        "y" | "yes" if rest.is_empty() => Reply::Decision(Decision::Approve),
        "a" | "always" if rest.is_empty() => Reply::Always,
        "s" | "show" if rest.is_empty() => Reply::Show,
        "n" | "no" => Reply::Decision(Decision::Reject { message: (!rest.is_empty()).then(|| rest.to_owned()) }),
        "e" | "edit" if rest.is_empty() => Reply::Ask("arguments, as JSON: "),
        "e" | "edit" => match serde_json::from_str::<Value>(rest) {
            Ok(args) => {
                Reply::Decision(Decision::Edit { edited_action: EditedAction { name: question.tool.clone(), args } })
            }
            Err(error) => Reply::Unclear(format!("that is not valid JSON: {error}")),
        },
        "r" | "respond" if rest.is_empty() && fields(question).is_some() => Reply::FillIn,
        "r" | "respond" if rest.is_empty() => Reply::Ask("what to tell the agent instead of the result: "),
        "r" | "respond" => Reply::Decision(Decision::Respond { message: rest.to_owned() }),
        _ => Reply::Unclear("answer with y, a, n, e or r; s shows what was not shown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use deepagents::core::tool::CallId;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn question() -> ActionRequest {
        let args = json!({"file_path": "/a.txt", "content": "one"});
        ActionRequest::about(&CallId::default(), "write_file", args, "2026-01-01T00:00:00Z")
    }

    #[test]
    fn the_whole_line_answers_a_question_from_the_agent() {
        let asks = ActionRequest::about(&CallId::default(), "ask_user", json!({}), "2026-01-01T00:00:00Z");
        let asks = asks.allowed([DecisionKind::Respond, DecisionKind::Reject]);
        let words = |text: &str| Reply::Decision(Decision::Respond { message: text.to_owned() });
        assert_eq!(
            (parse_reply(" y ", &asks), parse_reply("no, rather 2", &asks)),
            (words("y"), words("no, rather 2"))
        );
        assert!(matches!(parse_reply("  ", &asks), Reply::Unclear(_)));
        assert_eq!(keys(&asks, true), "your answer? ");
    }

    #[test]
    fn a_letter_or_a_word_decides_and_the_rest_of_the_line_is_its_text() {
        let said = |line| parse_reply(line, &question());
        assert_eq!(said(" Y "), Reply::Decision(Decision::Approve));
        assert_eq!((said("a"), said("show")), (Reply::Always, Reply::Show));
        assert_eq!(said("no"), Reply::Decision(Decision::Reject { message: None }));
        assert_eq!(said("n too long"), Reply::Decision(Decision::Reject { message: Some("too long".to_owned()) }));
        assert_eq!(said("r ok then"), Reply::Decision(Decision::Respond { message: "ok then".to_owned() }));
        assert!(matches!(said("e {\"content\":\"b\"}"), Reply::Decision(Decision::Edit { .. })));
        assert!(matches!(said("e"), Reply::Ask(_)) && matches!(said("r"), Reply::Ask(_)));
        for unclear in ["", "yes please", "always and ever", "maybe", "e {"] {
            assert!(matches!(said(unclear), Reply::Unclear(_)), "{unclear}");
        }
    }

    #[test]
    fn only_allowed_decisions_are_offered() {
        assert_eq!(keys(&question(), true), "[y]es, [a]lways, [n]o REASON, [e]dit {ARGUMENTS}, [r]espond TEXT? ");
        assert_eq!(
            keys(&question().allowed([DecisionKind::Approve, DecisionKind::Reject]), false),
            "[y]es, [n]o REASON? "
        );
    }

    proptest! {
        #[test]
        fn any_input_line_is_understood_or_rejected(line in ".{0,24}") {
            let _ = parse_reply(&line, &question());
        }
    }
}
