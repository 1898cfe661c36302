//! Owning a thread while a run is under way.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Claim, Fence, Journal, JournalError};
use crate::ids::ThreadId;

/// Ownership of a thread: renewed in the background, given up when dropped.
pub(crate) struct Lease {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    fence: Fence,
    heartbeat: JoinHandle<()>,
    held: bool,
}

impl Lease {
    /// Becomes the owner of a thread. `lost` is cancelled when the ownership is lost to somebody else.
    pub(crate) async fn claim(
        journal: Arc<dyn Journal>,
        thread: ThreadId,
        claim: Claim,
        lost: CancellationToken,
    ) -> Result<Self, JournalError> {
        let lease = claim.lease;
        let fence = journal.claim(&thread, claim).await?;
        let heartbeat = tokio::spawn(beat(journal.clone(), thread.clone(), fence, lease, lost));
        Ok(Self { journal, thread, fence, heartbeat, held: true })
    }

    pub(crate) fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    pub(crate) fn thread(&self) -> &str {
        &self.thread
    }

    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    /// Gives the thread up and waits until that is done.
    pub(crate) async fn release(mut self) -> Result<(), JournalError> {
        self.held = false;
        self.journal.release(&self.thread, self.fence).await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.heartbeat.abort();
        if !self.held {
            return;
        }
        let (journal, thread, fence) = (self.journal.clone(), self.thread.clone(), self.fence);
        let mut release = Box::pin(async move { journal.release(&thread, fence).await });
        // Polled once here, so that it precedes whatever this process asks of the journal next. If it fails, the lease
        // runs out by itself.
        if (&mut release).now_or_never().is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(release);
        }
    }
}

async fn beat(journal: Arc<dyn Journal>, thread: ThreadId, fence: Fence, lease: Duration, lost: CancellationToken) {
    let pause = (lease / 3).max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(pause).await;
        // A storage that fails for a moment is asked again; the lease outlasts two beats.
        if let Err(JournalError::Fenced { .. }) = journal.renew(&thread, fence, lease).await {
            lost.cancel();
            return;
        }
    }
}
