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
    Object { ttl: f64 },
}

impl Ttl {
    /// Minutes.
    pub(super) fn read(self) -> Result<f64> {
        let (Self::Minutes(minutes) | Self::Object { ttl: minutes }) = self;
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

/// Removes the threads whose time is over and that nobody works on.
pub(crate) async fn sweep(app: &Arc<App>) -> Result<()> {
    let now = Timestamp::now();
    for item in app.store.search(&namespace(), &Query::default()).await? {
        let until = item.value.get("expires_at").and_then(Value::as_str).and_then(|at| at.parse::<Timestamp>().ok());
        if until.is_some_and(|until| until > now) || app.runs.is_busy(&item.key) {
            continue;
        }
        // Another process may work on it.
        if app.journal.threads().get(&item.key).await?.is_some_and(|info| info.owner.is_some()) {
            continue;
        }
        crate::runs::forget_thread(app, &item.key).await?;
        app.journal.threads().delete(&item.key).await?;
        app.store.delete(&namespace(), &item.key).await?;
    }
    Ok(())
}
