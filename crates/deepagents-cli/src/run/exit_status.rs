//! What a run came to, in an exit code and a line.

use std::time::Duration;

use deepagents::core::journal::JournalError;
use deepagents::core::run::{Budget, BudgetKind, BudgetUsage};
use deepagents::middleware::hooks::HookRunner;
use deepagents::middleware::rubric::{RubricState, RubricStatus};
use deepagents::{Error, FinishReason, ModelError, Outcome, RunInput};
use serde_json::{Map, Value};

use super::recording::Recording;
use crate::again::Again;
use crate::exit::Exit;
use crate::mcp::Servers;
use crate::render::style::{count, first_line, grouped};
use crate::render::{Ending, Tally};
use crate::tracing::Tracing;
use crate::{cloud, duration, model_choice, money};

/// Options of a run that goes on where another has ended.
const NEXT: &str = "--continue \"Go on\"";
/// Options of a run that goes on with what another has left unfinished.
const REST: &str = "--continue";
/// Characters of an error of a provider that are shown.
const SHOWN: usize = 600;

/// What a run may take, and what its errors may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// Calls of models.
    pub(crate) turns: Option<u32>,
    /// Tokens of prompts and answers.
    pub(crate) tokens: Option<u64>,
    /// US dollars.
    pub(crate) cost: Option<f64>,
    /// Time.
    pub(crate) time: Option<Duration>,
    /// Where the key came from.
    pub(crate) key_variable: Option<&'static str>,
    /// The thread, where it is kept.
    pub(crate) thread: Option<String>,
    /// How it is gone on with.
    pub(crate) again: Again,
    /// What the thread says of itself while the program works on it.
    pub(crate) note: Map<String, Value>,
    /// Whether the answer is to have a shape.
    pub(crate) has_shape: bool,
    /// Whether what works in the background is waited for.
    pub(crate) waits: bool,
    /// The MCP servers that end with the run.
    pub(crate) servers: Option<Servers>,
    /// What stands between the run and the world.
    pub(crate) recording: Recording,
    /// What watches the run.
    pub(crate) tracing: Tracing,
    /// What runs at moments of the run.
    pub(crate) hooks: Option<HookRunner>,
}

impl Limits {
    /// What may be spent, time aside.
    pub(super) fn budget(&self) -> Budget {
        let mut budget = Budget::default();
        if let Some(turns) = self.turns {
            budget = budget.model_calls(turns.into());
        }
        if let Some(tokens) = self.tokens {
            budget = budget.tokens(tokens);
        }
        if let Some(cost) = self.cost {
            budget = budget.cost(cost);
        }
        budget
    }

    /// The input with the limits, of whose time so much has passed.
    pub(super) fn apply(&self, input: RunInput, elapsed: Duration) -> RunInput {
        let mut budget = self.budget();
        if let Some(time) = self.time {
            budget = budget.time(time.saturating_sub(elapsed));
        }
        self.recording.attach(input).budget(budget).note(self.note.clone())
    }
}

