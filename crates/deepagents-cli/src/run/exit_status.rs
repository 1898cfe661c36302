//! The exit code and the closing message of a run.

use std::time::Duration;

use deepagents::core::run::{Budget, BudgetKind, BudgetUsage};
use deepagents::middleware::hooks::HookRunner;
use deepagents::middleware::rubric::{RubricState, RubricStatus};
use deepagents::{Error, FinishReason, LimitExit, Outcome, RunInput};
use serde_json::{Map, Value};

use super::failure::failure;
use super::recording::Recording;
use crate::again::Again;
use crate::exit::Exit;
use crate::mcp::Servers;
use crate::render::style::{count, grouped};
use crate::render::{Ending, Tally};
use crate::threads::Artifacts;
use crate::tracing::Tracing;
use crate::{duration, money};

/// Options of a run that continues after another one ended.
const CONTINUE_WITH_MESSAGE: &str = "--continue \"Go on\"";
/// Options of a run that resumes another one's unfinished work.
pub(super) const CONTINUE: &str = "--continue";

/// The limits of a run, and what its error messages refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunContext {
    /// Calls of models.
    pub(crate) turns: Option<u32>,
    /// Tokens of prompts and answers.
    pub(crate) tokens: Option<u64>,
    /// US dollars.
    pub(crate) cost: Option<f64>,
    /// Whether the model answers at these limits.
    pub(crate) exit: LimitExit,
    /// Duration.
    pub(crate) time: Option<Duration>,
    /// The variable that the key came from.
    pub(crate) key_variable: Option<&'static str>,
    /// The thread, if it is saved.
    pub(crate) thread: Option<String>,
    /// The options of a command that resumes it.
    pub(crate) again: Again,
    /// The thread's metadata while the program works on it.
    pub(crate) note: Map<String, Value>,
    /// Whether a structured answer is expected.
    pub(crate) has_shape: bool,
    /// Whether to wait for background tasks.
    pub(crate) waits: bool,
    /// MCP servers that end with the run.
    pub(crate) servers: Option<Servers>,
    /// Where what is too long for the conversation is kept.
    pub(crate) artifacts: Option<Artifacts>,
    /// The recording or replay, if any.
    pub(crate) recording: Recording,
    /// Traces of the run.
    pub(crate) tracing: Tracing,
    /// Hooks of the run.
    pub(crate) hooks: Option<HookRunner>,
}

impl RunContext {
    /// Returns the budget, except for time.
    pub(super) fn budget(&self) -> Budget {
        let mut budget = Budget::default();
        // Nothing is stored with runs that do not use it.
        if self.exit != LimitExit::End {
            budget = budget.at_limit(self.exit);
        }
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

    /// Adds the limits to the input; `elapsed` is subtracted from the time limit.
    pub(super) fn apply(&self, input: RunInput, elapsed: Duration) -> RunInput {
        let mut budget = self.budget();
        if let Some(time) = self.time {
            budget = budget.time(time.saturating_sub(elapsed));
        }
        self.recording.attach(input).budget(budget).note(self.note.clone())
    }
}

/// Returns the exit code, and a message unless everything is done.
pub(super) fn from_ending(ending: &Ending, limits: &RunContext) -> (Exit, Option<String>) {
    let outcome = match &ending.result {
        Ok(outcome) => outcome,
        Err(error) if ending.interrupted && matches!(*error.error, Error::Left) => {
            return stopped_message(ending, limits);
        }
        Err(error) => return (Exit::Failed, Some(failure(&error.error, limits))),
    };
    if ending.left {
        // `background::suspend_tasks` lists them.
        let words = "interrupted before its background tasks were finished".to_owned();
        return (Exit::Interrupted, Some(words));
    }
    let so_far = progress_so_far(&ending.tally);
    let (exit, words) = match &outcome.stop {
        FinishReason::Ended if ending.is_cut_short(outcome) => {
            let nobody = || "the run was stopped before it gave an answer".to_owned();
            (Exit::Failed, ending.ended_by.clone().unwrap_or_else(nobody))
        }
        FinishReason::Done | FinishReason::ReturnDirect | FinishReason::Ended => {
            let missing = unmet_goal_message(outcome).or_else(|| unshaped(outcome, limits));
            return missing.map_or((Exit::Done, None), |words| (Exit::Failed, Some(words)));
        }
        FinishReason::StepLimit => {
            let turns = limits.turns.map_or(outcome.spent.model_calls, u64::from);
            (Exit::Failed, spent(&count(turns, "model call"), "", "--max-turns", limits))
        }
        FinishReason::Budget(kind) => {
            // Either may be larger: the last run is only one of several, and a resumed run includes what was spent
            // earlier.
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
        FinishReason::Cancelled => {
            (Exit::Interrupted, with_next_step(format!("interrupted {so_far}"), CONTINUE, limits))
        }
        FinishReason::Suspended if ending.interrupted => match outcome.action_requests().len() {
            0 => return stopped_message(ending, limits),
            open => waiting(ending, open, limits),
        },
        FinishReason::Deadline => {
            let limit = limits.time.map(|time| format!(" of {}", duration::show(time))).unwrap_or_default();
            (Exit::TimeUp, with_raise_hint(format!("the time limit{limit} was reached {so_far}"), "--timeout", limits))
        }
        other => (Exit::Failed, format!("the run ended early: {}", other.reason())),
    };
    (exit, Some(words))
}

/// Returns the message about a run that was stopped and can be resumed.
fn stopped_message(ending: &Ending, limits: &RunContext) -> (Exit, Option<String>) {
    (Exit::Interrupted, Some(with_next_step(format!("stopped {}", progress_so_far(&ending.tally)), CONTINUE, limits)))
}

/// Returns the message about a run whose goal is not met.
fn unmet_goal_message(outcome: &Outcome) -> Option<String> {
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
            "it is not known whether the goal is met: {}",
            progress.problem.as_deref().unwrap_or("it could not be judged")
        )),
    }
}

