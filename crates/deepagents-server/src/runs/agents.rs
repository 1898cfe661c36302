//! Records which agents each process on a storage serves. A run whose agent another process serves is left to that
//! process, and a run whose agent no process serves is ended.

use std::time::{Duration, Instant};

use deepagents_core::store::StoreError;

use crate::app::App;
use crate::records::Records;

/// Interval at which a process renews its record.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(300);

/// How long a process that has ended still counts as serving its agents, so that its successor has time to start.
const ANNOUNCEMENT_TTL: Duration = Duration::from_secs(900);

fn records(app: &App) -> Records<'_> {
    app.records(&["agents"])
}

/// The names that were last recorded, and when.
#[derive(Debug)]
pub(super) struct Announced {
    names: Vec<String>,
    at: Instant,
}

fn names(app: &App) -> Vec<String> {
    app.agents().iter().map(|agent| agent.name.clone()).collect()
}

/// Records which agents this process serves.
pub(crate) async fn announce(app: &App) -> Result<(), StoreError> {
    records(app).put_for(ANNOUNCEMENT_TTL, &app.process, &names(app)).await
}

/// Records the agents again if they have changed or the record is due for renewal.
pub(super) async fn announce_again(app: &App, last: &mut Option<Announced>) {
    let names = names(app);
    let is_known = last.as_ref().is_some_and(|last| last.names == names && last.at.elapsed() < ANNOUNCE_INTERVAL);
    // If the storage is unavailable, a later call retries.
    if !is_known && announce(app).await.is_ok() {
        *last = Some(Announced { names, at: Instant::now() });
    }
}

/// Returns whether any process on this storage serves an agent.
pub(super) async fn is_served(app: &App, agent: &str) -> Result<bool, StoreError> {
    if app.agent(agent).is_some() {
        return Ok(true);
    }
    let processes: Vec<Vec<String>> = records(app).all().await?;
    Ok(processes.iter().flatten().any(|name| name == agent))
}