/// The exit code, and what to say unless everything is done.
pub(super) fn from_ending(ending: &Ending, limits: &Limits) -> (Exit, Option<String>) {
    let outcome = match &ending.result {
        Ok(outcome) => outcome,
        Err(error) if ending.interrupted && matches!(*error.error, Error::Left) => return left(ending, limits),
        Err(error) => return (Exit::Failed, Some(failure(&error.error, limits))),
    };
    if ending.left {
        // Which they are is said when they are left.
        let words = "interrupted before its background tasks were done".to_owned();
        return (Exit::Interrupted, Some(words));
    }
    let so_far = so_far(&ending.tally);
    let (exit, words) = match &outcome.stop {
        FinishReason::Ended if ending.is_cut_short(outcome) => {
            let nobody = || "the run was ended before it came to an answer".to_owned();
            (Exit::Failed, ending.ended_by.clone().unwrap_or_else(nobody))
        }
        FinishReason::Done | FinishReason::ReturnDirect | FinishReason::Ended => {
            let missing = unmet(outcome).or_else(|| unshaped(outcome, limits));
            return missing.map_or((Exit::Done, None), |words| (Exit::Failed, Some(words)));
        }
        FinishReason::StepLimit => {
            let turns = limits.turns.map_or(outcome.spent.model_calls, u64::from);
            (Exit::Failed, spent(&count(turns, "model call"), "", "--max-turns", limits))
        }
        FinishReason::Budget(kind) => {
            // The last run has spent a part alone, or one that is gone on with had spent more before.
            let spent = [outcome.spent, ending.spent].into_iter().max_by_key(|spent| spent.usage.total());
            (Exit::Failed, budget(*kind, &spent.unwrap_or_default(), limits))
        }
        FinishReason::TokenLimit => (
            Exit::Failed,
            "the last answer was cut off by its token limit; the task may be unfinished. Raise it with \
             --max-answer-tokens"
                .to_owned(),
        ),
        FinishReason::Empty => (Exit::Failed, "the model ended without an answer".to_owned()),
        FinishReason::Refused => (Exit::Failed, "the model or its provider declined the task".to_owned()),
        FinishReason::BrokenOff => (Exit::Failed, "the last answer ended early; the task may be unfinished".to_owned()),
        FinishReason::Interrupted => waiting(ending, outcome.action_requests().len(), limits),
        FinishReason::Cancelled => (Exit::Interrupted, then(format!("interrupted {so_far}"), NEXT, limits)),
        FinishReason::Suspended if ending.interrupted => match outcome.action_requests().len() {
            0 => return left(ending, limits),
            open => waiting(ending, open, limits),
        },
        FinishReason::Deadline => {
            let limit = limits.time.map(|time| format!(" of {}", duration::show(time))).unwrap_or_default();
            (Exit::TimeUp, raise(format!("the time{limit} was up {so_far}"), "--timeout", limits))
        }
        other => (Exit::Failed, format!("the run ended early: {}", other.reason())),
    };
    (exit, Some(words))
}

/// A run that was stopped for others to go on with.
fn left(ending: &Ending, limits: &Limits) -> (Exit, Option<String>) {
    (Exit::Interrupted, Some(then(format!("stopped {}", so_far(&ending.tally)), REST, limits)))
}

/// What is to be said of a run whose goal is not met.
fn unmet(outcome: &Outcome) -> Option<String> {
    let progress = outcome.state.get::<RubricState>()?;
    let (missing, explained) = match &progress.last {
        Some(last) => {
            let names =
                last.criteria.iter().filter(|criterion| !criterion.passed).map(|criterion| criterion.name.as_str());
            (names.collect::<Vec<_>>().join(", "), last.explanation.as_str())
        }
        None => (String::new(), ""),
    };
    match progress.status? {
        RubricStatus::Satisfied => None,
        RubricStatus::MaxIterationsReached => {
            let missing = if missing.is_empty() { explained.to_owned() } else { format!("missing: {missing}") };
            Some(format!("the goal is not met after {}; {missing}", count(progress.iterations.into(), "judgement")))
        }
        RubricStatus::Failed => Some(format!("the goal cannot be met: {explained}")),
        _ => Some(format!(
            "whether the goal is met is not known: {}",
            progress.problem.as_deref().unwrap_or("it could not be judged")
        )),
    }
}

/// What is to be said of an answer without the shape that was asked for: that of an earlier run, which had none to give.
fn unshaped(outcome: &Outcome, limits: &Limits) -> Option<String> {
    let words = "the answer was given without the shape that --json-schema asks for".to_owned();
    (limits.has_shape && outcome.structured_json().is_none()).then(|| then(words, NEXT, limits))
}

/// A run that has spent what it may.
fn budget(kind: BudgetKind, so_far: &BudgetUsage, limits: &Limits) -> String {
    match (kind, limits.tokens, limits.cost) {
        (BudgetKind::Tokens, Some(most), _) => {
            let taken = format!(" with {} spent", grouped(so_far.usage.total()));
            spent(&count(most, "token"), &taken, "--max-tokens", limits)
        }
        (BudgetKind::Cost, _, Some(most)) => {
            let taken = format!(" with {} spent", money::show(so_far.cost));
            spent(&money::show(most), &taken, "--max-cost", limits)
        }
        // That of an unfinished run that is gone on with, or of a recorded one.
        _ => {
            let words = format!(
                "stopped because {}, with {} and {} spent; the task may be unfinished",
                FinishReason::Budget(kind).reason(),
                count(so_far.usage.total(), "token"),
                count(so_far.tool_calls, "tool call"),
            );
            then(words, NEXT, limits)
        }
    }
}

