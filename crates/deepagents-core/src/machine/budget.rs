//! Budgets of runs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::message::Usage;
use crate::status::{BudgetKind, FinishReason};

/// A budget for a run and all its sub-agents together. Limits that are not set do not apply.
///
/// Every model request counts: those of sub-agents, of background agents that the run has started, for summaries, and
/// those whose answer a middleware discarded. A request that the model's client retries by itself counts once. Token
/// counts are those that providers report.
///
/// The budget is checked before each model request and tool call. Those already in progress finish, so tokens and cost
/// may exceed their limits by that amount. A run whose budget is spent ends through its `after_agent` hooks, with a
/// [`FinishReason`] that names the budget. Its state is kept, and its history stays valid.
///
/// A sub-agent may have its own budget in addition to the shared one. A resumed run continues with what its budget had
/// left, except that its time starts anew. What a killed process had spent since the last step of the main agent is not
/// known.
///
/// With [`LimitExit::Answer`], the last request that the limits allow asks for an answer.
///
/// ```
/// use std::time::Duration;
/// use deepagents_core::run::{Budget, RunInput};
/// let budget = Budget::default().tokens(500_000).tool_calls(200).time(Duration::from_secs(600));
/// let input = RunInput::new("Tidy up.").budget(budget);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Budget {
    /// Time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// Model requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Prompt tokens, cached or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Answer tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Prompt and answer tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost, in the currency of the models' prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What happens at the limits; `None` for what happens at those of the agent above, or [`LimitExit::End`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<LimitExit>,
}

/// What happens at a limit of an agent: those of its [`Budget`], and of its model calls.
///
/// ```
/// use deepagents_core::run::{Budget, LimitExit, RunInput};
/// let budget = Budget::default().model_calls(20).at_limit(LimitExit::Answer);
/// let input = RunInput::new("What do the logs say?").budget(budget);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitExit {
    /// The run ends.
    #[default]
    End,
    /// The last request that the limits allow forbids calls of tools, and a note asks the model to answer with what it
    /// has. The run ends after it, for the same reason as with [`End`](Self::End).
    ///
    /// - Of model calls, a sub-agent leaves one for each agent above it.
    /// - Of tokens and cost, the last request is made when what is left does not allow two requests like the one
    ///   before, and one more for each agent above. What is already spent at that point, for example by sub-agents,
    ///   ends the run without an answer.
    /// - Calls of tools beyond their limit are answered with an error, and then the last request is made.
    /// - At the end of its time a run ends at once.
    Answer,
}

impl Budget {
    /// Ends the run after this time, with [`FinishReason::Deadline`]. Calls in progress are cancelled.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Ends the run after this many model requests, with [`FinishReason::StepLimit`].
    #[must_use]
    pub fn model_calls(mut self, calls: u64) -> Self {
        self.model_calls = Some(calls);
        self
    }

    /// Limits tool calls: further ones are answered with an error, and the agent that made them ends with
    /// [`BudgetKind::ToolCalls`].
    #[must_use]
    pub fn tool_calls(mut self, calls: u64) -> Self {
        self.tool_calls = Some(calls);
        self
    }

    /// Ends the run after this many prompt tokens, cached or not.
    #[must_use]
    pub fn input_tokens(mut self, tokens: u64) -> Self {
        self.input_tokens = Some(tokens);
        self
    }

    /// Ends the run after this many answer tokens.
    #[must_use]
    pub fn output_tokens(mut self, tokens: u64) -> Self {
        self.output_tokens = Some(tokens);
        self
    }

    /// Ends the run after this many prompt and answer tokens together.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Ends the run once its model calls have cost this amount, in the currency of the models'
    /// [prices](crate::model::ModelProfile::price). A call of a model without a price is then an error.
    #[must_use]
    pub fn cost(mut self, cost: f64) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets what happens at the limits, also for sub-agents that have no setting of their own.
    #[must_use]
    pub fn at_limit(mut self, exit: LimitExit) -> Self {
        self.at_limit = Some(exit);
        self
    }

