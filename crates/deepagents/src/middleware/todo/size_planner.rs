//! Planning for large tasks only.

use deepagents_core::error::BoxError;
use deepagents_core::run::Context;

use super::Planner;
use super::list_planner::longest_list;
use crate::tokens;

/// The size of a task, judged by its form.
///
/// ```
/// use deepagents::middleware::todo::TaskSize;
/// let size = TaskSize::measure("Please:\n1. Read the log\n2. Find the error\n3. Mend it");
/// assert_eq!(size.steps, 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSize {
    /// Number of items of its longest list.
    pub steps: usize,
    /// Estimated number of tokens.
    pub tokens: u64,
}

impl TaskSize {
    /// Measures a task.
    pub fn measure(task: &str) -> Self {
        Self { steps: longest_list(task), tokens: tokens::estimate(task) }
    }
}

/// Calls another planner if a task is large enough to be worth a list: it lists several steps or is long. Smaller tasks
/// get no list.
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
    /// Plans tasks of at least three steps or three hundred tokens.
    pub fn new(planner: P) -> Self {
        Self { planner, min_steps: 3, min_tokens: 300 }
    }

    crate::shared::setters! {
        /// Sets the minimum number of listed steps.
        min_steps(steps: usize) => min_steps = steps;

        /// Sets the minimum number of tokens.
        min_tokens(tokens: u64) => min_tokens = tokens;
    }

    /// Returns `true` if a task of this size is planned.
    pub fn is_large(&self, size: TaskSize) -> bool {
        size.steps >= self.min_steps || size.tokens >= self.min_tokens
    }
}

impl<P: Planner> Planner for SizePlanner<P> {
    async fn plan(&self, task: &str, cx: &Context) -> Result<Vec<String>, BoxError> {
        if self.is_large(TaskSize::measure(task)) { self.planner.plan(task, cx).await } else { Ok(Vec::new()) }
    }
}