/// Returns the message about an answer without the required structure, which came from an earlier run that did not
/// require it.
fn unshaped(outcome: &Outcome, limits: &RunContext) -> Option<String> {
    let words = "the answer does not have the form that --json-schema asks for".to_owned();
    (limits.has_shape && outcome.structured_json().is_none())
        .then(|| with_next_step(words, CONTINUE_WITH_MESSAGE, limits))
}

/// Returns the message about a run that has exhausted its budget.
fn budget(kind: BudgetKind, so_far: &BudgetUsage, limits: &RunContext) -> String {
    match (kind, limits.tokens, limits.cost) {
        (BudgetKind::Tokens, Some(most), _) => {
            let taken = format!(" with {} spent", grouped(so_far.usage.total()));
            spent(&count(most, "token"), &taken, "--max-tokens", limits)
        }
        (BudgetKind::Cost, _, Some(most)) => {
            let taken = format!(" with {} spent", money::show(so_far.cost));
            spent(&money::show(most), &taken, "--max-cost", limits)
        }
        // The budget of a resumed run, or of a recorded one.
        _ => {
            let words = format!(
                "stopped because {}, with {} and {} spent; the task may be unfinished",
                FinishReason::Budget(kind).reason(),
                count(so_far.usage.total(), "token"),
                count(so_far.tool_calls, "tool call"),
            );
            with_next_step(words, CONTINUE_WITH_MESSAGE, limits)
        }
    }
}

/// Returns the message about a limit set by an option.
fn spent(limit: &str, taken: &str, option: &str, limits: &RunContext) -> String {
    with_raise_hint(format!("stopped at its limit of {limit}{taken}; the task may be unfinished"), option, limits)
}

/// Adds how to continue after a limit set by an option.
fn with_raise_hint(words: String, option: &str, limits: &RunContext) -> String {
    match &limits.thread {
        Some(_) => format!("{}, or raise it with {option}", with_next_step(words, CONTINUE_WITH_MESSAGE, limits)),
        None => format!("{words}. Raise it with {option}"),
    }
}

/// Adds how to continue, if the conversation is saved.
pub(super) fn with_next_step(words: String, how: &str, limits: &RunContext) -> String {
    if limits.thread.is_none() {
        return words;
    }
    let stop = if words.ends_with('?') { "" } else { "." };
    format!("{words}{stop} Go on with `{}`", limits.again.command(&format!("deepagents run {how}")))
}

/// Returns the message about a run with nobody left to decide.
fn waiting(ending: &Ending, calls: usize, limits: &RunContext) -> (Exit, String) {
    let calls = count(calls as u64, "call");
    let kept = match &limits.thread {
        Some(thread) => format!("go on with `{}`", limits.again.asking(thread)),
        None => "nothing of it was saved".to_owned(),
    };
    if ending.interrupted {
        return (Exit::Interrupted, format!("interrupted with {calls} awaiting a decision; {kept}"));
    }
    (Exit::Failed, format!("the input ended with {calls} awaiting a decision; {kept}"))
}

/// Describes how far the run came.
fn progress_so_far(tally: &Tally) -> String {
    let answers = count(tally.answers, "answer");
    let tools = count(tally.tools_done, "tool call");
    let stays = if tally.tools_done > 0 { "; changes to files remain" } else { "" };
    format!("after {answers} and {tools}{stays}")
}
