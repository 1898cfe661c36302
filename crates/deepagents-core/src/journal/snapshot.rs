//! Snapshots: what they hold, and when they are due.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::LastRun;
use super::{JournalError, Replay, Snapshot, UnknownChannels};
use crate::machine::{Machine, Open};
use crate::state::{ChannelError, Schema, State, Update};

/// Version of the JSON form of snapshots.
const SNAPSHOT_VERSION: u64 = 1;

/// Below so many bytes of log a snapshot is not worth its while.
const SMALLEST: u64 = 256 * 1024;

/// When a snapshot is due: the log since the last one has outgrown it. So all snapshots together take at most about
/// twice what the log takes, and what a load reads is at most about twice the state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotRule {
    /// Bytes of the log since the last snapshot.
    pub(crate) since: u64,
    /// Bytes of the last snapshot.
    pub(crate) last: u64,
}

impl SnapshotRule {
    pub(crate) fn appended(&mut self, bytes: u64) {
        self.since = self.since.saturating_add(bytes);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.since >= SMALLEST.max(self.last)
    }

    pub(crate) fn taken(&mut self, bytes: u64) {
        *self = Self { since: 0, last: bytes };
    }
}

#[derive(Serialize, Deserialize)]
struct Body {
    v: u64,
    values: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<(String, Value)>,
    machine: Option<Machine>,
    run: Option<LastRun>,
    #[serde(default)]
    open: Open,
    turns: u32,
}

impl Replay {
    /// What the records amount to, as a snapshot.
    pub(crate) fn snapshot(&self, thread: &str) -> Result<Snapshot, JournalError> {
        let fail = |reason: String| JournalError::Damaged { thread: thread.to_owned(), position: self.end, reason };
        let mut values = self.kept.values.clone();
        values.extend(self.state.to_json(true).map_err(|error| fail(error.to_string()))?);
        let body = Body {
            v: SNAPSHOT_VERSION,
            values,
            changes: self.kept.changes.clone(),
            machine: self.machine.clone(),
            run: self.run.clone(),
            open: self.open.clone(),
            turns: self.turns,
        };
        let body = serde_json::to_string(&body).map_err(|error| fail(error.to_string()))?;
        Ok(Snapshot { position: self.end, body })
    }
}

pub(super) fn restore(thread: &str, schema: Arc<Schema>, snapshot: &Snapshot) -> Result<Replay, JournalError> {
    let position = snapshot.position;
    let damaged = |reason: String| JournalError::Damaged { thread: thread.to_owned(), position, reason };
    let body: Body = serde_json::from_str(&snapshot.body).map_err(|error| damaged(error.to_string()))?;
    if body.v > SNAPSHOT_VERSION {
        return Err(JournalError::Newer { thread: thread.to_owned(), position, version: body.v });
    }
    let (known, unknown): (Map<_, _>, Map<_, _>) =
        body.values.into_iter().partition(|(channel, _)| schema.by_name(channel).is_some());
    let failed = |error: ChannelError| damaged(error.to_string());
    let mut state = State::from_json(schema, known).map_err(failed)?;
    let mut kept = UnknownChannels { values: unknown, changes: Vec::new() };
    for (channel, change) in body.changes {
        if state.schema().by_name(&channel).is_some() {
            let mut update = Update::none();
            update.push_json(state.schema(), &channel, change).map_err(failed)?;
            state.apply(&update).map_err(failed)?;
        } else {
            kept.changes.push((channel, change));
        }
    }
    Ok(Replay { state, kept, machine: body.machine, run: body.run, open: body.open, turns: body.turns, end: position })
}
