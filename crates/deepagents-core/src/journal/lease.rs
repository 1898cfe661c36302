//! Leases on threads.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::unfinished::Unfinished;
use super::{Claim, Fence, Journal, JournalError};
use crate::ids::ThreadId;

/// A lease on a thread: renewed in the background, and released when dropped. Needs a Tokio runtime.
///
/// A run claims its thread itself. A worker that has work to do before or after the run, such as preparing a workspace,
/// claims the thread first and passes the lease to the run with [`RunInput::owned`](crate::run::RunInput::owned), so
/// that no other worker can come between:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use deepagents_core::agent::Agent;
/// use deepagents_core::journal::{Claim, Journal, JournalError, Lease, RunStatus, ThreadQuery};
/// use deepagents_core::run::RunInput;
///
/// /// Goes on with the runs that other processes left unfinished, one after the other.
/// async fn work(agent: Agent, journal: Arc<dyn Journal>) -> Result<(), Box<dyn std::error::Error>> {
///     let open = ThreadQuery::default().status(RunStatus::Open).claimable();
///     for thread in journal.threads().list(&open).await? {
///         let claim = Claim::new("worker-1", Duration::from_secs(30));
///         let lease = match Lease::claim(journal.clone(), thread.id.clone(), claim).await {
///             Ok(lease) => lease,
///             // Another worker was faster.
///             Err(JournalError::Busy { .. }) => continue,
///             Err(error) => return Err(error.into()),
///         };
///         // Here the workspace of the thread is made ready; nobody else works on it.
///         agent.invoke(RunInput::resume(thread.id).owned(lease)).await?;
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a lease that is dropped is released"]
pub struct Lease {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    owner: String,
    fence: Fence,
    /// How long the thread stays owned without being renewed.
    pub(super) duration: Duration,
    pub(super) lost: Arc<Lost>,
    heartbeat: JoinHandle<()>,
    held: bool,
}

/// Whether and why a thread is lost, and what to cancel.
#[derive(Default)]
pub(super) struct Lost {
    pub(super) token: CancellationToken,
    reason: OnceLock<JournalError>,
    /// The run that owns the thread through this lease.
    run: OnceLock<CancellationToken>,
    /// Whether the thread was released: failures after that are of no interest.
    given_up: AtomicBool,
}

impl Lost {
    /// Records the loss. The first reason is kept.
    fn lose(&self, reason: JournalError) {
        if self.given_up.load(Ordering::Acquire) {
            return;
        }
        // Set before cancelling: a cancelled run checks whether this is the reason.
        let _ = self.reason.set(reason);
        self.cancel();
    }

    fn cancel(&self) {
        self.token.cancel();
        if let Some(run) = self.run.get() {
            run.cancel();
        }
    }

    /// Returns why the thread is lost, if it is.
    pub(super) fn reason(&self) -> Option<JournalError> {
        self.reason.get().map(JournalError::duplicate)
    }
}