    /// Returns whether nothing is set.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Fills in unset limits from another budget.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            time: self.time.or(other.time),
            model_calls: self.model_calls.or(other.model_calls),
            tool_calls: self.tool_calls.or(other.tool_calls),
            input_tokens: self.input_tokens.or(other.input_tokens),
            output_tokens: self.output_tokens.or(other.output_tokens),
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            at_limit: self.at_limit.or(other.at_limit),
        }
    }

    /// Returns an error if the budget is not valid.
    pub(crate) fn check(&self) -> Result<(), BudgetError> {
        match self.cost {
            Some(cost) if !cost.is_finite() || cost < 0.0 => Err(BudgetError(cost)),
            _ => Ok(()),
        }
    }

    /// Returns what is left, except time.
    pub(crate) fn remaining(&self, spent: &BudgetUsage) -> Self {
        let left = |limit: Option<u64>, spent: u64| limit.map(|limit| limit.saturating_sub(spent));
        Self {
            time: None,
            model_calls: left(self.model_calls, spent.model_calls),
            tool_calls: left(self.tool_calls, spent.tool_calls),
            input_tokens: left(self.input_tokens, spent.usage.input),
            output_tokens: left(self.output_tokens, spent.usage.output),
            tokens: left(self.tokens, spent.usage.total()),
            cost: self.cost.map(|limit| (limit - spent.cost).max(0.0)),
            at_limit: self.at_limit,
        }
    }

    /// Returns the minimum of each limit.
    pub(crate) fn least(self, other: &Self) -> Self {
        fn least<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(if b < a { b } else { a }),
                (a, b) => a.or(b),
            }
        }
        Self {
            time: least(self.time, other.time),
            model_calls: least(self.model_calls, other.model_calls),
            tool_calls: least(self.tool_calls, other.tool_calls),
            input_tokens: least(self.input_tokens, other.input_tokens),
            output_tokens: least(self.output_tokens, other.output_tokens),
            tokens: least(self.tokens, other.tokens),
            cost: least(self.cost, other.cost),
            at_limit: self.at_limit.or(other.at_limit),
        }
    }

    /// Returns why a request is the last one, if so: what is left does not allow two like the one before. This many
    /// agents above need a request of their own.
    pub(crate) fn ends_after(&self, spent: &BudgetUsage, before: &BudgetUsage, above: u64) -> Option<FinishReason> {
        let mut after = *spent;
        for _ in 0..above.saturating_add(2) {
            after += before;
        }
        after.model_calls = spent.model_calls.saturating_add(above).saturating_add(1);
        self.exhausted_by(&after)
    }

    /// Returns why no further request may be sent if this many must be left for agents above.
    pub(crate) fn exhausted_except(&self, spent: &BudgetUsage, above: u64) -> Option<FinishReason> {
        self.exhausted_by(&BudgetUsage { model_calls: spent.model_calls.saturating_add(above), ..*spent })
    }

    /// Returns why no further request may be sent, if so.
    pub(crate) fn exhausted_by(&self, spent: &BudgetUsage) -> Option<FinishReason> {
        let reached = |limit: Option<u64>, spent: u64| limit.is_some_and(|limit| spent >= limit);
        if reached(self.model_calls, spent.model_calls) {
            return Some(FinishReason::StepLimit);
        }
        let kind = match spent.usage {
            usage if reached(self.input_tokens, usage.input) => BudgetKind::InputTokens,
            usage if reached(self.output_tokens, usage.output) => BudgetKind::OutputTokens,
            usage if reached(self.tokens, usage.total()) => BudgetKind::Tokens,
            _ if self.cost.is_some_and(|limit| spent.cost >= limit) => BudgetKind::Cost,
            _ => return None,
        };
        Some(FinishReason::Budget(kind))
    }
}

/// Error for a budget that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a budget's cost must be a number of 0 or more, got {0}")]
pub struct BudgetError(f64);

/// What a run and all its sub-agents have spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BudgetUsage {
    /// Number of model requests.
    pub model_calls: u64,
    /// Number of tool calls made.
    pub tool_calls: u64,
    /// Tokens.
    pub usage: Usage,
    /// Cost of the calls of models with a known price.
    pub cost: f64,
}

impl BudgetUsage {
    /// Returns whether nothing was spent.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the difference from an earlier value.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (a, b) = (&self.usage, &earlier.usage);
        Self {
            model_calls: self.model_calls.saturating_sub(earlier.model_calls),
            tool_calls: self.tool_calls.saturating_sub(earlier.tool_calls),
            usage: Usage {
                input: a.input.saturating_sub(b.input),
                output: a.output.saturating_sub(b.output),
                cache_read: a.cache_read.saturating_sub(b.cache_read),
                cache_write: a.cache_write.saturating_sub(b.cache_write),
                cache_write_hour: a.cache_write_hour.saturating_sub(b.cache_write_hour),
                reasoning: a.reasoning.saturating_sub(b.reasoning),
            },
            cost: (self.cost - earlier.cost).max(0.0),
        }
    }
}

impl std::ops::AddAssign<&Self> for BudgetUsage {
    fn add_assign(&mut self, more: &Self) {
        self.model_calls = self.model_calls.saturating_add(more.model_calls);
        self.tool_calls = self.tool_calls.saturating_add(more.tool_calls);
        self.usage += more.usage;
        self.cost += more.cost;
    }
}

/// A budget and what was spent of it, stored with a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BudgetState {
    pub(crate) budget: Budget,
    pub(crate) spent: BudgetUsage,
    /// What earlier runs of a background agent's thread had spent.
    #[serde(default, skip_serializing_if = "BudgetUsage::is_nothing")]
    pub(crate) earlier: BudgetUsage,
    /// The part of `spent` that background agents have spent, which their own logs also contain.
    #[serde(default, skip_serializing_if = "BudgetUsage::is_nothing")]
    pub(crate) background: BudgetUsage,
}

impl BudgetState {
    /// Returns what the run and the agents that share its log have spent.
    pub(crate) fn own(&self) -> BudgetUsage {
        self.spent.since(&self.background)
    }

    /// Returns what all runs of the thread have spent.
    pub(crate) fn total(&self) -> BudgetUsage {
        let mut total = self.earlier;
        total += &self.spent;
        total
    }
}
