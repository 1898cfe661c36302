//! What a run came to, in an exit code and a line.

use std::time::Duration;

use deepagents::{ModelError, RunError, RunInput, Stop};

use crate::duration;
use crate::exit::Exit;
use crate::render::style::count;
use crate::render::{Ending, Tally};

/// What a run may take, and what its errors may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// Answers of the model.
    pub(crate) turns: Option<u32>,
    /// Time.
    pub(crate) time: Option<Duration>,
    /// Where the key came from.
    pub(crate) key_variable: Option<&'static str>,
    /// The thread, where it is kept.
    pub(crate) thread: Option<String>,
}

impl Limits {
    /// The input with what is left of the limits after so much time.
    pub(super) fn apply(&self, mut input: RunInput, elapsed: Duration) -> RunInput {
        if let Some(turns) = self.turns {
            input = input.max_model_calls(turns);
        }
        match self.time {
            Some(time) => input.timeout(time.saturating_sub(elapsed)),
            None => input,
        }
    }
}

/// The exit code, and what to say unless everything is done.
pub(super) fn of(ending: &Ending, limits: &Limits) -> (Exit, Option<String>) {
    let outcome = match &ending.result {
        Ok(outcome) => outcome,
        Err(error) => return (Exit::Failed, Some(failure(error, limits))),
    };
    let so_far = so_far(&ending.tally);
    let (exit, words) = match &outcome.stop {
        Stop::Done | Stop::ReturnDirect | Stop::Ended => return (Exit::Done, None),
        Stop::StepLimit => {
            let turns = limits.turns.unwrap_or(outcome.model_calls);
            (
                Exit::Failed,
                format!(
                    "stopped at its limit of {}; the task may be unfinished. Raise it with --max-turns",
                    count(turns.into(), "model call")
                ),
            )
        }
        Stop::TokenLimit => (
            Exit::Failed,
            "the last answer was cut off by its token limit; the task may be unfinished. Raise it with --max-tokens"
                .to_owned(),
        ),
        Stop::Empty => (Exit::Failed, "the model ended without an answer".to_owned()),
        Stop::Refused => (Exit::Failed, "the model or its provider declined the task".to_owned()),
        Stop::Waiting => waiting(ending, outcome.questions().len(), limits),
        Stop::Cancelled => (Exit::Interrupted, format!("interrupted {so_far}")),
        Stop::Deadline => {
            let limit = limits.time.map(|time| format!(" of {}", duration::show(time))).unwrap_or_default();
            (Exit::TimeUp, format!("the time{limit} was up {so_far}. Raise it with --timeout"))
        }
        other => (Exit::Failed, format!("the run ended early ({})", word(other))),
    };
    (exit, Some(words))
}

/// A run that nobody is left to decide for.
fn waiting(ending: &Ending, calls: usize, limits: &Limits) -> (Exit, String) {
    let calls = count(calls as u64, "call");
    let kept = match &limits.thread {
        Some(thread) => format!("go on with `deepagents run --resume {thread} --approve ask`"),
        None => "nothing of it is kept".to_owned(),
    };
    if ending.interrupted {
        return (Exit::Interrupted, format!("interrupted before {calls} had been decided on; {kept}"));
    }
    (Exit::Failed, format!("the input ended before {calls} had been decided on; {kept}"))
}

/// How far the run came.
fn so_far(tally: &Tally) -> String {
    let calls = count(tally.model_calls, "model call");
    let tools = count(tally.tools_done, "tool call");
    format!("after {calls} and {tools}; what was written stays")
}

fn word(stop: &Stop) -> String {
    serde_json::to_value(stop).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

fn failure(error: &RunError, limits: &Limits) -> String {
    let Some(model) = error.error.as_model() else { return error.to_string() };
    match model {
        // These say themselves what could not be reached.
        ModelError::Transport(info) => info.to_string(),
        ModelError::Auth(_) => match limits.key_variable {
            Some(variable) => format!("{model}; check the key in {variable}"),
            None => model.to_string(),
        },
        ModelError::Invalid(info) if info.status == Some(404) => {
            format!("{model}; check the model's name and the address")
        }
        _ => model.to_string(),
    }
}
