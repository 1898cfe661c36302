//! The budget of a sub-agent in serializable form.

use std::time::Duration;

use deepagents_core::run::{Budget, LimitExit};
use serde::{Deserialize, Serialize};

/// The budget of a sub-agent and its descendants, in addition to the budget shared with the agents above. Unset fields
/// impose no further limit.
///
/// ```
/// use deepagents::subagents::BudgetSpec;
/// let budget: BudgetSpec = serde_json::from_value(serde_json::json!({"seconds": 90, "tool_calls": 20}))?;
/// assert_eq!((budget.seconds, budget.tool_calls, budget.tokens), (Some(90.0), Some(20), None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BudgetSpec {
    /// Time in seconds that its work may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Number of model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Total number of input and output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Number of input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Number of output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Cost of its model calls, in the currency of the models' prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What happens at its limits: `end` or `answer`. Unset means what happens at those of the agent above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<LimitExit>,
}

impl BudgetSpec {
    /// Returns the time that its work may take.
    pub(super) fn time(&self) -> Result<Option<Duration>, String> {
        let time = |seconds| {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| format!("`seconds` of its budget is not a valid duration: {seconds}"))
        };
        self.seconds.map(time).transpose()
    }

    pub(crate) fn budget(&self) -> Result<Budget, String> {
        let mut budget = self.time()?.into_iter().fold(Budget::default(), Budget::time);
        budget = self.model_calls.into_iter().fold(budget, Budget::model_calls);
        budget = self.tool_calls.into_iter().fold(budget, Budget::tool_calls);
        budget = self.tokens.into_iter().fold(budget, Budget::tokens);
        budget = self.input_tokens.into_iter().fold(budget, Budget::input_tokens);
        budget = self.output_tokens.into_iter().fold(budget, Budget::output_tokens);
        budget = self.cost.into_iter().fold(budget, Budget::cost);
        Ok(self.at_limit.into_iter().fold(budget, Budget::at_limit))
    }
}
