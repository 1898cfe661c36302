//! Owning a thread while a run is under way.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Claim, Fence, Journal, JournalError};
use crate::ids::ThreadId;

/// Ownership of a thread: renewed in the background, given up when dropped.
pub(crate) struct Lease {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    fence: Fence,
    duration: Duration,
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
        let claimed = Instant::now();
        let fence = journal.claim(&thread, claim).await?;
        let heartbeat = Heartbeat { journal: journal.clone(), thread: thread.clone(), fence, lease };
        let heartbeat = tokio::spawn(heartbeat.beat(claimed, lost));
        Ok(Self { journal, thread, fence, duration: lease, heartbeat, held: true })
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

    /// How long the thread stays owned without being renewed.
    pub(crate) fn duration(&self) -> Duration {
        self.duration
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

/// Keeps a thread while its owner works.
struct Heartbeat {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    fence: Fence,
    lease: Duration,
}

impl Heartbeat {
    /// Renews the lease until it is lost: somebody else has claimed the thread, or may have, since the lease ran out
    /// while no renewal was answered.
    async fn beat(self, claimed: Instant, lost: CancellationToken) {
        let pause = (self.lease / 3).max(Duration::from_millis(1));
        let mut ends = claimed + self.lease;
        loop {
            tokio::time::sleep(pause).await;
            let asked = Instant::now();
            let renewal = self.journal.renew(&self.thread, self.fence, self.lease);
            match tokio::time::timeout_at(ends.max(asked), renewal).await {
                Ok(Ok(())) => ends = asked + self.lease,
                Ok(Err(error)) if !matches!(error, JournalError::Fenced { .. }) && Instant::now() < ends => {}
                _ => {
                    lost.cancel();
                    return;
                }
            }
        }
    }
}