/// Maximum length of a lease, so that its end can be represented as a time.
const MAX_LEASE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Lease {
    /// Claims a thread, for at most a year. Creates the thread if it does not exist, and removes it again if nothing
    /// was written.
    ///
    /// # Errors
    /// Returns [`JournalError::Busy`] if the thread has an owner with a valid lease, unless the claim [takes
    /// over](Claim::take_over).
    pub async fn claim(
        journal: Arc<dyn Journal>,
        thread: impl Into<ThreadId>,
        mut claim: Claim,
    ) -> Result<Self, JournalError> {
        claim.lease = claim.lease.min(MAX_LEASE);
        let (thread, owner, duration, claimed) = (thread.into(), claim.owner.clone(), claim.lease, Instant::now());
        let fence = completed_claim(journal.clone(), thread.clone(), claim).await?;
        let lost: Arc<Lost> = Arc::default();
        let heartbeat = Heartbeat { journal: journal.clone(), thread: thread.clone(), fence, lease: duration };
        let heartbeat = tokio::spawn(heartbeat.renew_until_lost(claimed, lost.clone()));
        Ok(Self { journal, thread, owner, fence, duration, lost, heartbeat, held: true })
    }

    /// Cancels the run as well when the thread is lost. The run then checks [`why_lost`](Self::why_lost), as nobody
    /// asked for its end.
    pub(crate) fn of_run(self, run: CancellationToken) -> Self {
        if self.lost.run.set(run).is_ok() && self.lost.token.is_cancelled() {
            self.lost.cancel();
        }
        self
    }

    /// Returns the journal that contains the thread.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Returns the thread.
    pub fn thread(&self) -> &str {
        &self.thread
    }

    /// Returns the owner's name, as shown to others who want the thread.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the fence that proves ownership to the journal, for appends.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Returns the token that is cancelled when the thread is lost: another owner took it over, or the lease expired
    /// while the journal could not be reached. All work on the thread must then stop.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost.token
    }

    /// Returns why the thread is lost, if it is: [`JournalError::Fenced`] if another owner took it over, and
    /// [`JournalError::Unavailable`] if the journal could not be reached for the length of the lease.
    pub fn why_lost(&self) -> Option<JournalError> {
        self.lost.reason()
    }

    /// Renews the lease now, for its full length. The lease is renewed in the background anyway. Use this before an
    /// action that must not happen twice, to be certain that the thread is still owned.
    ///
    /// # Errors
    /// Returns [`JournalError::Fenced`] if it is not; [`lost`](Self::lost) is then cancelled.
    pub async fn renew(&self) -> Result<(), JournalError> {
        let renewed = self.journal.renew(&self.thread, self.fence, self.duration).await;
        if let Err(fenced @ JournalError::Fenced { .. }) = &renewed {
            self.lost.lose(fenced.duplicate());
        }
        renewed
    }

    /// Releases the thread and waits for completion.
    ///
    /// # Errors
    /// Returns an error if the storage fails; the lease then expires by itself.
    pub async fn release(mut self) -> Result<(), JournalError> {
        // A renewal after the release would find the thread not owned, and cancel a run that has ended.
        self.lost.given_up.store(true, Ordering::Release);
        self.heartbeat.abort();
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
        // Polled once here, so that it precedes all later calls of this process to the journal. If it fails, the lease
        // expires by itself.
        if (&mut release).now_or_never().is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(release);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("thread", &self.thread).field("fence", &self.fence).finish_non_exhaustive()
    }
}

/// Claims a thread. A claim that is completed after its caller was dropped is released: the journal may carry it out
/// all the same, which would leave the thread owned by nobody for a whole lease.
async fn completed_claim(journal: Arc<dyn Journal>, thread: ThreadId, claim: Claim) -> Result<Fence, JournalError> {
    let (done, claimed) = oneshot::channel();
    let mut work = Unfinished::new(async move {
        if let Err(Ok(fence)) = done.send(journal.claim(&thread, claim).await) {
            // If this fails, the lease expires.
            let _ = journal.release(&thread, fence).await;
        }
    });
    // Declared after the work, so that it is dropped first and the work notices that nobody waits for the claim.
    let mut claimed = claimed;
    (&mut work).await;
    // Not awaited, because a caller that is dropped while it waits here would lose the claim.
    claimed.try_recv().unwrap_or_else(|_| Err(JournalError::Storage("the claim got no answer".into())))
}

/// Renews the lease while its owner works.
struct Heartbeat {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    fence: Fence,
    lease: Duration,
}

impl Heartbeat {
    /// Renews the lease until it is lost: another owner has claimed the thread, or may have, because the lease expired
    /// while no renewal was answered.
    async fn renew_until_lost(self, claimed: Instant, lost: Arc<Lost>) {
        let pause = (self.lease / 3).max(Duration::from_millis(1));
        // Retry sooner after a failure, so that the lease does not expire after the storage has recovered.
        let pause_after_failure = (self.lease / 30).max(Duration::from_millis(1));
        let (mut ends, mut next) = (claimed + self.lease, pause);
        loop {
            if !next.is_zero() {
                tokio::time::sleep(next).await;
            }
            next = pause;
            let asked = Instant::now();
            let renewal = self.journal.renew(&self.thread, self.fence, self.lease);
            // A process that was frozen past the end of its lease tries once more: nobody may have claimed the thread.
            let until = if asked < ends { ends } else { asked + pause };
            match tokio::time::timeout_at(until, renewal).await {
                Ok(Ok(())) => ends = asked + self.lease,
                Ok(Err(fenced @ JournalError::Fenced { .. })) => return lost.lose(fenced),
                Ok(Err(_)) if Instant::now() < ends => next = pause_after_failure,
                Ok(Err(error)) => return lost.lose(self.unavailable(&error.to_string())),
                // Likewise if it was frozen while waiting for the response: the timeout elapsed before the response
                // could be read.
                Err(_) if Instant::now() >= until + pause / 2 => next = Duration::ZERO,
                Err(_) => return lost.lose(self.unavailable("no renewal got an answer")),
            }
        }
    }

    fn unavailable(&self, why: &str) -> JournalError {
        JournalError::Unavailable { source: format!("the lease of thread `{}` expired: {why}", self.thread).into() }
    }
}
