//! The timer that starts the runs of crons.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::record::{Cron, due_at};
use crate::app::App;
use crate::auth::as_owner;
use crate::error::Result;
use crate::runs::start_once;
use crate::threads::sweep;

/// Maximum sleep. Changes made by other processes are noticed after it.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// Starts due runs for as long as the server lives.
pub(crate) async fn run(app: Weak<App>) {
    let mut swept: Option<Instant> = None;
    loop {
        let Some(app) = app.upgrade() else { return };
        let pause = tick(&app).await;
        // If the storage is unavailable, the next round retries.
        let _ = sweep(&app).await;
        if swept.is_none_or(|swept| swept.elapsed() >= MAX_SLEEP) {
            swept = Some(Instant::now());
            // Expired items are hidden but still stored until a sweep removes them.
            let _ = app.store.sweep().await;
        }
        tokio::select! {
            () = app.crons_changed.notified() => {}
            () = app.closed() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Starts the runs that are due and returns how long to sleep.
async fn tick(app: &Arc<App>) -> Duration {
    // A bound in whole seconds compares as text with due times, which are whole seconds, too.
    let until = Timestamp::now().as_second().saturating_add(MAX_SLEEP.as_secs().cast_signed());
    let until = Timestamp::from_second(until).unwrap_or(Timestamp::MAX);
    // If the storage is unavailable, retry soon.
    let Ok(crons) = due_at(app, until).await else { return Duration::from_secs(5) };
    let mut pause = MAX_SLEEP;
    for (mut cron, version) in crons {
        let Some(due) = cron.next_run_date else { continue };
        let now = Timestamp::now();
        if due > now {
            let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            pause = pause.min(wait);
            continue;
        }
        let is_read = match cron.read_payload(app).await {
            Ok(Some(_)) => true,
            // An earlier version stored the cron together with its payload.
            Ok(None) => !cron.payload.is_empty() && cron.save_payload(app, None).await.is_ok(),
            Err(_) => false,
        };
        if !is_read {
            pause = pause.min(Duration::from_secs(5));
            continue;
        }
        // The run is created before the next time is stored. After a crash between the two, the run is found and not
        // created again.
        cron.last_error = make(app, &cron, due).await.err().map(|error| error.to_string());
        if cron.plan(now).is_err() {
            cron.next_run_date = None;
        }
        // If the cron was changed or removed meanwhile, here or by another server, that change stands. The cron is
        // checked again soon.
        if !matches!(cron.save(app, Some(version)).await, Ok(true)) {
            pause = pause.min(Duration::from_secs(5));
        }
    }
    pause
}

/// Starts the run for a due time, unless it exists.
async fn make(app: &Arc<App>, cron: &Cron, due: Timestamp) -> Result<()> {
    let made = start_once(app, cron.thread_id.as_deref(), cron.run()?, cron.run_id(due));
    as_owner(cron.user_id.as_deref(), &app.limits, made).await
}
