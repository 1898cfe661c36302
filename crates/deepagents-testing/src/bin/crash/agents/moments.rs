//! Moments of a process at which it can be made to die.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deepagents_core::journal::{Appended, JournalError};
use deepagents_testing::watched::Watch;
use rustix::process::{Signal, getpid, kill_process};

/// Counts what happens in a process, and ends it without notice at one of these moments: such a death can be repeated.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    passed: AtomicU64,
    last: Option<u64>,
}

impl Moments {
    /// Moments of which this one is the last.
    pub(crate) fn until(last: Option<u64>) -> Arc<Self> {
        Arc::new(Self { passed: AtomicU64::new(0), last })
    }

    pub(crate) fn pass(&self) {
        if Some(self.passed.fetch_add(1, Ordering::Relaxed)) == self.last {
            let _ = kill_process(getpid(), Signal::KILL);
            // The signal may take a moment; nothing more may happen in it.
            std::process::abort();
        }
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// Appends to a log are two moments each, before and after; the end of a snapshot is one.
pub(crate) struct Appends(pub(crate) Arc<Moments>);

impl Watch for Appends {
    fn appending(&self) {
        self.0.pass();
    }

    fn appended(&self, _: Appended, _: Duration) -> Result<(), JournalError> {
        self.0.pass();
        Ok(())
    }

    fn snapshot_put(&self, _: Duration) {
        self.0.pass();
    }
}
