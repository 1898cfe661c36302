//! A clock that tests move.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deepagents_core::env::{Clock, Timestamp};

/// A clock that stands still until it is moved.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// A clock at some time.
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_800_000_000_000)))
    }

    /// Moves it forwards.
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// The same clock, for an implementation.
    pub fn shared(&self) -> Arc<dyn Clock> {
        Arc::new(self.clone())
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
    }
}
