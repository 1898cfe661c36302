//! The state of a thread at a checkpoint.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use deepagents::FinishReason;
use deepagents_core::journal::{LogPosition, Record, ReplayedState, RunStatus, ThreadInfo, load_each};
use serde_json::{Map, Value, json};

use super::checkpoints::{Entries, Entry, Place};
use super::record::ThreadRecord;
use super::sub_states::checkpoint_of;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::render::render;
use crate::runs;
use crate::wire::{OpenInterrupt, next_nodes, open_interrupts, values};

/// Approximate number of records per read.
const PAGE_RECORDS: LogPosition = 256;

/// Returns the checkpoints that clients see, newest first. If the last run was stopped, later ones are hidden.
pub(super) fn shown_entries<'a>(entries: &'a Entries, info: &ThreadInfo) -> impl Iterator<Item = &'a Entry> {
    let stopped = ThreadRecord::read(info).stopped_at.map(Place::After);
    entries.newest_first().skip_while(move |entry| stopped.is_some_and(|place| entry.place != place))
}

/// Returns the state at a checkpoint, with the interrupts raised before the `newer` checkpoint, or pending now if there
/// is none.
pub(super) async fn thread_state(
    app: &App,
    info: &ThreadInfo,
    entry: &Entry,
    newer: Option<&Entry>,
    runs: &mut RunMetadata<'_>,
) -> Result<Value> {
    let states = thread_states(app, info, &[(entry, newer)], runs).await?;
    states.into_iter().next().ok_or_else(|| ApiError::not_found("Checkpoint", &entry.place.id()))
}

/// Returns the states at checkpoints, newest first, each given with the next newer one. Reads the log once for all of
/// them.
pub(super) async fn thread_states(
    app: &App,
    info: &ThreadInfo,
    entries: &[(&Entry, Option<&Entry>)],
    runs: &mut RunMetadata<'_>,
) -> Result<Vec<Value>> {
    let pauses = pauses(app, info, entries).await?;
    let is_stopped = ThreadRecord::read(info).stopped_at.is_some();
    let paused = |(entry, newer): &(&Entry, Option<&Entry>)| match newer {
        None => (info.status == RunStatus::Interrupted && !is_stopped).then_some(info.end),
        Some(newer) => {
            let between = span(entry, newer)?;
            // The position after a record is that of the next record.
            pauses.range(between.start + 1..=between.end).next().copied()
        }
    };
    let places: Vec<_> = entries.iter().map(|one| (paused(one), one.0.state)).collect();
    let positions: Vec<LogPosition> = places.iter().filter_map(|(paused, state)| paused.or(*state)).collect();
    let schema = app.threads_of(info)?.schema().clone();
    let mut loaded = load_each(&*app.journal, &info.id, schema, &positions).await?.into_iter();
    let (mut found, mut messages) = (Vec::with_capacity(entries.len()), 0);
    for ((entry, newer), (paused, state)) in entries.iter().zip(places) {
        let loaded = paused.or(state).and_then(|_| loaded.next());
        messages += loaded.as_ref().map_or(0, |loaded| loaded.state.messages().len());
        let metadata = runs.of(entry.run.as_deref()).await?;
        found.push(((*entry).clone(), (newer.is_none(), paused.is_some()), loaded, metadata));
    }
    let info = info.clone();
    let shown = move || {
        let all = found.into_iter();
        all.map(|(entry, is, loaded, metadata)| shown(&info, &entry, is, loaded.as_ref(), metadata)).collect()
    };
    render(messages, shown).await
}

/// Returns the log range between two consecutive checkpoints.
fn span(entry: &Entry, newer: &Entry) -> Option<Range<LogPosition>> {
    match entry.place {
        Place::After(from) => Some(from..newer.place.position()),
        Place::BeforeInput(_) => None,
    }
}

/// Returns the position of the state at a checkpoint, where its run paused if it did. Returns `None` for the newest
/// checkpoint that clients see, which is where the thread stands.
pub(crate) async fn earlier_position(app: &App, info: &ThreadInfo, checkpoint: &str) -> Result<Option<LogPosition>> {
    let entries = app.entries(info).await?;
    let (index, entry) = entries.find(checkpoint)?;
    let Some(newer) = index.checked_sub(1).and_then(|newer| entries.newest_first().nth(newer)) else {
        return Ok(None);
    };
    if shown_entries(&entries, info).next().is_some_and(|newest| newest.place == entry.place) {
        return Ok(None);
    }
    let pauses = pauses(app, info, &[(entry, Some(newer))]).await?;
    Ok(Some(pauses.first().copied().or(entry.state).unwrap_or(0)))
}

