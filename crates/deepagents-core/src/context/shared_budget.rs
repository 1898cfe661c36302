//! A budget of several runs.

use std::sync::Arc;

use super::BudgetTracker;
use crate::machine::{Budget, BudgetUsage};

/// What several runs may spend together, with all agents below them, those in the background included; each may have a
/// budget of its own beside it. Time counts from when it is made.
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
    /// A budget of which nothing is spent yet.
    pub fn new(budget: Budget) -> Self {
        Self(Arc::new(BudgetTracker::new(None, budget, &Budget::default())))
    }

    /// What its runs have spent so far.
    pub fn spent(&self) -> BudgetUsage {
        self.0.covered()
    }
}
