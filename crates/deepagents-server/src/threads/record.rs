//! A thread as clients see it.

use deepagents_core::journal::{LogPosition, RunStatus, ThreadInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::prune::PruneStrategy;
use super::removed::RemovedRange;
use super::stopped::present_state;
use crate::app::{App, OWN};
use crate::auth::caller;
use crate::error::Result;
use crate::wire::{open_interrupts, values};

/// What the server keeps of a thread beside its log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Why its last run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Value>,
    /// The configuration of its last run.
    #[serde(default)]
    pub(crate) config: Map<String, Value>,
    /// The checkpoint at which its last run was ended from outside with work left. What the log has behind it are
    /// the results of the calls that were cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stopped_at: Option<LogPosition>,
    /// Whether its state was changed since, or put back, to one with work left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unfinished: bool,
    /// When its state changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state_updated_at: Option<String>,
    /// Minutes that it lives after it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<f64>,
    /// What becomes of it then.
    #[serde(default, skip_serializing_if = "PruneStrategy::is_delete")]
    pub(crate) ttl_strategy: PruneStrategy,
    /// The parts of its log that belong to runs which were rolled back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<RemovedRange>,
}

impl Held {
    pub(crate) fn read(info: &ThreadInfo) -> Self {
        info.metadata.get(OWN).and_then(|own| serde_json::from_value(own.clone()).ok()).unwrap_or_default()
    }

    /// What of it outlasts the end of a run.
    pub(crate) fn kept_over_runs(self) -> Self {
        let Self { ttl, ttl_strategy, removed, .. } = self;
        Self { ttl, ttl_strategy, removed, ..Self::default() }
    }

    /// When the state changed last, as clients are sent it.
    pub(crate) fn state_updated_at(&self, info: &ThreadInfo) -> String {
        self.state_updated_at.clone().unwrap_or_else(|| crate::ids::time(info.updated_at))
    }

    /// Whether it can be gone on with although its last run has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped_at.is_some() || self.unfinished
    }
}

/// Keeps what the server knows of a thread.
pub(crate) async fn set_own(app: &App, thread: &str, held: &Held) -> Result<()> {
    app.set_metadata(thread, Map::from_iter([(OWN.to_owned(), json!(held))])).await
}

/// Makes a thread that there is not.
pub(crate) async fn make(app: &App, id: &str, mut metadata: Map<String, Value>, held: Held) -> Result<()> {
    // So that it is there although nothing was said in it.
    app.take_own(&mut metadata);
    metadata.insert(OWN.to_owned(), json!(held));
    metadata.extend(caller().map(|caller| caller.mark()));
    app.set_metadata(id, metadata).await
}

/// How a thread stands, in the words of the wire.
pub(crate) fn status(app: &App, info: &ThreadInfo, held: &Held) -> &'static str {
    // Another process may work on it.
    if app.runs.is_busy(&info.id) || (info.status == RunStatus::Open && info.owner.is_some()) {
        return "busy";
    }
    match info.status {
        _ if held.error.is_some() => "error",
        RunStatus::Interrupted => "interrupted",
        _ if held.is_stopped() => "interrupted",
        _ => "idle",
    }
}

/// How a thread stands, as its own record and the runs of this process say.
pub(crate) fn shown_status(app: &App, info: &ThreadInfo) -> &'static str {
    status(app, info, &Held::read(info))
}

/// The thread.
pub(crate) async fn shown(app: &App, info: &ThreadInfo, with_values: bool) -> Result<Value> {
    let held = Held::read(info);
    let (mut state, mut interrupts) = (Value::Null, Map::new());
    if with_values && info.end > 0 {
        let loaded = present_state(app, info).await?;
        state = Value::Object(values(&loaded)?);
        for open in open_interrupts(&info.id, &loaded) {
            interrupts.insert(open.task.clone(), json!([open.to_json()]));
        }
    }
    let mut out = json!({
        "thread_id": info.id,
        "created_at": crate::ids::time(info.created_at),
        "updated_at": crate::ids::time(info.updated_at),
        "state_updated_at": held.state_updated_at(info),
        "metadata": app.shown_metadata(info),
        "status": status(app, info, &held),
        "config": held.config,
        "values": state,
        "interrupts": interrupts,
    });
    if info.end > 0
        && let Some(out) = out.as_object_mut()
    {
        out.insert("error".to_owned(), held.error.unwrap_or_default());
    }
    Ok(out)
}
