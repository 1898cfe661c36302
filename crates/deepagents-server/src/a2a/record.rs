//! Stored records of tasks and of accepted messages.

use std::sync::Arc;

use deepagents_core::store::{Query, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::NO_TASK;
use crate::app::App;
use crate::auth::{caller, owns};
use crate::error::{ApiError, Result};
use crate::ids;
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
    owner: Option<String>,
}

fn tasks() -> [String; 2] {
    ["deepagents-server".to_owned(), "a2a-tasks".to_owned()]
}

/// Returns the namespace of the caller's messages. It is separate for each sender because two senders may use the same
/// id.
fn messages() -> [String; 3] {
    let owner = caller().map_or_else(|| "-".to_owned(), |caller| ids::derived(&[caller.id()]).to_string());
    ["deepagents-server".to_owned(), "a2a-messages".to_owned(), owner]
}

impl TaskRecord {
    pub(super) fn new(assistant: &str, thread: String) -> Self {
        let id = ids::fresh();
        let owner = caller().map(|caller| caller.id().to_owned());
        Self { runs: vec![id.clone()], id, thread, assistant: assistant.to_owned(), owner }
    }

    pub(super) async fn save(&self, app: &App) -> Result<()> {
        app.store.put(&tasks(), &self.id, json!(self)).await?;
        Ok(())
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

/// Returns an existing task.
pub(super) async fn find(app: &App, id: &str) -> Result<TaskRecord, RpcError> {
    let missing = || RpcError::new(NO_TASK, format!("there is no task {id}"));
    ids::check("task ID", id).map_err(|_| missing())?;
    let item = app.store.get(&tasks(), id).await.map_err(ApiError::from)?;
    let task = item.and_then(|item| serde_json::from_value::<TaskRecord>(item.value).ok());
    task.filter(|task| owns(task.owner.as_deref())).ok_or_else(missing)
}

/// Returns the caller's tasks, most recently stored first.
pub(super) async fn all(app: &App, query: &Query) -> Result<Vec<TaskRecord>> {
    let mut items = app.store.search(&tasks(), query).await?;
    items.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| b.key.cmp(&a.key)));
    let read = items.into_iter().filter_map(|item| serde_json::from_value::<TaskRecord>(item.value).ok());
    Ok(read.filter(|task| owns(task.owner.as_deref())).collect())
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
        let item = app.store.get(&messages(), message).await?;
        Ok(item.and_then(|item| serde_json::from_value(item.value).ok()))
    }

    pub(super) async fn save(&self, app: &App, message: &str) -> Result<(), RpcError> {
        let saved: Result<(), StoreError> = app.store.put(&messages(), message, json!(self)).await.map(drop);
        Ok(saved.map_err(ApiError::from)?)
    }
}

/// Builds the request for a run.
pub(super) fn body(assistant: &str, fields: &[(&str, Value)]) -> Result<RunCreate> {
    let mut body = Map::from_iter([
        ("assistant_id".to_owned(), json!(assistant)),
        ("stream_mode".to_owned(), json!([])),
        ("stream_subgraphs".to_owned(), json!(true)),
        ("stream_resumable".to_owned(), json!(true)),
        ("if_not_exists".to_owned(), json!("create")),
        ("multitask_strategy".to_owned(), json!("enqueue")),
    ]);
    body.extend(fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    serde_json::from_value(Value::Object(body)).map_err(|error| ApiError::invalid(error.to_string()))
}
