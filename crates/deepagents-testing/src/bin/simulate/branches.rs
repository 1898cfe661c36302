//! The calls in a thread's log at any position, including after rewinds.

use std::collections::BTreeMap;
use std::ops::Range;

use deepagents_core::journal::LogPosition;

/// The calls of a thread according to its records, on all branches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branches {
    changes: Vec<(LogPosition, Change)>,
    /// The positions of rewinds and their targets.
    rewinds: Vec<(LogPosition, LogPosition)>,
    /// The removed parts of the log.
    removed: Vec<Range<LogPosition>>,
}

/// A change that a record makes to a call.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Started(String),
    Finished(String, String),
}

/// The calls known at a position.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) started: BTreeMap<String, usize>,
    pub(crate) finished: BTreeMap<String, String>,
}

impl Branches {
    pub(crate) fn add(&mut self, position: LogPosition, change: Change) {
        self.changes.push((position, change));
    }

    pub(crate) fn rewound(&mut self, at: LogPosition, to: LogPosition) {
        self.rewinds.push((at, to));
    }

    pub(crate) fn removed(&mut self, positions: Range<LogPosition>) {
        self.removed.push(positions);
    }

    /// Whether a position was removed from the log.
    pub(crate) fn is_removed(&self, position: LogPosition) -> bool {
        self.removed.iter().any(|range| range.contains(&position))
    }

    /// Whether nothing was removed and the thread was never rewound.
    pub(crate) fn is_plain(&self) -> bool {
        self.removed.is_empty() && self.rewinds.is_empty()
    }

    /// Truncates to a copy of the thread up to a position.
    pub(crate) fn cut(&mut self, end: LogPosition) {
        self.changes.retain(|(at, _)| *at < end);
        self.rewinds.retain(|(at, _)| *at < end);
    }

    /// Whether a record is part of the state at a position.
    pub(crate) fn is_live(&self, record: LogPosition, position: LogPosition) -> bool {
        self.live(position).iter().any(|range| range.contains(&record))
    }

    /// Returns the records that make up the state at a position.
    fn live(&self, position: LogPosition) -> Vec<Range<LogPosition>> {
        let (mut end, mut live) = (position, Vec::new());
        for (at, to) in self.rewinds.iter().rev().copied() {
            if at < end {
                live.push(at + 1..end);
                end = to;
            }
        }
        live.push(0..end);
        live
    }

    /// Returns the calls known at a position.
    pub(crate) fn at(&self, position: LogPosition) -> Calls {
        let (live, mut calls) = (self.live(position), Calls::default());
        for (at, change) in &self.changes {
            if live.iter().any(|range| range.contains(at)) {
                match change.clone() {
                    Change::Started(tag) => *calls.started.entry(tag).or_default() += 1,
                    Change::Finished(tag, text) => drop(calls.finished.insert(tag, text)),
                }
            }
        }
        calls
    }
}
