//! Stored records of runs.

use deepagents::FinishReason;
use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::LogPosition;
use deepagents_core::state::State;
use deepagents_core::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::config::is_of_place;
use super::create::RunCreate;
use super::open;
use super::run_options::Strategy;
use crate::app::App;
use crate::auth::Limits;
use crate::error::{ApiError, Result};
use crate::json::{extend, remove, set};
use crate::records::Records;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    /// The log position at which it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<LogPosition>,
    /// The log position at which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<LogPosition>,
    /// How it finished, if it was not ended from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<FinishReason>,
    /// The owner, if callers are authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The owner's limits at the time of the request.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Value>,
}

/// Returns the records of a thread's runs.
pub(super) fn records<'a>(app: &'a App, thread: &str) -> Records<'a> {
    app.records(&["runs", thread])
}

impl RunRecord {
    /// Whether its result is not stored yet.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.status.is_open() || self.is_closed_early()
    }

    /// Whether it was cancelled before it began and its result is not stored yet.
    pub(super) fn is_closed_early(&self) -> bool {
        self.status == Status::Interrupted && self.until.is_none()
    }

    /// Returns the run's own part of the log, once it has ended.
    pub(crate) fn span(&self) -> Option<(LogPosition, LogPosition)> {
        Some((self.from?, self.until?))
    }

    pub(crate) async fn save(&self, app: &App) -> Result<()> {
        Ok(records(app, &self.thread_id).put(&self.run_id, self).await?)
    }

    /// Replaces the stored record if it is still at the version `known`, which is `None` for a new one. Returns `false`
    /// on a conflict.
    pub(crate) async fn save_over(&self, app: &App, known: Option<u64>) -> Result<bool, StoreError> {
        Ok(records(app, &self.thread_id).replace(&self.run_id, self, known).await?.is_some())
    }

    pub(crate) async fn delete(&self, app: &App) -> Result<()> {
        records(app, &self.thread_id).delete(&self.run_id).await?;
        open::remove(app, &self.thread_id, &self.run_id).await;
        Ok(())
    }

    /// Returns the state in which the run ended, or that of its thread while it is open.
    pub(crate) async fn last_state(&self, threads: &ThreadAccess) -> Result<State> {
        Ok(match self.until {
            Some(until) => threads.state_at(&self.thread_id, until).await?,
            None => threads.state(&self.thread_id).await?,
        })
    }

    /// Returns the metadata of what the run produces: its own, and its plain configurable values except keys of an API.
    pub(crate) fn shown_metadata(&self) -> Map<String, Value> {
        let configured = self.kwargs.config.as_ref().and_then(|config| config.get("configurable"));
        let configured = configured.and_then(Value::as_object).cloned().unwrap_or_default();
        let plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
        let shown = |(key, value): &(String, Value)| plain(value) && key != "api_key" && !is_of_place(key);
        configured.into_iter().filter(shown).chain(self.metadata.clone()).collect()
    }

    /// Returns the tags that the client gave the run.
    pub(crate) fn tags(&self) -> Value {
        let tags = self.kwargs.config.as_ref().and_then(|config| config.get("tags"));
        tags.filter(|tags| tags.is_array()).cloned().unwrap_or_else(|| json!([]))
    }

    /// Serialises the run for clients.
    pub(crate) fn shown(&self) -> Value {
        let of_agent = json!({"graph_id": self.graph_id, "assistant_id": self.assistant_id});
        let mut metadata = Value::Object(self.metadata.clone());
        extend(&mut metadata, of_agent.clone());
        let mut config = Value::Object(self.kwargs.config.clone().unwrap_or_default());
        if config.get("configurable").is_none() {
            set(&mut config, "configurable", json!({}));
        }
        if let Some(configurable) = config.get_mut("configurable") {
            extend(configurable, json!({"thread_id": self.thread_id, "run_id": self.run_id}));
            extend(configurable, of_agent);
        }
        let mut kwargs = json!(self.kwargs);
        set(&mut kwargs, "config", config);
        for key in ["assistant_id", "metadata", "multitask_strategy", "if_not_exists", "on_completion"] {
            remove(&mut kwargs, key);
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
    let mut found: Vec<RunRecord> = records(app, thread).all().await?;
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
    records(app, thread).get("run", run).await?.ok_or_else(|| ApiError::not_found("Run", run))
}
