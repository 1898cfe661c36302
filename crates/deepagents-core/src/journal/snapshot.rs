//! Snapshots: their contents, and when they are due.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ChildLog, JournalError, LastRun, RecordUpdate, Replay, Snapshot, UnknownChannels};
use crate::ids::CallId;
use crate::machine::{BudgetUsage, Machine, Open};
use crate::state::{ChannelError, Schema, State, StorableState};

/// Version of the JSON form of snapshots.
const SNAPSHOT_VERSION: u64 = 1;

/// Minimum bytes of log for which a snapshot is worthwhile.
const MIN_LOG_BYTES: u64 = 256 * 1024;

/// Decides when a snapshot is due: once the log since the last one has outgrown it. All snapshots together then take at
/// most about twice the size of the log, and a load reads at most about twice the size of the state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotRule {
    /// Bytes of the log since the last snapshot.
    pub(crate) since: u64,
    /// Bytes of the last snapshot.
    pub(crate) last: u64,
}

impl SnapshotRule {
    /// A snapshot is due at once, because the log cannot be read as a whole.
    pub(crate) fn due() -> Self {
        Self { since: u64::MAX, last: 0 }
    }

    pub(crate) fn appended(&mut self, bytes: u64) {
        self.since = self.since.saturating_add(bytes);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.since >= MIN_LOG_BYTES.max(self.last)
    }

    pub(crate) fn taken(&mut self, bytes: u64) {
        *self = Self { since: 0, last: bytes };
    }
}

/// A snapshot: with [`StorableState`] when written, and with JSON maps when read.
#[derive(Serialize, Deserialize)]
struct Body<S = Map<String, Value>> {
    v: u64,
    values: S,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<(String, Value)>,
    machine: Option<Machine>,
    run: Option<LastRun>,
    #[serde(default)]
    open: Open,
    turns: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    path: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    call_states: Vec<(CallId, S)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    children: Vec<ChildLog<S>>,
    #[serde(default)]
    spent_below: BudgetUsage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier_runs: Vec<String>,
}

impl Replay {
    /// Returns the replay as a snapshot.
    pub(crate) fn snapshot(&self, thread: &str) -> Result<Snapshot, JournalError> {
        let body = self.to_body().map_err(|error| JournalError::damaged(thread, self.end, error))?;
        let body = serde_json::to_string(&body).map_err(|error| JournalError::damaged(thread, self.end, error))?;
        Ok(Snapshot { position: self.end, body })
    }

    fn to_body(&self) -> Result<Body<StorableState<'_>>, ChannelError> {
        let mut values = self.state.to_storable()?;
        values.add_unknown(&self.kept.values);
        let call_states = self.call_states.iter().map(|(call, state)| Ok((call.clone(), state.to_storable()?)));
        let children = self.children.values().map(|child| {
            let base = child.base.as_ref().map(State::to_storable).transpose()?;
            Ok(child.clone().with_base(base))
        });
        Ok(Body {
            v: SNAPSHOT_VERSION,
            values,
            changes: self.kept.changes.clone(),
            machine: self.machine.clone(),
            run: self.run.clone(),
            open: self.open.clone(),
            turns: self.turns,
            path: self.path.clone(),
            call_states: call_states.collect::<Result<_, ChannelError>>()?,
            children: children.collect::<Result<_, ChannelError>>()?,
            spent_below: self.spent_below,
            earlier_runs: self.earlier_runs.iter().cloned().collect(),
        })
    }

    /// Restores a replay from a snapshot.
    pub(crate) fn restore(thread: &str, schema: &Arc<Schema>, snapshot: &Snapshot) -> Result<Self, JournalError> {
        let position = snapshot.position;
        let body: Body =
            serde_json::from_str(&snapshot.body).map_err(|error| JournalError::damaged(thread, position, error))?;
        if body.v > SNAPSHOT_VERSION {
            return Err(JournalError::Newer { thread: thread.to_owned(), position, version: body.v });
        }
        let replay = Self::from_body(body, schema).map_err(|error| JournalError::damaged(thread, position, error))?;
        Ok(Self { end: position, ..replay })
    }

    fn from_body(body: Body, schema: &Arc<Schema>) -> Result<Self, ChannelError> {
        let (known, values): (Map<_, _>, Map<_, _>) =
            body.values.into_iter().partition(|(channel, _)| schema.by_name(channel).is_some());
        let mut state = State::from_json(schema.clone(), known)?;
        let (update, changes) = RecordUpdate::Stored(body.changes).split(schema)?;
        state.apply(&update)?;
        let call_states = body.call_states.into_iter();
        let children = body.children.into_iter();
        Ok(Self {
            path: body.path,
            state,
            call_states: call_states
                .map(|(call, state)| Ok((call, State::from_json(schema.clone(), state)?)))
                .collect::<Result<_, ChannelError>>()?,
            children: children
                .map(|mut child| {
                    let base = child.base.take().map(|base| State::from_json(schema.clone(), base)).transpose()?;
                    Ok((child.path.clone(), child.with_base(base)))
                })
                .collect::<Result<_, ChannelError>>()?,
            spent_below: body.spent_below,
            kept: UnknownChannels { values, changes },
            machine: body.machine,
            run: body.run,
            earlier_runs: body.earlier_runs.into(),
            open: body.open,
            turns: body.turns,
            ..Self::new(schema.clone())
        })
    }
}
