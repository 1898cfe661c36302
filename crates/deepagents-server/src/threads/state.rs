//! The state of a thread at a checkpoint.

use deepagents::FinishReason;
use deepagents_core::journal::{LogPosition, Record, ReplayedState, RunStatus, ThreadInfo, load};
use serde_json::{Map, Value, json};

use super::checkpoints::{Entries, Entry, Place};
use super::record::Held;
use super::run_metadata::RunMetadata;
use crate::app::App;
use crate::error::Result;
use crate::wire::{next_nodes, open_interrupts, values};

/// The checkpoints that clients see, newest first: where the last run was stopped, none behind it.
pub(super) fn shown_entries<'a>(entries: &'a Entries, info: &ThreadInfo) -> impl Iterator<Item = &'a Entry> {
    let stopped = Held::read(info).stopped_at.map(Place::After);
    entries.newest_first().skip_while(move |entry| stopped.is_some_and(|place| entry.place != place))
}

/// The state at a checkpoint, with what was asked there: before the `newer` one, or now where there is none.
pub(super) async fn thread_state(
    app: &App,
    info: &ThreadInfo,
    entry: &Entry,
    newer: Option<&Entry>,
    runs: &mut RunMetadata<'_>,
) -> Result<Value> {
    let threads = app.threads_of(info)?;
    let paused = match newer {
        None => (info.status == RunStatus::Interrupted).then_some(info.end),
        Some(newer) => paused_between(app, info, entry, newer).await?,
    };
    let at = paused.or(entry.state);
    let loaded: Option<ReplayedState> = match at {
        Some(at) => Some(load(&*app.journal, &info.id, threads.schema().clone(), Some(at)).await?),
        None => None,
    };
    let open = match &loaded {
        Some(loaded) if newer.is_none() || paused.is_some() => open_interrupts(&info.id, &loaded.state),
        _ => Vec::new(),
    };
    let next: Vec<&str> = match (&loaded, entry.place) {
        (_, Place::BeforeInput(_)) => vec!["__start__"],
        _ if !open.is_empty() => vec!["tools"; open.len()],
        (Some(loaded), _) => next_nodes(&loaded.state, loaded.machine.as_ref()),
        (None, _) => Vec::new(),
    };
    let failed = Held::read(info).error.filter(|_| newer.is_none());
    let error = failed.as_ref().and_then(|error| error.get("message"));
    let task = |id: String, name: &str, interrupts: Value| {
        json!({
            "id": id, "name": name, "path": ["__pregel_pull", name], "error": error, "interrupts": interrupts,
            "checkpoint": null, "state": null, "result": null,
        })
    };
    let tasks: Vec<Value> = if open.is_empty() {
        let one =
            |name: &&str| task(crate::ids::derived(&[&info.id, &entry.place.id(), name]).to_string(), name, json!([]));
        next.iter().map(one).collect()
    } else {
        open.iter().map(|open| task(open.task.clone(), "tools", json!([open.to_json()]))).collect()
    };
    let shown = match &loaded {
        Some(loaded) => values(&loaded.state)?,
        None => Map::new(),
    };
    let checkpoint = |place: Place| json!({"thread_id": info.id, "checkpoint_ns": "", "checkpoint_id": place.id()});
    let mut metadata = json!(runs.of(entry.run.as_deref()).await?);
    let own = json!({
        "source": entry.source, "step": entry.step, "parents": {}, "thread_id": info.id, "run_id": entry.run,
    });
    if let (Some(metadata), Value::Object(own)) = (metadata.as_object_mut(), own) {
        metadata.extend(own);
        for key in ["graph_id", "assistant_id"] {
            metadata.extend(info.metadata.get(key).map(|value| (key.to_owned(), value.clone())));
        }
    }
    Ok(json!({
        "values": shown,
        "next": next,
        "tasks": tasks,
        "metadata": metadata,
        "created_at": crate::ids::time(entry.at),
        "checkpoint": checkpoint(entry.place),
        "parent_checkpoint": entry.parent.map(checkpoint),
        "interrupts": open.iter().map(|open| open.to_json()).collect::<Vec<_>>(),
        "checkpoint_id": entry.place.id(),
        "parent_checkpoint_id": entry.parent.map(Place::id),
    }))
}

/// Where a run first stopped to ask after a checkpoint and before the next one.
async fn paused_between(app: &App, info: &ThreadInfo, entry: &Entry, newer: &Entry) -> Result<Option<LogPosition>> {
    let (Place::After(from), Place::After(to)) = (entry.place, newer.place) else { return Ok(None) };
    let between = app.journal.read(&info.id, from..to).await?;
    let asks = |record: &Record| matches!(record, Record::RunFinished { stop: Some(FinishReason::Interrupted), .. });
    Ok(between.iter().find(|entry| asks(&entry.record)).map(|entry| entry.position + 1))
}

/// The state of a thread on which nothing ran.
pub(super) fn fresh(info: &ThreadInfo) -> Value {
    json!({
        "values": {}, "next": [], "tasks": [], "metadata": {}, "created_at": null, "checkpoint": {
            "thread_id": info.id, "checkpoint_ns": "", "checkpoint_id": null,
        },
        "parent_checkpoint": null, "interrupts": [], "checkpoint_id": null, "parent_checkpoint_id": null,
    })
}
