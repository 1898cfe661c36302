//! A budget shared by several runs.

use std::sync::Arc;

use super::BudgetTracker;
use crate::machine::{Budget, BudgetUsage};

/// A budget for several runs together with all their sub-agents, including background agents. Each run may also have
/// its own budget. Time counts from when the shared budget is created.
///
/// ```
/// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// use deepagents_core::run::{Budget, RunInput, SharedBudget};
/// let budget = SharedBudget::new(Budget::default().tokens(500_000));
/// agent.invoke(RunInput::new("Begin.").thread("t1").within(&budget)).await?;
/// agent.invoke(RunInput::new("And now the rest.").thread("t1").within(&budget)).await?;
/// println!("{}", budget.spent().usage.total());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SharedBudget(pub(crate) Arc<BudgetTracker>);

impl SharedBudget {
    /// Creates a budget of which nothing is spent yet.
    pub fn new(budget: Budget) -> Self {
        Self(Arc::new(BudgetTracker::of_parts(None, budget)))
    }

    /// Returns what its runs have spent so far.
    pub fn spent(&self) -> BudgetUsage {
        self.0.covered()
    }
}
