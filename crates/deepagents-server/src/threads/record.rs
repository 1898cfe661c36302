//! Threads as clients see them.

use deepagents_core::journal::{LogPosition, RunStatus, ThreadInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::prune::PruneStrategy;
use super::removed::RemovedRange;
use super::stopped::present_state;
use crate::app::{App, METADATA_KEY};
use crate::auth::caller;
use crate::error::Result;
use crate::json::set;
use crate::render::render;
use crate::wire::{open_interrupts, values};

/// The status of a thread, in the order in which clients sort by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThreadStatus {
    Busy,
    Error,
    Idle,
    Interrupted,
}

/// The server's data about a thread, in addition to its log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ThreadRecord {
    /// The error of the last run, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Value>,
    /// The configuration of the last run.
    #[serde(default)]
    pub(crate) config: Map<String, Value>,
    /// The checkpoint at which the last run was stopped from outside with work left. Later records in the log are the
    /// results of the cancelled calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stopped_at: Option<LogPosition>,
    /// Whether a later update or rewind left the state with work to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unfinished: bool,
    /// When the state last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state_updated_at: Option<String>,
    /// Minutes to live after the last use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<f64>,
    /// What happens when the thread expires.
    #[serde(default, skip_serializing_if = "PruneStrategy::is_delete")]
    pub(crate) ttl_strategy: PruneStrategy,
    /// The log ranges of runs that were rolled back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<RemovedRange>,
}

impl ThreadRecord {
    pub(crate) fn read(info: &ThreadInfo) -> Self {
        info.metadata.get(METADATA_KEY).and_then(|own| serde_json::from_value(own.clone()).ok()).unwrap_or_default()
    }

    /// Returns the part that is kept when a run ends.
    pub(crate) fn kept_between_runs(self) -> Self {
        let Self { ttl, ttl_strategy, removed, .. } = self;
        Self { ttl, ttl_strategy, removed, ..Self::default() }
    }

    /// Returns when the state last changed, in the format of the API. If the log is empty, that is the creation of the
    /// thread.
    pub(crate) fn state_updated_at(&self, info: &ThreadInfo) -> String {
        let changed = if info.end == 0 { info.created_at } else { info.updated_at };
        self.state_updated_at.clone().unwrap_or_else(|| crate::ids::time(changed))
    }

    /// Whether the thread can be resumed although its last run has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped_at.is_some() || self.unfinished
    }

    /// Returns the status of the thread from its stored data and the runs of this process.
    pub(crate) fn status(&self, app: &App, info: &ThreadInfo) -> ThreadStatus {
        // An open thread with an owner may be in use by another process.
        if app.runs.is_busy(&info.id) || (info.status == RunStatus::Open && info.owner.is_some()) {
            ThreadStatus::Busy
        } else if self.error.is_some() {
            ThreadStatus::Error
        } else if info.status == RunStatus::Interrupted || self.is_stopped() {
            ThreadStatus::Interrupted
        } else {
            ThreadStatus::Idle
        }
    }
}

/// Stores the server's data about a thread.
pub(crate) async fn set_own(app: &App, thread: &str, held: &ThreadRecord) -> Result<()> {
    app.update_metadata(thread, Map::from_iter([(METADATA_KEY.to_owned(), json!(held))])).await
}

/// Creates a thread.
pub(crate) async fn make(app: &App, id: &str, mut metadata: Map<String, Value>, held: ThreadRecord) -> Result<()> {
    // The metadata make the thread exist before its first message.
    app.take_own(&mut metadata);
    metadata.insert(METADATA_KEY.to_owned(), json!(held));
    metadata.extend(caller().map(|caller| caller.mark()));
    Ok(app.journal.threads().set_metadata(id, metadata).await?)
}

/// Serialises a thread.
pub(crate) async fn shown(app: &App, info: &ThreadInfo, with_values: bool) -> Result<Value> {
    let held = ThreadRecord::read(info);
    let (mut state, mut interrupts) = (Value::Null, Map::new());
    if with_values && info.end > 0 {
        let loaded = present_state(app, info).await?;
        for open in open_interrupts(&info.id, &loaded) {
            interrupts.insert(open.task.clone(), json!([open.to_json()]));
        }
        state = render(loaded.messages().len(), move || Ok(Value::Object(values(&loaded)?))).await?;
    }
    let mut out = json!({
        "thread_id": info.id,
        "created_at": crate::ids::time(info.created_at),
        "updated_at": crate::ids::time(info.updated_at),
        "state_updated_at": held.state_updated_at(info),
        "metadata": app.shown_metadata(info),
        "status": held.status(app, info),
        "config": held.config,
        "values": state,
        "interrupts": interrupts,
    });
    if info.end > 0 {
        set(&mut out, "error", held.error);
    }
    Ok(out)
}
