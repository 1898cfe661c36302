//! Clocks and id generators. Both can be injected, so that runs can be reproduced exactly.

use std::sync::atomic::{AtomicU64, Ordering};

pub use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that always returns the same time.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// An id generator.
pub trait Ids: Send + Sync + 'static {
    /// Returns a new id that starts with `prefix` and `_`.
    fn next(&self, prefix: &str) -> String;
}

/// Generates ids of 96 random bits in hexadecimal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}_{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..))
    }
}

/// Generates sequential ids, for tests and recordings.
#[derive(Debug, Default)]
pub struct SequentialIds(AtomicU64);

impl Ids for SequentialIds {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}_{}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
