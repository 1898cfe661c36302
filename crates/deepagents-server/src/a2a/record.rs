//! Stored records of tasks and of accepted messages.

use std::sync::Arc;

use deepagents_core::store::Query;
use serde::{Deserialize, Serialize};

use super::NO_TASK;
use crate::app::App;
use crate::auth::{caller, caller_id, owns};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::records::{Records, read};
use crate::rpc::RpcError;
use crate::runs::{self, LiveRun, RunCreate};

/// A task: the run that started it and the runs that answered its interrupts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TaskRecord {
    /// The id of the first run.
    pub(super) id: String,
    pub(super) thread: String,
    pub(super) assistant: String,
    /// In order.
    pub(super) runs: Vec<String>,
    pub(super) owner: Option<String>,
    /// Whether it was cancelled while it waited for an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) cancelled: bool,
}

fn tasks(app: &App) -> Records<'_> {
    app.records(&["a2a-tasks"])
}

/// Returns the records of the caller's messages. They are separate for each sender because two senders may use the same
/// id.
fn messages(app: &App) -> Records<'_> {
    let owner = caller().map_or_else(|| "-".to_owned(), |caller| ids::derived(&[caller.id()]).to_string());
    app.records(&["a2a-messages", &owner])
}

impl TaskRecord {
    pub(super) fn new(assistant: &str, thread: String) -> Self {
        let id = ids::fresh();
        let (runs, owner) = (vec![id.clone()], caller_id());
        Self { runs, id, thread, assistant: assistant.to_owned(), owner, cancelled: false }
    }

    /// Stores the task with a run, and returns it as it is stored: another message may have added a run before.
    pub(super) async fn save_with(self, app: &App, run: &str) -> Result<Self> {
        loop {
            let (mut task, version) = match tasks(app).get::<Self>("task", &self.id).await? {
                Some((stored, _)) if stored.runs.iter().any(|known| known == run) => return Ok(stored),
                Some((stored, version)) => (Self { cancelled: self.cancelled, ..stored }, Some(version)),
                None => (self.clone(), None),
            };
            if version.is_some() {
                task.runs.push(run.to_owned());
            }
            if tasks(app).replace(&task.id, &task, version).await?.is_some() {
                return Ok(task);
            }
        }
    }

    /// Returns the last run if it is pending or running.
    pub(super) async fn live(&self, app: &Arc<App>) -> Result<Option<Arc<LiveRun>>> {
        let Some(run) = self.runs.last() else { return Ok(None) };
        let live = match app.runs.get(run) {
            Some(live) => Some(live),
            None => match runs::find(app, &self.thread, run).await {
                Ok(record) => runs::live(app, &record).await?,
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error),
            },
        };
        Ok(live.filter(|run| run.record().status.is_open()))
    }

    /// Waits until the last run has ended.
    pub(super) async fn ended(&self, app: &Arc<App>) -> Result<()> {
        if let Some(run) = self.live(app).await? {
            run.ended().await;
        }
        Ok(())
    }

    /// Returns the records of the runs that can be found.
    pub(super) async fn records(&self, app: &App) -> Result<Vec<runs::RunRecord>> {
        let mut out = Vec::new();
        for run in &self.runs {
            match app.runs.get(run) {
                Some(live) => out.push(live.record()),
                None => out.extend(runs::find(app, &self.thread, run).await.ok()),
            }
        }
        Ok(out)
    }
}

/// The names under which an assistant can be addressed. Its tasks have the one under which they were sent.
pub(super) struct Named(Vec<String>);

impl Named {
    /// Returns the names of an existing assistant.
    pub(super) async fn find(app: &App, name: &str) -> Result<Self> {
        let assistant = runs::assistant_of(app, name).await?;
        let is_agent = assistant.assistant_id == ids::system_assistant(&assistant.graph_id);
        let graph = is_agent.then(|| assistant.graph_id.clone());
        Ok(Self(graph.into_iter().chain([assistant.assistant_id]).collect()))
    }

    pub(super) fn has(&self, task: &TaskRecord) -> bool {
        self.0.contains(&task.assistant)
    }
}

/// Returns an existing task of an assistant.
pub(super) async fn find(app: &App, assistant: &Named, id: &str) -> Result<TaskRecord, RpcError> {
    let missing = || RpcError::new(NO_TASK, format!("there is no task {id}"));
    ids::check("task ID", id).map_err(|_| missing())?;
    let task: Option<TaskRecord> = tasks(app).item(id).await.map_err(ApiError::from)?.and_then(read);
    task.filter(|task| owns(task.owner.as_deref()) && assistant.has(task)).ok_or_else(missing)
}

/// Returns the caller's tasks of an assistant, most recently stored first.
pub(super) async fn all(app: &App, assistant: &Named, query: &Query) -> Result<Vec<TaskRecord>> {
    let mut items = tasks(app).search(query).await?;
    items.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| b.key.cmp(&a.key)));
    let tasks = items.into_iter().filter_map(read::<TaskRecord>);
    Ok(tasks.filter(|task| owns(task.owner.as_deref()) && assistant.has(task)).collect())
}

/// An accepted message and the run it starts.
#[derive(Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) task: TaskRecord,
    pub(super) run: String,
    pub(super) body: RunCreate,
}

impl Taken {
    pub(super) async fn find(app: &App, message: &str) -> Result<Option<Self>> {
        Ok(messages(app).get("message", message).await?.map(|(taken, _)| taken))
    }

    /// Stores a new message. Returns `false` if it was accepted meanwhile, and then stores nothing.
    pub(super) async fn save_new(&self, app: &App, message: &str) -> Result<bool> {
        Ok(messages(app).replace(message, self, None).await?.is_some())
    }
}

/// Creates the request for a run, without its input or command.
pub(super) fn request(assistant: &str) -> RunCreate {
    let mut request = RunCreate::new(assistant);
    (request.stream_subgraphs, request.stream_resumable) = (true, true);
    request
}
