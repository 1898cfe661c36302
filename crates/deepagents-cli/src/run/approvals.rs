//! Decisions about calls that wait for them.

use std::collections::VecDeque;
use std::io;

use deepagents::core::env::Timestamp;
use deepagents::{ActionRequest, Decision};
use serde::Deserialize;
use serde_json::Value;

use super::prompt::Person;
use super::stdin::Lines;
use crate::output;
use crate::render::Renderer;

/// Who decides.
#[derive(Debug)]
pub(super) enum Approver {
    /// Everything is approved.
    Approve,
    /// Everything is rejected.
    Reject,
    /// It was decided when the run was recorded.
    Recorded(VecDeque<Vec<(String, Decision)>>),
    /// A person at the terminal.
    Person(Person),
    /// A program, with lines of JSON.
    Program(Lines),
}

/// A line of a program: `{"answer": ID, "decision": {...}}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    answer: String,
    decision: Value,
}

impl Approver {
    /// A person who is asked on stderr and answers on stdin.
    pub(super) fn person() -> Self {
        Self::Person(Person::new(Lines::read()))
    }

    /// A program that reads events on stdout and answers on stdin.
    pub(super) fn lines() -> Self {
        Self::Program(Lines::read())
    }

    /// Whether somebody is asked.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Person(_) | Self::Program(_))
    }

    /// Decides about calls, in the order it likes; less than all only when nobody is left to decide.
    pub(super) async fn decide(
        &mut self,
        questions: &[ActionRequest],
        renderer: &mut dyn Renderer,
    ) -> io::Result<Vec<(String, Decision)>> {
        let all = |decision: &Decision| questions.iter().map(|q| (q.id.clone(), decision.clone())).collect();
        match self {
            Self::Approve => Ok(all(&Decision::Approve)),
            Self::Reject => {
                let message = Some("nothing may be changed or run here (--approve deny)".to_owned());
                Ok(all(&Decision::Reject { message }))
            }
            Self::Recorded(answers) => Ok(answers.pop_front().unwrap_or_default()),
            Self::Person(person) => {
                renderer.pause()?;
                person.decide(questions).await
            }
            Self::Program(lines) => from_lines(lines, questions).await,
        }
    }

    /// Leaves a question where it is.
    pub(super) fn leave(&self) {
        if let Self::Person(_) = self {
            // What is asked stands in an open line.
            output::say("");
        }
    }
}

async fn from_lines(lines: &mut Lines, questions: &[ActionRequest]) -> io::Result<Vec<(String, Decision)>> {
    let mut answers: Vec<(String, Decision)> = Vec::new();
    while answers.len() < questions.len() {
        let Some(line) = lines.next().await? else { break };
        match read(&line, questions, &answers) {
            Ok(answer) => answers.push(answer),
            // Stdout is for events alone.
            Err(problem) => output::print_error(&problem),
        }
    }
    Ok(answers)
}

fn read(line: &str, questions: &[ActionRequest], given: &[(String, Decision)]) -> Result<(String, Decision), String> {
    let Answer { answer: id, decision } = serde_json::from_str(line)
        .map_err(|error| format!("a line on stdin is no {{\"answer\": ID, \"decision\": {{...}}}}: {error}"))?;
    let Some(question) = questions.iter().find(|question| question.id == id) else {
        let open: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
        return Err(format!("no question `{id}` is open; open are {}", open.join(", ")));
    };
    if given.iter().any(|(other, _)| *other == id) {
        return Err(format!("question `{id}` has been answered before"));
    }
    let decision =
        Decision::from_json(decision, &question.tool).map_err(|error| format!("question `{id}`: {error}"))?;
    question.check(&decision, Timestamp::now()).map_err(|error| error.to_string())?;
    Ok((id, decision))
}
