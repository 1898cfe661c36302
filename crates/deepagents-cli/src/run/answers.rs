//! Decisions made by a program: lines of JSON on stdin.

use std::io;

use deepagents::core::json::mend_escapes;
use deepagents::{ActionRequest, Decision, DeepAgent};
use serde::Deserialize;
use serde_json::Value;

use super::approvals::Decisions;
use super::stdin::Lines;
use crate::output;
use crate::small_file::without_mark;

/// An input line: `{"answer": ID, "decision": {...}}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerLine {
    answer: String,
    decision: Value,
}

/// Adds answers as they arrive, until every question has one or the input ends.
pub(super) async fn from_lines(
    lines: &mut Lines,
    questions: &[ActionRequest],
    agent: &DeepAgent,
    answers: &mut Decisions,
) -> io::Result<()> {
    while questions.iter().any(|question| !answers.iter().any(|(id, _)| *id == question.id)) {
        let Some(line) = lines.next().await? else { break };
        match read(&line, questions, answers, agent) {
            Ok((id, decision)) => answers.push((id, decision.into())),
            // Stdout is for events only.
            Err(problem) => output::print_error(&problem),
        }
    }
    Ok(())
}

fn read(
    line: &str,
    questions: &[ActionRequest],
    given: &Decisions,
    agent: &DeepAgent,
) -> Result<(String, Decision), String> {
    let AnswerLine { answer: id, decision } =
        serde_json::from_str(&mend_escapes(without_mark(line))).map_err(|error| {
            format!("a line on stdin is not of the form {{\"answer\": ID, \"decision\": {{...}}}}: {error}")
        })?;
    let decision = checked(&id, decision, questions, given, agent)?;
    Ok((id, decision))
}

/// Parses a decision on a question, which must be open and not decided yet.
pub(super) fn checked(
    id: &str,
    decision: Value,
    questions: &[ActionRequest],
    given: &Decisions,
    agent: &DeepAgent,
) -> Result<Decision, String> {
    let Some(question) = questions.iter().find(|question| question.id == id) else {
        let open: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
        let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
        return Err(format!("no question `{id}` is open; the open ones are {open}"));
    };
    if given.iter().any(|(other, _)| other == id) {
        return Err(format!("question `{id}` has already been answered"));
    }
    let decision =
        Decision::from_json(decision, &question.tool).map_err(|error| format!("question `{id}`: {error}"))?;
    agent.check_decision(question, &decision).map_err(|error| error.to_string())?;
    Ok(decision)
}
