//! Points at which a process can kill itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deepagents_core::journal::{Appended, JournalError};
use deepagents_testing::watched::Watch;
use rustix::process::{Signal, getpid, kill_process};

/// Counts the points that a process passes, and kills the process at a given one, so that the crash is reproducible.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    passed: AtomicU64,
    last: Option<u64>,
}

impl Moments {
    /// Creates a counter that kills the process at the point `last`, counted from 0.
    pub(crate) fn until(last: Option<u64>) -> Arc<Self> {
        Arc::new(Self { passed: AtomicU64::new(0), last })
    }

    pub(crate) fn pass(&self) {
        if Some(self.passed.fetch_add(1, Ordering::Relaxed)) == self.last {
            let _ = kill_process(getpid(), Signal::KILL);
            // The signal may be delivered late; nothing more must happen until then.
            std::process::abort();
        }
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// Passes a point before and after each append to a log, and one after each snapshot.
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
