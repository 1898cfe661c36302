//! Background tasks that are still working when a run ends.

use deepagents::core::agent::BackgroundTask;
use deepagents::middleware::background::{KnownTask, KnownTasks};
use deepagents::{DeepAgent, Message, Outcome, RunInput};
use futures_util::future::{join_all, select_all};

use super::RunContext;
use super::interrupt::STOP_TIMEOUT;
use crate::output;
use crate::render::style::count;

/// The message for the model when a task that was waited for has ended.
const ENDED: &str =
    "This is a message of the system, not of the user: go on with what has come of the background tasks.";

/// Returns the tasks that a thread knows, with what it knows about each.
async fn known(agent: &DeepAgent, thread: &str) -> Vec<(KnownTask, BackgroundTask)> {
    // Most threads have no tasks, which is known without loading their state. If a thread cannot be read, the run
    // itself has reported it.
    let Ok(tasks) = agent.background(thread).await else { return Vec::new() };
    if tasks.is_empty() {
        return Vec::new();
    }
    let Ok(state) = agent.state(thread).await else { return Vec::new() };
    let Some(known) = state.get::<KnownTasks>() else { return Vec::new() };
    let known = |task: BackgroundTask| Some((known.iter().find(|known| known.id == task.id)?.clone(), task));
    tasks.into_iter().filter_map(known).collect()
}

/// Waits for a task in progress to end, and returns the run that continues with its result; `None` if there is no such
/// task.
pub(super) async fn next(agent: &DeepAgent, outcome: &Outcome) -> Option<RunInput> {
    let thread = outcome.thread.as_ref()?;
    let tasks = known(agent, thread).await;
    if !tasks.iter().any(|(known, task)| !task.status.is_claimable() && !known.is_told(task)) {
        // Ignore abandoned tasks: the run that just ended would have resumed them if it could.
        let at_work = tasks.iter().filter(|(_, task)| task.status.is_claimable() && !task.is_abandoned());
        let ends: Vec<_> = at_work.map(|(_, task)| Box::pin(task.outcome())).collect();
        if ends.is_empty() {
            return None;
        }
        // If a task's process dies, its lease expires, and the next run resumes the task.
        let _ = select_all(ends).await;
    }
    after(outcome)
}

/// Returns the run that continues with the results of the tasks.
pub(super) fn after(outcome: &Outcome) -> Option<RunInput> {
    Some(RunInput::new(Message::harness(ENDED)).thread(outcome.thread.as_ref()?))
}

/// Whether any task has not ended.
pub(super) async fn any_unfinished(agent: &DeepAgent, outcome: &Outcome) -> bool {
    let Some(thread) = &outcome.thread else { return false };
    known(agent, thread).await.iter().any(|(_, task)| task.status.is_claimable())
}

/// Suspends the tasks still in progress, so that anybody can resume them, and lists them.
pub(super) async fn suspend_tasks(agent: &DeepAgent, limits: &RunContext) {
    let Some(thread) = &limits.thread else { return };
    let mut tasks: Vec<_> = known(agent, thread).await.into_iter().map(|(_, task)| task).collect();
    tasks.retain(|task| task.status.is_claimable());
    if tasks.is_empty() {
        return;
    }
    let handles: Vec<_> = tasks.iter().filter_map(BackgroundTask::handle).collect();
    join_all(handles.iter().map(|handle| handle.suspend_within(STOP_TIMEOUT))).await;
    let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    let (left, ids) = (count(ids.len() as u64, "background task"), ids.join(", "));
    let command = limits.again.command(&format!("deepagents run --resume {thread}"));
    output::remark(&format!("{left} not finished ({ids}); go on with `{command}`"));
}
