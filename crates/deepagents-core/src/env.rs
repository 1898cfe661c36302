//! Time and ids, both injectable, so that runs can be repeated exactly.

use std::sync::atomic::{AtomicU64, Ordering};

pub use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// Makes ids.
pub trait Ids: Send + Sync + 'static {
    /// A fresh id that begins with `prefix` and `_`.
    fn next(&self, prefix: &str) -> String;
}

/// 96 random bits in hexadecimal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}_{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..))
    }
}

/// One, two, three: for tests and recordings.
#[derive(Debug, Default)]
pub struct SequentialIds(AtomicU64);

impl Ids for SequentialIds {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}_{}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
