//! What of the tasks reaches their conversation: each result once, together with what it changed.

use deepagents_core::agent::BackgroundTasks;
use deepagents_core::error::Result;
use deepagents_core::message::Message;
use deepagents_core::run::Context;
use deepagents_core::state::{State, Update};

use super::channel::KnownTasks;
use super::task::{TaskState, TaskStatus};
use super::tasks::Tasks;

impl Tasks {
    /// Goes on with what was left, and gives all that is new: what is said of it, what it changed, that it was
    /// delivered, and what it spent, as one change.
    pub(super) async fn news(&self, cx: &Context) -> Result<Update> {
        let (home, mut state) = (cx.background(), cx.state().clone());
        let mut tasks = self.survey(&home, &state).await?;
        self.attend(&home, &state, &mut tasks).await?;
        let mut update = Update::none();
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
            let (joined, conflicts) = state.join(&child_state.given, &child_state.left)?;
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
