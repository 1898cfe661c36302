//! How runs end, and how threads stand.

use serde::{Deserialize, Serialize};

/// Why a run ended without failing.
///
/// ```
/// use deepagents_core::run::{FinishReason, Outcome};
/// fn is_complete(outcome: &Outcome) -> bool {
///     matches!(outcome.stop, FinishReason::Done | FinishReason::ReturnDirect)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model had nothing left to do.
    Done,
    /// The result of a tool is the answer.
    ReturnDirect,
    /// A middleware ended it.
    Ended,
    /// The limit of model calls was reached, those of agents below it included where it is the run's; the task may be
    /// unfinished.
    StepLimit,
    /// The last answer was cut off by its token limit.
    TokenLimit,
    /// The model said nothing.
    Empty,
    /// The model or its provider declined.
    Refused,
    /// The last answer ended early. Why is the [`StopReason::Other`](crate::model::StopReason::Other) of that answer: the
    /// provider's own word, or that of a middleware which answers where the model could not.
    BrokenOff,
    /// A call waits for a decision of a person; see [`Outcome::action_requests`](crate::run::Outcome::action_requests).
    #[serde(rename = "waiting")]
    Interrupted,
    /// The caller cancelled it.
    Cancelled,
    /// Its time was up.
    Deadline,
    /// The agent did the same again and again and came no further; the task may be unfinished.
    NoProgress,
    /// It was suspended: it has not ended, and [`RunInput::resume`](crate::run::RunInput::resume) goes on with it.
    Suspended,
    /// What it may spend, with all agents below it, is spent; the task may be unfinished.
    #[serde(untagged)]
    Budget(BudgetKind),
}

impl FinishReason {
    /// Whether the run was ended from outside or by a limit, with its task as it was: it can be
    /// [resumed](crate::run::RunInput::resume).
    pub fn is_from_outside(&self) -> bool {
        matches!(self, Self::StepLimit | Self::Cancelled | Self::Deadline | Self::Budget(_))
    }

    /// Why the run ended, in words.
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

/// The part of a [`Budget`](crate::run::Budget) that ended a run. Time ends it with [`FinishReason::Deadline`], and the number of model calls with
/// [`FinishReason::StepLimit`].
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
    /// Tokens of answers.
    #[serde(rename = "output_token_budget")]
    OutputTokens,
    /// Tokens of both.
    #[serde(rename = "token_budget")]
    Tokens,
    /// Money.
    #[serde(rename = "cost_budget")]
    Cost,
    /// Calls of tools.
    #[serde(rename = "tool_call_budget")]
    ToolCalls,
}

/// How the last run of a thread stands, as its log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// There was no run.
    Empty,
    /// It has begun and not ended: under way if the thread has an owner, to be resumed if it has none.
    Open,
    /// It waits for answers of a person.
    #[serde(rename = "waiting")]
    Interrupted,
    /// It ended.
    Ended,
    /// It failed; it can be resumed.
    Failed,
}
