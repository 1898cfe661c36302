//! What both databases do with the columns of their rows.

use std::ops::ControlFlow;
use std::time::Duration;

use deepagents_core::env::Timestamp;

/// What is found for a query, less the first few.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    skip: usize,
    limit: usize,
}

impl<T> Page<T> {
    pub(crate) fn new(offset: usize, limit: usize) -> Self {
        Self { items: Vec::new(), skip: offset, limit }
    }

    /// Takes the next one, and breaks once there are enough.
    pub(crate) fn push(&mut self, item: T) -> ControlFlow<()> {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.items.len() < self.limit {
            self.items.push(item);
        }
        if self.items.len() < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

pub(crate) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MIN)
}

/// Counts are never negative, and far from the limits.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Milliseconds, at least one.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4).clamp(1, i64::MAX / 4)
}
