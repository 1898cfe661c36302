//! Logs of sub-agents whose calls have not ended, from which a repeated call resumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JournalError, Record, Replay};
use crate::ids::CallId;
use crate::interrupt::PausedChild;
use crate::machine::{BudgetUsage, pairs};
use crate::state::{ChannelError, ChildState, Schema, State};

/// The log of a sub-agent, including those of its own sub-agents. In snapshots, `S` is the stored form of a state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChildLog<S = State> {
    /// The call that runs it.
    pub(crate) call: CallId,
    /// Distinguishes it from the call's other sub-agents.
    pub(crate) label: String,
    /// The path in the tree of agents. It stays the same even if the call is renumbered.
    pub(crate) path: Vec<String>,
    /// The parent agent's state when the call started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<S>,
    /// The sub-agent's saved state in the format of older logs, which replaces the first part of its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<Box<PausedChild>>,
    pub(super) records: Vec<Record>,
    /// What it and its sub-agents have spent, by path.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) spent: BTreeMap<Vec<String>, ChildUsage>,
}

/// What a sub-agent had spent at its last step, and how much of that the last step of its parent includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChildUsage {
    pub(crate) total: BudgetUsage,
    pub(crate) counted: BudgetUsage,
}

impl<S> ChildLog<S> {
    pub(super) fn with_base<T>(self, base: Option<T>) -> ChildLog<T> {
        let Self { call, label, path, paused, records, spent, .. } = self;
        ChildLog { call, label, path, base, paused, records, spent }
    }
}

impl ChildLog {
    pub(super) fn begin(call: CallId, label: String, path: Vec<String>, base: Option<State>) -> Self {
        Self { call, label, path, base, paused: None, records: Vec::new(), spent: BTreeMap::new() }
    }

    pub(super) fn of_paused(paused: PausedChild) -> Self {
        let (call, label, path) = (paused.call.clone(), paused.label.clone(), paused.path.clone());
        Self { paused: Some(Box::new(paused)), ..Self::begin(call, label, path, None) }
    }

    /// Adds a record of the sub-agent itself or of one below it.
    pub(super) fn push(&mut self, record: Record) {
        let (path, entry) = match &record {
            Record::Child { path, entry } => (path, &**entry),
            own => (&self.path, own),
        };
        let spent = match entry {
            Record::Step { machine, .. } => machine.budget_state().map(|budget_state| budget_state.spent),
            Record::BudgetCharged { spent } => Some(*spent),
            _ => None,
        };
        if let Some(spent) = spent {
            let below = self.spent.iter_mut().filter(|(other, _)| other.len() > path.len() && other.starts_with(path));
            below.for_each(|(_, usage)| usage.counted = usage.total);
            self.spent.entry(path.clone()).or_default().total = spent;
        }
        self.records.push(record);
    }

    /// Marks everything spent as included in the parent's total.
    pub(super) fn count(&mut self) {
        self.spent.values_mut().for_each(|usage| usage.counted = usage.total);
    }

    /// Returns whether it reached a step that can be resumed.
    pub(crate) fn has_begun(&self) -> bool {
        self.paused.is_some() || self.records.iter().any(|record| matches!(record, Record::Step { .. }))
    }

    /// Returns what it has spent itself.
    pub(crate) fn spent(&self) -> BudgetUsage {
        self.spent.get(&self.path).map(|usage| usage.total).unwrap_or_default()
    }

    /// Returns the values it recorded, by key.
    pub(crate) fn recorded(&self) -> BTreeMap<String, Value> {
        let recorded = self.records.iter().filter_map(|record| match record {
            Record::ValueRecorded { key, value } => Some((key.clone(), value.clone())),
            _ => None,
        });
        recorded.collect()
    }

    /// Returns its records in the form they have in the thread's log.
    pub(crate) fn into_records(self) -> impl Iterator<Item = Record> {
        let path = self.path;
        self.records.into_iter().map(move |record| match record {
            Record::Child { .. } => record,
            own => Record::Child { path: path.clone(), entry: Box::new(own) },
        })
    }

    /// Returns what it and its sub-agents had spent beyond what the parent's last step includes.
    pub(crate) fn uncounted(&self) -> BudgetUsage {
        let mut uncounted = BudgetUsage::default();
        self.spent.values().for_each(|usage| uncounted += &usage.total.since(&usage.counted));
        uncounted
    }

    /// Replays the records for an agent with these channels. Also returns the sub-agent's initial state.
    pub(crate) fn replay(self, thread: &str, schema: Arc<Schema>) -> Result<(Replay, State), JournalError> {
        let damaged = |error: ChannelError| {
            JournalError::damaged(thread, 0, format_args!("sub-agent {}: {error}", self.path.join("/")))
        };
        let mut replay = Replay::new(schema.clone());
        replay.path.clone_from(&self.path);
        replay.base = self.base;
        if let Some(paused) = self.paused {
            replay.given = State::from_json(schema.clone(), paused.given).map_err(damaged)?;
            replay.state = State::from_json(schema, paused.state).map_err(damaged)?;
            replay.machine = Some(paused.machine);
            replay.open = paused.open;
        }
        for record in self.records {
            replay.take(thread, record)?;
        }
        replay.adopt_paused();
        let given = replay.given.clone();
        Ok((replay, given))
    }

    /// Returns its initial state, and its last state merged with those of all sub-agents below it, seen with these
    /// channels.
    pub(crate) fn left(self, thread: &str, schema: &Arc<Schema>) -> Result<ChildState, JournalError> {
        let damaged = |error: ChannelError| JournalError::damaged(thread, 0, error);
        let (mut replay, given) = self.replay(thread, schema.clone())?;
        replay.settle().map_err(damaged)?;
        let mut left = replay.state;
        for child in replay.children.into_values() {
            let (joined, _conflicts) = left.join(&child.left(thread, schema)?).map_err(damaged)?;
            left.apply(&joined).map_err(damaged)?;
        }
        Ok(ChildState { given, left })
    }
}
