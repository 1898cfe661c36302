//! What of the tasks reaches their conversation: each result once, together with what it changed.

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
    /// The tasks that calls of the last answer have started without its being known: their process has ended, or the run,
    /// before they came to a result, and they were answered without being made again.
    pub(super) async fn orphans(&self, cx: &Context) -> Result<Vec<KnownTaskChange>> {
        let messages = cx.messages();
        let answer = messages.last_assistant().and_then(|at| messages.get(at));
        let Some((id, answer)) = answer.and_then(|answer| Some((answer.id(), answer.as_assistant()?))) else {
            return Ok(Vec::new());
        };
        let known = cx.state().get::<KnownTasks>();
        let mut orphans = Vec::new();
        for call in answer.tool_calls().filter(|call| call.name == START) {
            let task = task_id(id, &call.id);
            if known.is_some_and(|known| known.iter().any(|known| known.id == task)) {
                continue;
            }
            if let Some(BackgroundTask { agent, .. }) = cx.background().get(&task).await?.filter(|task| task.end > 0) {
                orphans.push(KnownTaskChange::Start(KnownTask { id: task, agent, ..KnownTask::default() }));
            }
        }
        Ok(orphans)
    }

    /// Goes on with what was left, and gives all that is new: which tasks are there, what is said of them, what they
    /// changed, that it was delivered, and what they spent, as one change.
    pub(super) async fn news(&self, cx: &Context, adopted: Vec<KnownTaskChange>) -> Result<Update> {
        let (home, mut state, mut update) = (cx.background(), cx.state().clone(), Update::none());
        if !adopted.is_empty() {
            update = Update::new::<KnownTasks>(adopted);
            state.apply(&update)?;
        }
        let mut tasks = self.survey(&home, &state).await?;
        self.attend(&home, &state, &mut tasks).await?;
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
