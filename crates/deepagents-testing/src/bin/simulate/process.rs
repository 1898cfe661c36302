//! A simulated process, which may be frozen for a while and may crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Runs,
    Frozen,
    Ended,
}

/// A process. All its effects on the world pass [`gate`](Self::gate), which blocks while the process is frozen and for
/// ever once it has ended.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u64,
    life: watch::Sender<Life>,
    /// Number of journal faults that it may still meet.
    faults_left: AtomicU64,
}

impl Process {
    pub(crate) fn new(number: u64, faults: u64) -> Arc<Self> {
        Arc::new(Self { number, life: watch::Sender::new(Life::Runs), faults_left: AtomicU64::new(faults) })
    }

    /// Waits until the process runs, or for ever if it has ended.
    pub(crate) async fn gate(&self) {
        let mut life = self.life.subscribe();
        // `self` holds the sender.
        let _ = life.wait_for(|life| *life == Life::Runs).await;
    }

    /// Waits until the process has ended.
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

    /// Uses up one of the process's faults. Returns `false` if none is left.
    pub(crate) fn takes_fault(&self) -> bool {
        self.faults_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}
