//! Making the runs of crons when their times come.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::record::{Cron, all_versions};
use crate::app::App;
use crate::auth::as_owner;
use crate::error::Result;
use crate::runs::start_once;
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
    let mut swept: Option<Instant> = None;
    loop {
        let Some(app) = app.upgrade() else { return };
        let pause = tick(&app).await;
        // Where the storage is away it is swept a little later.
        let _ = sweep(&app).await;
        if swept.is_none_or(|swept| swept.elapsed() >= LONGEST) {
            swept = Some(Instant::now());
            // Items whose time is over are shown to nobody, and are still there.
            let _ = app.store.sweep().await;
        }
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
    let Ok(crons) = all_versions(app).await else { return Duration::from_secs(5) };
    let mut pause = LONGEST;
    for (mut cron, version) in crons {
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
        // One that was changed or removed meanwhile, here or by another server, is as it was left then, and is looked at again.
        if !matches!(cron.save(app, Some(version)).await, Ok(true)) {
            pause = pause.min(Duration::from_secs(5));
        }
    }
    pause
}

/// Makes the run of a time, unless it was made.
async fn make(app: &Arc<App>, cron: &Cron, due: Timestamp) -> Result<()> {
    let made = start_once(app, cron.thread_id.as_deref(), cron.run()?, cron.run_id(due));
    as_owner(cron.user_id.as_deref(), &app.limits, made).await
}
