//! Planning for large tasks alone.

use deepagents_core::error::BoxError;
use deepagents_core::run::Context;

use super::Planner;
use super::list_planner::longest_list;
use crate::tokens;

/// How large a task is, by its form alone.
///
/// ```
/// use deepagents::middleware::todo::TaskSize;
/// let size = TaskSize::measure("Please:\n1. Read the log\n2. Find the error\n3. Mend it");
/// assert_eq!(size.steps, 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSize {
    /// Items of the longest list in it.
    pub steps: usize,
    /// About how many tokens it has.
    pub tokens: u64,
}

impl TaskSize {
    /// The size of a task.
    pub fn measure(task: &str) -> Self {
        Self { steps: longest_list(task), tokens: tokens::estimate(task) }
    }
}

/// Asks another planner where a task is large enough to be worth a list: it spells out several steps, or is long. What is
/// smaller is done without.
///
/// ```
/// use deepagents::middleware::todo::{ListPlanner, SizePlanner};
/// let planner = SizePlanner::new(ListPlanner).min_steps(4).min_tokens(1_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SizePlanner<P> {
    planner: P,
    min_steps: usize,
    min_tokens: u64,
}

impl<P: Planner> SizePlanner<P> {
    /// For tasks of three steps or three hundred tokens.
    pub fn new(planner: P) -> Self {
        Self { planner, min_steps: 3, min_tokens: 300 }
    }

    crate::shared::setters! {
        /// For tasks that spell out so many steps.
        min_steps(steps: usize) => min_steps = steps;

        /// For tasks of so many tokens.
        min_tokens(tokens: u64) => min_tokens = tokens;
    }

    /// Whether a task is planned for.
    pub fn is_large(&self, size: TaskSize) -> bool {
        size.steps >= self.min_steps || size.tokens >= self.min_tokens
    }
}

impl<P: Planner> Planner for SizePlanner<P> {
    async fn plan(&self, task: &str, cx: &Context) -> Result<Vec<String>, BoxError> {
        if self.is_large(TaskSize::measure(task)) { self.planner.plan(task, cx).await } else { Ok(Vec::new()) }
    }
}
