//! Finish reasons of runs, and the status of threads.

use serde::{Deserialize, Serialize};

/// Why a run ended without failing.
///
/// ```
/// use deepagents_core::run::Outcome;
/// fn is_complete(outcome: &Outcome) -> bool {
///     outcome.stop.is_complete()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model finished without further tool calls.
    Done,
    /// A tool's result is the answer.
    ReturnDirect,
    /// A middleware ended the run.
    Ended,
    /// The limit of model calls was reached. If the limit is the run's own, it includes the calls of sub-agents. The
    /// task may be unfinished.
    StepLimit,
    /// The last answer was cut off at its token limit.
    TokenLimit,
    /// The model's answer was empty.
    Empty,
    /// The model or its provider refused.
    Refused,
    /// The last answer ended early. The reason is the [`StopReason::Other`](crate::model::StopReason::Other) of that
    /// answer: the provider's term, or that of a middleware that answered because the model could not.
    BrokenOff,
    /// A call waits for a person's decision; see [`Outcome::action_requests`](crate::run::Outcome::action_requests).
    #[serde(rename = "waiting")]
    Interrupted,
    /// The caller cancelled the run.
    Cancelled,
    /// The time limit was reached.
    Deadline,
    /// The agent repeated itself without progress; the task may be unfinished.
    NoProgress,
    /// The run was suspended. It has not ended, and [`RunInput::resume`](crate::run::RunInput::resume) continues it.
    Suspended,
    /// The budget of the run and all its sub-agents is spent; the task may be unfinished.
    #[serde(untagged)]
    Budget(BudgetKind),
}

impl FinishReason {
    /// Returns whether the run was ended from outside or by a limit with its task still open, so that it can be
    /// [resumed](crate::run::RunInput::resume).
    pub fn is_from_outside(&self) -> bool {
        matches!(self, Self::StepLimit | Self::Cancelled | Self::Deadline | Self::Budget(_))
    }

    /// Returns whether the agent ended the run by itself, with nothing left to do.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Done | Self::ReturnDirect | Self::Ended)
    }

    /// Returns the reason as text.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Done => "the model had nothing left to do",
            Self::ReturnDirect => "the result of a tool is the answer",
            Self::Ended => "a middleware ended it",
            Self::StepLimit => "the limit of model calls was reached",
            Self::TokenLimit => "the last answer was cut off by its token limit",
            Self::Empty => "the model said nothing",
            Self::Refused => "the model or its provider declined",
            Self::BrokenOff => "the last answer ended early",
            Self::Interrupted => "a call waits for a decision",
            Self::Cancelled => "the run was cancelled",
            Self::Deadline => "the run's time was up",
            Self::NoProgress => "the agent repeated itself without progress",
            Self::Suspended => "the run was suspended",
            Self::Budget(BudgetKind::InputTokens) => "the limit of prompt tokens was reached",
            Self::Budget(BudgetKind::OutputTokens) => "the limit of answer tokens was reached",
            Self::Budget(BudgetKind::Tokens) => "the limit of tokens was reached",
            Self::Budget(BudgetKind::Cost) => "the limit of the cost was reached",
            Self::Budget(BudgetKind::ToolCalls) => "the limit of tool calls was reached",
        }
    }
}

/// The part of a [`Budget`](crate::run::Budget) that ended a run. A time limit ends a run with
/// [`FinishReason::Deadline`], and a limit of model calls with [`FinishReason::StepLimit`].
///
/// ```
/// use deepagents_core::run::{BudgetKind, FinishReason};
/// assert_eq!(FinishReason::Budget(BudgetKind::Cost).reason(), "the limit of the cost was reached");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BudgetKind {
    /// Prompt tokens.
    #[serde(rename = "input_token_budget")]
    InputTokens,
    /// Answer tokens.
    #[serde(rename = "output_token_budget")]
    OutputTokens,
    /// Prompt and answer tokens together.
    #[serde(rename = "token_budget")]
    Tokens,
    /// Cost.
    #[serde(rename = "cost_budget")]
    Cost,
    /// Tool calls.
    #[serde(rename = "tool_call_budget")]
    ToolCalls,
}

/// The status of a thread's last run, according to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// There has been no run.
    Empty,
    /// The run has started and not ended. It is in progress if the thread has an owner, and can be resumed if it has
    /// none.
    Open,
    /// The run waits for a person's answers.
    #[serde(rename = "waiting")]
    Interrupted,
    /// The run ended.
    Ended,
    /// The run failed; it can be resumed.
    Failed,
}
