//! What works in the background when a run has ended.

use deepagents::core::agent::BackgroundTask;
use deepagents::middleware::background::{KnownTask, KnownTasks};
use deepagents::{DeepAgent, Message, Outcome, RunInput};
use futures_util::future::{join_all, select_all};

use super::Limits;
use super::interrupt::PATIENCE;
use crate::output;
use crate::render::style::count;

/// What the model is told when a task has ended that was waited for.
const ENDED: &str =
    "This is a message of the system, not of the user: go on with what has come of the background tasks.";

/// The tasks that a thread knows of, and what it knows of each.
async fn known(agent: &DeepAgent, thread: &str) -> Vec<(KnownTask, BackgroundTask)> {
    // Most threads have none, which is known without reading them. One that cannot be read was told of by the run itself.
    let Ok(tasks) = agent.background(thread).await else { return Vec::new() };
    if tasks.is_empty() {
        return Vec::new();
    }
    let Ok(state) = agent.state(thread).await else { return Vec::new() };
    let Some(known) = state.get::<KnownTasks>() else { return Vec::new() };
    let known = |task: BackgroundTask| Some((known.iter().find(|known| known.id == task.id)?.clone(), task));
    tasks.into_iter().filter_map(known).collect()
}

/// Waits for one of the tasks that somebody works on, and gives the run that goes on with it; nothing if there is none.
pub(super) async fn next(agent: &DeepAgent, outcome: &Outcome) -> Option<RunInput> {
    let thread = outcome.thread.as_ref()?;
    let tasks = known(agent, thread).await;
    if !tasks.iter().any(|(known, task)| !task.status.is_claimable() && !known.is_told(task)) {
        // What nobody works on the run that has just ended would have gone on with if that were possible.
        let at_work = tasks.iter().filter(|(_, task)| task.status.is_claimable() && !task.is_abandoned());
        let ends: Vec<_> = at_work.map(|(_, task)| Box::pin(task.outcome())).collect();
        if ends.is_empty() {
            return None;
        }
        // One whose process is gone, as its lease says in the end, is gone on with by the next run.
        let _ = select_all(ends).await;
    }
    after(outcome)
}

/// The run that goes on with what has come of the tasks.
pub(super) fn after(outcome: &Outcome) -> Option<RunInput> {
    Some(RunInput::new(Message::harness(ENDED)).thread(outcome.thread.as_ref()?))
}

/// Whether any of the tasks has not ended.
pub(super) async fn are_left(agent: &DeepAgent, outcome: &Outcome) -> bool {
    let Some(thread) = &outcome.thread else { return false };
    known(agent, thread).await.iter().any(|(_, task)| task.status.is_claimable())
}

/// Leaves the tasks that still work where anybody can go on with them, and says which.
pub(super) async fn leave(agent: &DeepAgent, limits: &Limits) {
    let Some(thread) = &limits.thread else { return };
    let mut tasks: Vec<_> = known(agent, thread).await.into_iter().map(|(_, task)| task).collect();
    tasks.retain(|task| task.status.is_claimable());
    if tasks.is_empty() {
        return;
    }
    let handles: Vec<_> = tasks.iter().filter_map(BackgroundTask::handle).collect();
    join_all(handles.iter().map(|handle| handle.suspend_within(PATIENCE))).await;
    let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    let (left, ids) = (count(ids.len() as u64, "background task"), ids.join(", "));
    let command = limits.again.command(&format!("deepagents run --resume {thread}"));
    output::remark(&format!("{left} not done ({ids}); go on with `{command}`"));
}
