//! Releases of threads in flight to the server.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The threads that this process is releasing. A claim waits for them, so that a run following a dropped one finds its
/// thread free: a release is ordered by when it was called, although the server processes it a little later.
#[derive(Debug, Default)]
pub(super) struct Releases {
    pending: Mutex<HashMap<String, watch::Receiver<()>>>,
}

/// A release in flight, until it completes, fails or is dropped.
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

    /// Registers a release until the returned guard is dropped.
    pub(super) fn begin(&self, thread: &str) -> Release<'_> {
        let (done, waiting) = watch::channel(());
        self.pending().insert(thread.to_owned(), waiting);
        Release { releases: self, thread: thread.to_owned(), done }
    }

    /// Waits for the most recently called release of the thread to end.
    pub(super) async fn wait(&self, thread: &str) {
        let waiting = self.pending().get(thread).cloned();
        if let Some(mut waiting) = waiting {
            // The call returns an error once the sender is dropped, which marks the end of the release.
            let _ = waiting.changed().await;
        }
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let mut pending = self.releases.pending();
        // A later release of the same thread stays registered.
        if pending.get(&self.thread).is_some_and(|waiting| waiting.same_channel(&self.done.subscribe())) {
            pending.remove(&self.thread);
        }
    }
}
