//! Making the runs of crons when their times come.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::record::{Cron, all};
use crate::app::App;
use crate::auth::as_owner;
use crate::error::Result;
use crate::runs::{RunCreate, start_once};
use crate::threads::sweep;

/// The longest sleep: what another process changes is seen after it.
const LONGEST: Duration = Duration::from_secs(60);

/// Wakes up who waits for the next time.
#[derive(Debug, Default)]
pub(crate) struct Timer(Notify);

impl Timer {
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }
}

/// Makes runs for as long as the server is there.
pub(crate) async fn run(app: Weak<App>) {
    loop {
        let Some(app) = app.upgrade() else { return };
        let pause = tick(&app).await;
        // Where the storage is away it is swept a little later.
        let _ = sweep(&app).await;
        tokio::select! {
            () = app.timer.0.notified() => {}
            () = app.closed() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Makes what is due, and says for how long nothing is.
async fn tick(app: &Arc<App>) -> Duration {
    // Where the storage is away it is tried again a little later.
    let Ok(crons) = all(app).await else { return Duration::from_secs(5) };
    let mut pause = LONGEST;
    for mut cron in crons {
        let Some(due) = cron.next_run_date else { continue };
        let now = Timestamp::now();
        if due > now {
            let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            pause = pause.min(wait);
            continue;
        }
        // The run is made before the next time is noted: after a crash between the two it is found and not made again.
        cron.last_error = make(app, &cron, due).await.err().map(|error| error.to_string());
        if cron.plan(now).is_err() {
            cron.next_run_date = None;
        }
        if cron.save(app).await.is_err() {
            pause = pause.min(Duration::from_secs(5));
        }
    }
    pause
}

/// Makes the run of a time, unless it was made.
async fn make(app: &Arc<App>, cron: &Cron, due: Timestamp) -> Result<()> {
    let mut body = cron.payload.clone();
    body.insert("assistant_id".to_owned(), json!(cron.assistant_id));
    let mut metadata = body.get("metadata").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    metadata.insert("cron_id".to_owned(), json!(cron.cron_id));
    body.insert("metadata".to_owned(), Value::Object(metadata));
    if let Some(after) = &cron.on_run_completed {
        body.insert("on_completion".to_owned(), json!(after));
    }
    let body: RunCreate = serde_json::from_value(Value::Object(body))
        .map_err(|error| crate::error::ApiError::invalid(error.to_string()))?;
    let made = start_once(app, cron.thread_id.as_deref(), body, cron.run_id(due));
    as_owner(cron.user_id.as_deref(), &app.limits, made).await
}
