//! Time and ids of a simulated world.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use deepagents_core::env::{Clock, Ids, SequentialIds, Timestamp};
use tokio::time::Instant;

/// The start time of a world, in milliseconds since 1970.
const START_MS: i64 = 1_700_000_000_000;

/// The time of day. It follows the runtime's paused clock, which advances when all tasks wait, and it can jump.
#[derive(Debug)]
pub(crate) struct WorldClock {
    begun: Instant,
    jumped: AtomicI64,
}

impl WorldClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), jumped: AtomicI64::new(0) })
    }

    /// Moves the clock forward or back.
    pub(crate) fn jump(&self, by_ms: i64) {
        self.jumped.fetch_add(by_ms, Ordering::Relaxed);
    }

    pub(crate) fn ms(&self) -> i64 {
        let passed = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
        passed + self.jumped.load(Ordering::Relaxed)
    }
}

/// The clock as used by agents and journals.
#[derive(Clone, Debug)]
pub(crate) struct SharedClock(pub(crate) Arc<WorldClock>);

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(START_MS + self.0.ms()).unwrap_or_default()
    }
}

/// Ids that are unique across all processes of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedIds(Arc<SequentialIds>);

impl Ids for SharedIds {
    fn next(&self, prefix: &str) -> String {
        self.0.next(prefix)
    }
}
