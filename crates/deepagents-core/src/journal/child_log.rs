//! The logs of sub-agents whose calls have not ended: what a call that is made again goes on from.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JournalError, Record, Replay};
use crate::ids::CallId;
use crate::interrupt::PausedChild;
use crate::machine::BudgetUsage;
use crate::state::{ChannelError, Schema, State};

/// The log of one sub-agent, its own sub-agents included.
#[derive(Clone, Debug)]
pub(crate) struct ChildLog {
    /// The call that runs it.
    pub(crate) call: CallId,
    /// What tells it from others of the call.
    pub(crate) label: String,
    /// Where it is in the tree; stays the same where its call is given another number.
    pub(crate) path: Vec<String>,
    /// What the agent above had when the call began.
    pub(super) base: Option<State>,
    /// Where it was, in the form of older logs; in place of the beginning of its records.
    pub(super) paused: Option<Box<PausedChild>>,
    pub(super) records: Vec<Record>,
    /// What it and those below it have spent, by path.
    pub(super) spent: BTreeMap<Vec<String>, ChildUsage>,
}

/// What a sub-agent had spent at its last step, and what of it the last step of an agent above includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChildUsage {
    pub(crate) total: BudgetUsage,
    pub(crate) counted: BudgetUsage,
}

impl ChildLog {
    pub(super) fn begin(call: CallId, label: String, path: Vec<String>, base: Option<State>) -> Self {
        Self { call, label, path, base, paused: None, records: Vec::new(), spent: BTreeMap::new() }
    }

    pub(super) fn of_paused(paused: PausedChild) -> Self {
        let (call, label, path) = (paused.call.clone(), paused.label.clone(), paused.path.clone());
        Self { paused: Some(Box::new(paused)), ..Self::begin(call, label, path, None) }
    }

    /// Takes a record in, the sub-agent's own or one of those below it.
    pub(super) fn push(&mut self, record: Record) {
        let (path, entry) = match &record {
            Record::Child { path, entry } => (path, &**entry),
            own => (&self.path, own),
        };
        let spent = match entry {
            Record::Step { machine, .. } => machine.ledger().map(|ledger| ledger.spent),
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

    /// What the agent above has spent includes all of it.
    pub(super) fn count(&mut self) {
        self.spent.values_mut().for_each(|usage| usage.counted = usage.total);
    }

    /// Whether it got as far as a step that can be gone on from.
    pub(crate) fn has_begun(&self) -> bool {
        self.paused.is_some() || self.records.iter().any(|record| matches!(record, Record::Step { .. }))
    }

    /// What it had spent itself.
    pub(crate) fn spent(&self) -> BudgetUsage {
        self.spent.get(&self.path).map(|usage| usage.total).unwrap_or_default()
    }

    /// What it had recorded, by key.
    pub(crate) fn recorded(&self) -> BTreeMap<String, Value> {
        let recorded = self.records.iter().filter_map(|record| match record {
            Record::ValueRecorded { key, value } => Some((key.clone(), value.clone())),
            _ => None,
        });
        recorded.collect()
    }

    /// Its records as they are in the log of the thread.
    pub(crate) fn into_records(self) -> impl Iterator<Item = Record> {
        let path = self.path;
        self.records.into_iter().map(move |record| match record {
            Record::Child { .. } => record,
            own => Record::Child { path: path.clone(), entry: Box::new(own) },
        })
    }

    /// What it and those below it had spent that the last step of the agent above does not include.
    pub(crate) fn uncounted(&self) -> BudgetUsage {
        let mut uncounted = BudgetUsage::default();
        self.spent.values().for_each(|usage| uncounted += &usage.total.since(&usage.counted));
        uncounted
    }

    /// What the records amount to, for an agent with these channels, and what it was given.
    pub(crate) fn replay(self, thread: &str, schema: Arc<Schema>) -> Result<(Replay, State), JournalError> {
        let damaged = |error: ChannelError| JournalError::Damaged {
            thread: thread.to_owned(),
            position: 0,
            reason: format!("sub-agent {}: {error}", self.path.join("/")),
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

    /// The logs of those below it whose calls have not ended, for an agent with these channels.
    pub(crate) fn open_below(
        self,
        thread: &str,
        schema: &Arc<Schema>,
    ) -> Result<BTreeMap<Vec<String>, Self>, JournalError> {
        Ok(self.replay(thread, schema.clone())?.0.children)
    }

    /// What it was given and has come to with all below it, seen with these channels.
    pub(crate) fn left(self, thread: &str, schema: &Arc<Schema>) -> Result<(State, State), JournalError> {
        let damaged = |error: ChannelError| JournalError::Damaged {
            thread: thread.to_owned(),
            position: 0,
            reason: error.to_string(),
        };
        let (mut replay, given) = self.replay(thread, schema.clone())?;
        replay.settle().map_err(damaged)?;
        let mut left = replay.state;
        for child in replay.children.into_values() {
            let (given, below) = child.left(thread, schema)?;
            let (joined, _conflicts) = left.join(&given, &below).map_err(damaged)?;
            left.apply(&joined).map_err(damaged)?;
        }
        Ok((given, left))
    }
}