/// Returns the positions at which runs were interrupted between these checkpoints.
async fn pauses(app: &App, info: &ThreadInfo, entries: &[(&Entry, Option<&Entry>)]) -> Result<BTreeSet<LogPosition>> {
    let asks = |record: &Record| matches!(record, Record::RunFinished { stop: Some(FinishReason::Interrupted), .. });
    let mut spans: Vec<Range<LogPosition>> = Vec::new();
    for between in entries.iter().rev().filter_map(|(entry, newer)| span(entry, (*newer)?)) {
        match spans.last_mut().filter(|last| last.end == between.start && last.end - last.start < PAGE_RECORDS) {
            Some(last) => last.end = between.end,
            None => spans.push(between),
        }
    }
    let mut out = BTreeSet::new();
    for span in spans {
        let records = app.journal.read(&info.id, span).await?;
        out.extend(records.iter().filter(|entry| asks(&entry.record)).map(|entry| entry.position + 1));
    }
    Ok(out)
}

/// Serialises a state. Pending interrupts are shown in the `newest` state and where a run was `paused`.
fn shown(
    info: &ThreadInfo,
    entry: &Entry,
    (newest, paused): (bool, bool),
    loaded: Option<&ReplayedState>,
    mut metadata: Map<String, Value>,
) -> Result<Value> {
    let open = match loaded {
        Some(loaded) if newest || paused => open_interrupts(&info.id, &loaded.state),
        _ => Vec::new(),
    };
    let next: Vec<&str> = match (loaded, entry.place) {
        (_, Place::BeforeInput(_)) => vec!["__start__"],
        _ if !open.is_empty() => vec!["tools"; open.len()],
        (Some(loaded), _) => next_nodes(&loaded.state, loaded.machine.as_ref()),
        (None, _) => Vec::new(),
    };
    let failed = ThreadRecord::read(info).error.filter(|_| newest);
    let error = failed.as_ref().and_then(|error| error.get("message"));
    let task = |id: String, name: &str, interrupts: Value, checkpoint: Value| {
        json!({
            "id": id, "name": name, "path": ["__pregel_pull", name], "error": error, "interrupts": interrupts,
            "checkpoint": checkpoint, "state": null, "result": null,
        })
    };
    let of_agent = |open: &OpenInterrupt| open.path.get(..1).map_or(Value::Null, |path| checkpoint_of(&info.id, path));
    let tasks: Vec<Value> = if open.is_empty() {
        let id = |name: &str| crate::ids::derived(&[&info.id, &entry.place.id(), name]).to_string();
        next.iter().map(|name| task(id(name), name, json!([]), Value::Null)).collect()
    } else {
        open.iter().map(|open| task(open.task.clone(), "tools", json!([open.to_json()]), of_agent(open))).collect()
    };
    let shown = match loaded {
        Some(loaded) => values(&loaded.state)?,
        None => Map::new(),
    };
    let checkpoint = |place: Place| json!({"thread_id": info.id, "checkpoint_ns": "", "checkpoint_id": place.id()});
    metadata.extend(own_metadata(info, entry));
    for key in ["graph_id", "assistant_id"] {
        metadata.extend(info.metadata.get(key).map(|value| (key.to_owned(), value.clone())));
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

/// Returns the metadata of a checkpoint itself.
pub(super) fn own_metadata(info: &ThreadInfo, entry: &Entry) -> [(String, Value); 5] {
    [
        ("source", json!(entry.source)),
        ("step", json!(entry.step)),
        ("parents", json!({})),
        ("thread_id", json!(info.id)),
        ("run_id", json!(entry.run)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
}

/// Returns the state of a thread without runs.
pub(super) fn fresh(info: &ThreadInfo) -> Value {
    json!({
        "values": {}, "next": [], "tasks": [], "metadata": {}, "created_at": null, "checkpoint": {
            "thread_id": info.id, "checkpoint_ns": "", "checkpoint_id": null,
        },
        "parent_checkpoint": null, "interrupts": [], "checkpoint_id": null, "parent_checkpoint_id": null,
    })
}

/// Looks up the run of each checkpoint, each run once.
pub(super) struct RunMetadata<'a> {
    app: &'a App,
    thread: &'a str,
    known: HashMap<String, Map<String, Value>>,
}

impl<'a> RunMetadata<'a> {
    pub(super) fn new(app: &'a App, thread: &'a str) -> Self {
        Self { app, thread, known: HashMap::new() }
    }

    /// Returns the metadata of a run with its plain configurable values, or nothing if the run is gone.
    pub(super) async fn of(&mut self, run: Option<&str>) -> Result<Map<String, Value>> {
        let Some(run) = run else { return Ok(Map::new()) };
        if let Some(known) = self.known.get(run) {
            return Ok(known.clone());
        }
        let found = match runs::find(self.app, self.thread, run).await {
            Ok(record) => record.shown_metadata(),
            // A state update has an id that names no run.
            Err(error) if error.is_not_found() || error.is_invalid() => Map::new(),
            Err(error) => return Err(error),
        };
        self.known.insert(run.to_owned(), found.clone());
        Ok(found)
    }
}
