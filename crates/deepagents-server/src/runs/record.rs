//! Stored records of runs.

use deepagents::FinishReason;
use deepagents_core::journal::LogPosition;
use deepagents_core::store::{Query, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::create::{RunCreate, Strategy};
use super::open;
use crate::app::App;
use crate::auth::Limits;
use crate::error::{ApiError, Result};

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Pending,
    Running,
    Success,
    Error,
    Interrupted,
    Timeout,
}

impl Status {
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// A run as clients see it. `kwargs` holds the request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct RunRecord {
    pub(crate) run_id: String,
    pub(crate) thread_id: String,
    pub(crate) assistant_id: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) status: Status,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) kwargs: RunCreate,
    pub(crate) multitask_strategy: Strategy,
    /// The agent.
    pub(crate) graph_id: String,
    /// Whether its thread was created for it alone.
    #[serde(default)]
    pub(crate) stateless: bool,
    /// When a process first started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    /// The log position at which it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<LogPosition>,
    /// The log position at which it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<LogPosition>,
    /// How it finished, if it was not ended from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<FinishReason>,
    /// The owner, if callers are authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The owner's limits at the time of the request.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Value>,
}

pub(super) fn namespace(thread: &str) -> [String; 3] {
    ["deepagents-server".to_owned(), "runs".to_owned(), thread.to_owned()]
}

impl RunRecord {
    /// Returns the run's own part of the log, once it has ended.
    pub(crate) fn span(&self) -> Option<(LogPosition, LogPosition)> {
        Some((self.from?, self.until?))
    }

    pub(crate) async fn save(&self, app: &App) -> Result<()> {
        app.store.put(&namespace(&self.thread_id), &self.run_id, json!(self)).await?;
        Ok(())
    }

    /// Stores a new record. Fails with a conflict if the record exists.
    pub(crate) async fn save_new(&self, app: &App) -> Result<()> {
        app.store.put_if(&namespace(&self.thread_id), &self.run_id, json!(self), None).await?;
        Ok(())
    }

    /// Replaces the stored record if it is still at the given version. Returns `false` on a conflict.
    pub(crate) async fn save_over(&self, app: &App, version: u64) -> Result<bool> {
        let saved = app.store.put_if(&namespace(&self.thread_id), &self.run_id, json!(self), Some(version)).await;
        match saved {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn delete(&self, app: &App) -> Result<()> {
        app.store.delete(&namespace(&self.thread_id), &self.run_id).await?;
        open::remove(app, &self.thread_id, &self.run_id).await;
        Ok(())
    }

    /// Serialises the run for clients.
    pub(crate) fn shown(&self) -> Value {
        let mut kwargs = json!(self.kwargs);
        let mut metadata = self.metadata.clone();
        metadata.insert("graph_id".to_owned(), json!(self.graph_id));
        metadata.insert("assistant_id".to_owned(), json!(self.assistant_id));
        if let Some(kwargs) = kwargs.as_object_mut() {
            for key in ["assistant_id", "metadata", "multitask_strategy", "if_not_exists", "on_completion"] {
                kwargs.remove(key);
            }
            let config = kwargs.entry("config").or_insert_with(|| json!({}));
            if !config.is_object() {
                *config = json!({});
            }
            if let Some(config) = config.as_object_mut() {
                let configurable = config.entry("configurable").or_insert_with(|| json!({}));
                if let Some(configurable) = configurable.as_object_mut() {
                    configurable.insert("thread_id".to_owned(), json!(self.thread_id));
                    configurable.insert("run_id".to_owned(), json!(self.run_id));
                    configurable.insert("graph_id".to_owned(), json!(self.graph_id));
                    configurable.insert("assistant_id".to_owned(), json!(self.assistant_id));
                }
            }
        }
        json!({
            "run_id": self.run_id, "thread_id": self.thread_id, "assistant_id": self.assistant_id,
            "created_at": self.created_at, "updated_at": self.updated_at, "status": self.status,
            "metadata": metadata, "kwargs": kwargs, "multitask_strategy": self.multitask_strategy, "error": self.error,
        })
    }
}

/// Returns the runs of a thread, newest first.
pub(crate) async fn of_thread(app: &App, thread: &str) -> Result<Vec<RunRecord>> {
    let found = app.store.search(&namespace(thread), &Query::default()).await?;
    let mut found: Vec<RunRecord> =
        found.into_iter().filter_map(|item| serde_json::from_value(item.value).ok()).collect();
    found.sort_by(|a, b| b.run_id.cmp(&a.run_id));
    Ok(found)
}

/// Returns an existing run.
pub(crate) async fn find(app: &App, thread: &str, run: &str) -> Result<RunRecord> {
    Ok(find_version(app, thread, run).await?.0)
}

/// Returns an existing run with the version of the stored item.
pub(super) async fn find_version(app: &App, thread: &str, run: &str) -> Result<(RunRecord, u64)> {
    crate::ids::check("run ID", run)?;
    let item = app.store.get(&namespace(thread), run).await?.ok_or_else(|| ApiError::not_found("Run", run))?;
    let damaged = |error| ApiError::bad_request(format!("run {run} is damaged: {error}"));
    Ok((serde_json::from_value(item.value).map_err(damaged)?, item.version))
}
