//! Releases that are on their way to the server.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The threads that this process is giving up. A claim waits for them, so that a run which follows a dropped one finds
/// its thread free: a release takes its place when it is called, though the server hears of it a little later.
#[derive(Debug, Default)]
pub(super) struct Releases {
    pending: Mutex<HashMap<String, watch::Receiver<()>>>,
}

/// A release until it is done, given up or dropped.
#[derive(Debug)]
pub(super) struct Release<'a> {
    releases: &'a Releases,
    thread: String,
    done: watch::Sender<()>,
}

impl Releases {
    fn pending(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<()>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a release, until what is returned is dropped.
    pub(super) fn begin(&self, thread: &str) -> Release<'_> {
        let (done, waiting) = watch::channel(());
        self.pending().insert(thread.to_owned(), waiting);
        Release { releases: self, thread: thread.to_owned(), done }
    }

    /// Waits until the last release of a thread that was called is over.
    pub(super) async fn wait(&self, thread: &str) {
        let waiting = self.pending().get(thread).cloned();
        if let Some(mut waiting) = waiting {
            // It fails when the sender is dropped, which is what is waited for.
            let _ = waiting.changed().await;
        }
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let mut pending = self.releases.pending();
        // A later release of the same thread stays noted.
        if pending.get(&self.thread).is_some_and(|waiting| waiting.same_channel(&self.done.subscribe())) {
            pending.remove(&self.thread);
        }
    }
}
