//! Delivery of task results to the conversation: each result once, together with its state changes.

use deepagents_core::agent::{BackgroundTask, BackgroundTasks};
use deepagents_core::error::Result;
use deepagents_core::message::Message;
use deepagents_core::run::Context;
use deepagents_core::state::{State, Update};

use super::START;
use super::channel::{KnownTask, KnownTaskChange, KnownTasks};
use super::task::{TaskState, TaskStatus};
use super::tasks::{Tasks, task_id};

impl Tasks {
    /// Resumes abandoned tasks and returns everything new as one update: newly found tasks, messages about tasks, their
    /// state changes, the record of their delivery, and their usage.
    pub(super) async fn news(&self, cx: &Context, adopted: Vec<KnownTaskChange>) -> Result<Update> {
        let (home, mut state, mut update) = (cx.background(), cx.state().clone(), Update::none());
        if !adopted.is_empty() {
            update = Update::new::<KnownTasks>(adopted);
            state.apply(&update)?;
        }
        let mut tasks = self.survey(&home, &state).await?;
        self.resume_abandoned(&home, &state, &mut tasks).await?;
        for task in tasks.iter_mut().filter(|task| task.is_news()) {
            let news = self.deliver(&home, &state, task).await?;
            state.apply(&news)?;
            update = update.and(news);
        }
        let mut ended: Vec<TaskState> = tasks.into_iter().filter(|task| task.status != TaskStatus::Running).collect();
        let counted = self.count(&home, &state, &mut ended).await?;
        Ok(if counted.is_empty() { update } else { update.with::<KnownTasks>(counted) })
    }

    async fn deliver(&self, home: &BackgroundTasks, state: &State, task: &mut TaskState) -> Result<Update> {
        self.read(state, task).await?;
        let (child_state, changed, note) = self.changes(state, task).await?;
        let mut text = task.news();
        if !note.is_empty() {
            text.extend(["\n", note]);
        }
        let mut update = Update::none();
        if let Some(child_state) = &child_state {
            let (joined, conflicts) = state.join(child_state)?;
            update = joined;
            text.extend(conflicts.iter().map(|conflict| format!("\n[not kept: {conflict}]")));
        }
        self.note_told(&home.thread(&task.known.id), task.status.is_ended());
        let delivered = task.delivered(child_state.is_some());
        Ok(update
            .and(changed)
            .and(Update::new::<KnownTasks>(vec![delivered]))
            .and(Update::message(Message::harness(text))))
    }
}

/// Finds tasks that calls of the answers from a position on have started without the conversation recording it: their
/// process or run ended before the calls returned, and they were answered without being repeated.
pub(super) async fn orphans_since(cx: &Context, since: usize) -> Result<Vec<KnownTaskChange>> {
    let known = cx.state().get::<KnownTasks>().map(Vec::as_slice).unwrap_or_default();
    let messages = cx.messages();
    let mut begun: Vec<String> = Vec::new();
    for message in messages.tail(since) {
        let Some(answer) = message.as_assistant() else { continue };
        let starts = answer.tool_calls().filter(|call| call.name == START);
        begun.extend(starts.map(|call| task_id(message.id(), &call.id)));
    }
    begun.retain(|task| known.iter().all(|known| known.id != *task));
    if begun.is_empty() {
        return Ok(Vec::new());
    }
    let tasks = cx.background().list().await?;
    let orphans = tasks.into_iter().filter(|task| task.end > 0 && begun.contains(&task.id));
    let start = |BackgroundTask { id, agent, .. }| KnownTask { id, agent, ..KnownTask::default() };
    Ok(orphans.map(|task| KnownTaskChange::Start(start(task))).collect())
}
