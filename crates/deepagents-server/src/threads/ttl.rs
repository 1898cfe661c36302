//! Threads that expire some time after their last use.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::journal::ThreadInfo;
use deepagents_core::store::Query;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::prune::{PruneStrategy, prune_thread};
use super::record::ThreadRecord;
use crate::app::App;
use crate::deserialize::object;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::records::Records;

/// A time to live as clients send it: minutes, alone or in an object.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "`ttl` must be a number of minutes, or {\"ttl\": minutes, \"strategy\": \"delete\" or \"keep_latest\"}"
)]
pub(super) enum Ttl {
    Minutes(f64),
    Object(#[serde(deserialize_with = "object")] TtlFields),
}

/// The fields of a time to live.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct TtlFields {
    ttl: f64,
    #[serde(default)]
    strategy: PruneStrategy,
}

impl Ttl {
    /// Returns the minutes, and what happens when they are over.
    pub(super) fn read(self) -> Result<(f64, PruneStrategy)> {
        let (minutes, strategy) = match self {
            Self::Minutes(minutes) => (minutes, PruneStrategy::default()),
            Self::Object(TtlFields { ttl, strategy }) => (ttl, strategy),
        };
        match Duration::try_from_secs_f64(minutes * 60.0) {
            Ok(life) if !life.is_zero() && Timestamp::now().checked_add(life).is_ok() => Ok((minutes, strategy)),
            _ => Err(ApiError::invalid("`ttl` must be a number of minutes above 0")),
        }
    }
}

fn records(app: &App) -> Records<'_> {
    app.records(&["ttl"])
}

/// Restarts a thread's time to live, if it has one.
pub(crate) async fn touch(app: &App, thread: &str, held: &ThreadRecord) -> Result<()> {
    let Some(minutes) = held.ttl else { return Ok(()) };
    let life = Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX);
    let until = Timestamp::now().checked_add(life).unwrap_or(Timestamp::MAX);
    Ok(records(app).put(thread, &json!({"expires_at": until, "strategy": held.ttl_strategy})).await?)
}

/// Returns a thread's time to live for clients, or `None` if it never expires.
pub(super) async fn shown(app: &App, info: &ThreadInfo) -> Result<Option<Value>> {
    let held = ThreadRecord::read(info);
    let Some(minutes) = held.ttl else { return Ok(None) };
    let item = records(app).item(&info.id).await?;
    let until = item.and_then(|item| item.value.get("expires_at")?.as_str()?.parse().ok()).map(ids::time);
    Ok(Some(json!({"strategy": held.ttl_strategy, "ttl_minutes": minutes, "expires_at": until})))
}

/// Prunes expired threads that are not in use. A failure for one thread does not stop the others.
pub(crate) async fn sweep(app: &Arc<App>) -> Result<()> {
    let now = Timestamp::now();
    let mut failed = None;
    for item in records(app).search(&Query::default()).await? {
        let until = item.value.get("expires_at").and_then(Value::as_str).and_then(|at| at.parse::<Timestamp>().ok());
        // A thread whose expiry cannot be parsed is kept.
        if until.is_none_or(|until| until > now) || app.runs.is_busy(&item.key) {
            continue;
        }
        // Items of earlier versions have no strategy.
        let strategy = item.value.get("strategy").map_or(Ok(PruneStrategy::Delete), PruneStrategy::deserialize);
        let Ok(strategy) = strategy else { continue };
        if let Err(error) = expire(app, &item.key, strategy).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Prunes a thread unless it is in use.
async fn expire(app: &Arc<App>, thread: &str, strategy: PruneStrategy) -> Result<()> {
    if crate::runs::has_open(app, thread).await? {
        return Ok(());
    }
    match app.journal.threads().get(thread).await? {
        Some(info) if info.owner.is_some() => Ok(()),
        Some(info) if strategy == PruneStrategy::KeepLatest => {
            prune_thread(app, &info, strategy).await?;
            // The next use restarts its time to live.
            forget(app, thread).await
        }
        _ => super::delete(app, thread).await,
    }
}

/// Removes a thread's expiry, so that a new thread with the same id does not inherit it.
pub(super) async fn forget(app: &App, thread: &str) -> Result<()> {
    Ok(records(app).delete(thread).await?)
}
