//! Threads that live for a time after they were last used.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::store::Query;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::{ApiError, Result};

/// How long a thread lives, as clients say it: minutes, alone or in an object.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Ttl {
    Minutes(f64),
    Object {
        ttl: f64,
        #[serde(default)]
        #[allow(dead_code, reason = "there is one, and others are refused")]
        strategy: Strategy,
    },
}

/// What becomes of a thread whose time is over.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Strategy {
    #[default]
    Delete,
}

impl Ttl {
    /// Minutes.
    pub(super) fn read(self) -> Result<f64> {
        let (Self::Minutes(minutes) | Self::Object { ttl: minutes, .. }) = self;
        match Duration::try_from_secs_f64(minutes * 60.0) {
            Ok(life) if !life.is_zero() && Timestamp::now().checked_add(life).is_ok() => Ok(minutes),
            _ => Err(ApiError::invalid("`ttl` is a number of minutes, more than none")),
        }
    }
}

fn namespace() -> [String; 2] {
    ["deepagents-server".to_owned(), "ttl".to_owned()]
}

/// Lets a thread live so long from now on.
pub(crate) async fn touch(app: &App, thread: &str, minutes: f64) -> Result<()> {
    let life = Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX);
    let until = Timestamp::now().checked_add(life).unwrap_or(Timestamp::MAX);
    app.store.put(&namespace(), thread, json!({"expires_at": until})).await?;
    Ok(())
}

/// Removes the threads whose time is over and that nobody works on. One that cannot be removed stands in no other's way.
pub(crate) async fn sweep(app: &Arc<App>) -> Result<()> {
    let now = Timestamp::now();
    let mut failed = None;
    for item in app.store.search(&namespace(), &Query::default()).await? {
        let until = item.value.get("expires_at").and_then(Value::as_str).and_then(|at| at.parse::<Timestamp>().ok());
        // A time that cannot be read is no reason to remove anything.
        if until.is_none_or(|until| until > now) || app.runs.is_busy(&item.key) {
            continue;
        }
        if let Err(error) = remove(app, &item.key).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Removes one unless somebody works on it.
async fn remove(app: &Arc<App>, thread: &str) -> Result<()> {
    if app.journal.threads().get(thread).await?.is_some_and(|info| info.owner.is_some()) {
        return Ok(());
    }
    super::delete(app, thread).await
}

/// A thread made anew under the name of one that is gone lives as long as is said then.
pub(super) async fn forget(app: &App, thread: &str) -> Result<()> {
    app.store.delete(&namespace(), thread).await?;
    Ok(())
}
