//! Which agents the processes on a storage serve: a run whose agent is served elsewhere is left to that process, and
//! one whose agent nobody serves any more is ended.

use std::time::{Duration, Instant};

use deepagents_core::store::{Query, StoreError, Write};
use serde_json::{Value, json};

use crate::app::App;

/// Between one word to other processes on what is served here and the next.
const ANNOUNCE: Duration = Duration::from_secs(300);

/// How long a process that was killed counts as one that serves its agents.
const COUNTS: Duration = Duration::from_secs(900);

fn namespace() -> [String; 2] {
    ["deepagents-server", "agents"].map(str::to_owned)
}

/// What other processes were told, and when.
#[derive(Debug)]
pub(super) struct Announced {
    names: Vec<String>,
    at: Instant,
}

fn names(app: &App) -> Vec<String> {
    app.agents().iter().map(|agent| agent.name.clone()).collect()
}

/// Tells other processes which agents this one serves.
pub(crate) async fn announce(app: &App) -> Result<(), StoreError> {
    let write = Write { ttl: Some(COUNTS), ..Write::default() };
    app.store.write(&namespace(), &app.process, json!(names(app)), write).await?;
    Ok(())
}

/// The same, where it was long ago or is something else now.
pub(super) async fn announce_again(app: &App, last: &mut Option<Announced>) {
    let names = names(app);
    let is_known = last.as_ref().is_some_and(|last| last.names == names && last.at.elapsed() < ANNOUNCE);
    // Where the storage is away it is told a little later.
    if !is_known && announce(app).await.is_ok() {
        *last = Some(Announced { names, at: Instant::now() });
    }
}

/// Tells other processes that this one serves nothing any more. Where that fails it counts for a while.
pub(crate) async fn withdraw(app: &App) {
    let _ = app.store.delete(&namespace(), &app.process).await;
}

/// Whether a process on this storage serves an agent.
pub(super) async fn is_served(app: &App, agent: &str) -> Result<bool, StoreError> {
    if app.agent(agent).is_some() {
        return Ok(true);
    }
    let processes = app.store.search(&namespace(), &Query::default()).await?;
    Ok(processes.iter().any(|process| {
        let names = process.value.as_array();
        names.is_some_and(|names| names.iter().filter_map(Value::as_str).any(|name| name == agent))
    }))
}
