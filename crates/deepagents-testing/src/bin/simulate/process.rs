//! A simulated process: it may be frozen for a while, and it may end without notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Runs,
    Frozen,
    Ended,
}

/// A process. What it does in the world passes [`gate`](Self::gate): nothing does once it has ended, and while it is frozen
/// all of it waits.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u64,
    life: watch::Sender<Life>,
    /// Faults of the journal that it may still meet.
    faults_left: AtomicU64,
}

impl Process {
    pub(crate) fn new(number: u64, faults: u64) -> Arc<Self> {
        Arc::new(Self { number, life: watch::Sender::new(Life::Runs), faults_left: AtomicU64::new(faults) })
    }

    /// Waits until the process runs; for ever once it has ended.
    pub(crate) async fn gate(&self) {
        let mut life = self.life.subscribe();
        // The sender is this process itself.
        let _ = life.wait_for(|life| *life == Life::Runs).await;
    }

    /// Ends when the process does.
    pub(crate) async fn ended(&self) {
        let mut life = self.life.subscribe();
        let _ = life.wait_for(|life| *life == Life::Ended).await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.life.borrow() == Life::Ended
    }

    pub(crate) fn end(&self) {
        self.life.send_replace(Life::Ended);
    }

    pub(crate) fn freeze(&self) {
        self.change(Life::Runs, Life::Frozen);
    }

    pub(crate) fn thaw(&self) {
        self.change(Life::Frozen, Life::Runs);
    }

    fn change(&self, from: Life, to: Life) {
        self.life.send_if_modified(|life| {
            let changes = *life == from;
            if changes {
                *life = to;
            }
            changes
        });
    }

    /// Takes one of the faults that the process may meet.
    pub(crate) fn takes_fault(&self) -> bool {
        self.faults_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}
