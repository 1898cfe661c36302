//! Conversions of columns that both databases share.

use std::ops::ControlFlow;
use std::time::Duration;

use deepagents_core::env::Timestamp;

/// One page of results: skips the first `offset` items and keeps up to `limit`.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    skip: usize,
    limit: usize,
}

impl<T> Page<T> {
    pub(crate) fn new(offset: usize, limit: usize) -> Self {
        Self { items: Vec::new(), skip: offset, limit }
    }

    /// Adds the next item, and breaks once the page is full.
    pub(crate) fn push(&mut self, item: T) -> ControlFlow<()> {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.items.len() < self.limit {
            self.items.push(item);
        }
        if self.items.len() < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Returns the time, or the nearest one that a timestamp can hold: a lease or an item may last for ever.
pub(crate) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// Counts are never negative and never near the limits.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the duration in milliseconds, at least 1.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4).clamp(1, i64::MAX / 4)
}