/// What to say at a limit that an option sets.
fn spent(limit: &str, taken: &str, option: &str, limits: &Limits) -> String {
    raise(format!("stopped at its limit of {limit}{taken}; the task may be unfinished"), option, limits)
}

/// How to go on from a limit that an option sets.
fn raise(words: String, option: &str, limits: &Limits) -> String {
    match &limits.thread {
        Some(_) => format!("{}, or raise it with {option}", then(words, NEXT, limits)),
        None => format!("{words}. Raise it with {option}"),
    }
}

/// How to go on, where the conversation is kept.
fn then(words: String, how: &str, limits: &Limits) -> String {
    if limits.thread.is_none() {
        return words;
    }
    let stop = if words.ends_with('?') { "" } else { "." };
    format!("{words}{stop} Go on with `{}`", limits.again.command(&format!("deepagents run {how}")))
}

/// A run that nobody is left to decide for.
fn waiting(ending: &Ending, calls: usize, limits: &Limits) -> (Exit, String) {
    let calls = count(calls as u64, "call");
    let kept = match &limits.thread {
        Some(thread) => format!("go on with `{}`", limits.again.asking(thread)),
        None => "nothing of it is kept".to_owned(),
    };
    if ending.interrupted {
        return (Exit::Interrupted, format!("interrupted before {calls} had been decided on; {kept}"));
    }
    (Exit::Failed, format!("the input ended before {calls} had been decided on; {kept}"))
}

/// How far the run came.
fn so_far(tally: &Tally) -> String {
    let answers = count(tally.answers, "answer");
    let tools = count(tally.tools_done, "tool call");
    let stays = if tally.tools_done > 0 { "; what was written stays" } else { "" };
    format!("after {answers} and {tools}{stays}")
}

fn failure(error: &Error, limits: &Limits) -> String {
    let Some(model) = error.as_model() else { return other_failure(error) };
    let words = model_failure(model, limits.key_variable);
    let passes = matches!(
        model,
        ModelError::Transport(_)
            | ModelError::Auth(_)
            | ModelError::RateLimited(_)
            | ModelError::Overloaded(_)
            | ModelError::Truncated(_)
    );
    let mistaken = matches!(model, ModelError::Invalid(info) if matches!(info.status, Some(404 | 405 | 501)));
    // Anything else would be the same again.
    if passes || mistaken { then(words, REST, limits) } else { words }
}

/// What any other failure says to a person.
pub(crate) fn other_failure(error: &Error) -> String {
    match error {
        Error::Journal(JournalError::Fenced { thread }) => format!(
            "another program works on thread {thread} now, or has deleted it; what this one had not written yet is not kept"
        ),
        // No option takes it over.
        Error::Journal(JournalError::Busy { thread, owner, until }) => {
            format!("thread `{thread}` is being worked on by {owner} until {until} at least; wait for its end")
        }
        other => other.to_string(),
    }
}

/// What a model's failure says to a person, with the variable that its key came from.
pub(crate) fn model_failure(model: &ModelError, key_variable: Option<&'static str>) -> String {
    let said = one_line(&model.to_string());
    match model {
        // These say themselves what could not be reached.
        ModelError::Transport(info) => one_line(&info.to_string()),
        ModelError::Auth(info) => match key_variable {
            Some(variable) => format!("{said}; {}", about_key(variable, info.status)),
            None => said,
        },
        ModelError::Invalid(info) if matches!(info.status, Some(404 | 405 | 501)) => {
            format!("{said}; check the model's name and the address")
        }
        // What is longer than a call may take is not waited for.
        ModelError::RateLimited(info) | ModelError::Overloaded(info) => match info.retry_after {
            Some(wait) if !wait.is_zero() => format!("{said}; the provider asks to wait {}", duration::show(wait)),
            _ => said,
        },
        _ => said,
    }
}

/// What to do about a key that was not accepted.
fn about_key(variable: &'static str, status: Option<u16>) -> String {
    let set = cloud::set_variable(variable, &model_choice::env);
    let variable = set.unwrap_or(variable);
    match status {
        _ if set.is_none() => format!("set the key in {variable}{}", cloud::or_else(variable)),
        Some(402 | 429) => format!("check the account of the key in {variable}"),
        Some(403) => format!("check what the key in {variable} may be used for"),
        _ => format!("check the key in {variable}"),
    }
}

/// The words of a provider in a line that fits a terminal.
fn one_line(text: &str) -> String {
    first_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), SHOWN)
}
