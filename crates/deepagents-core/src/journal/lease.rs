//! Owning a thread.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Claim, Fence, Journal, JournalError};
use crate::ids::ThreadId;

/// Ownership of a thread: renewed in the background, released when dropped. Needs a Tokio runtime.
///
/// A run claims its thread by itself. A worker that has something to do before or after, such as preparing a workspace,
/// claims the thread first and gives its lease to the run with [`RunInput::owned`](crate::run::RunInput::owned), so that
/// no other worker comes between:
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
pub struct Lease {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    owner: String,
    fence: Fence,
    duration: Duration,
    lost: Arc<Lost>,
    heartbeat: JoinHandle<()>,
    held: bool,
}

/// Whether a thread is lost, why, and who is told of it.
#[derive(Default)]
pub(super) struct Lost {
    pub(super) token: CancellationToken,
    reason: OnceLock<JournalError>,
    /// The run that owns the thread with this lease.
    run: OnceLock<CancellationToken>,
    /// Whether the thread was given up: what is found out about it afterwards concerns nobody.
    given_up: AtomicBool,
}

impl Lost {
    /// The first reason stays.
    fn lose(&self, reason: JournalError) {
        if self.given_up.load(Ordering::Acquire) {
            return;
        }
        // Before anybody is told: a run that is cancelled asks whether this is why.
        let _ = self.reason.set(reason);
        self.cancel();
    }

    fn cancel(&self) {
        self.token.cancel();
        if let Some(run) = self.run.get() {
            run.cancel();
        }
    }

    /// Why the thread is lost, if it is.
    pub(super) fn reason(&self) -> Option<JournalError> {
        self.reason.get().map(JournalError::duplicate)
    }
}

/// No lease is longer: what ends later than clocks can say would never end.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Lease {
    /// Becomes the owner of a thread, for a year at most. A thread that does not exist begins to, and is gone again where
    /// nothing was written.
    ///
    /// # Errors
    /// [`JournalError::Busy`] when it has an owner whose lease has not run out, unless the claim
    /// [takes over](Claim::take_over).
    pub async fn claim(
        journal: Arc<dyn Journal>,
        thread: impl Into<ThreadId>,
        mut claim: Claim,
    ) -> Result<Self, JournalError> {
        claim.lease = claim.lease.min(LONGEST);
        let (thread, owner, duration, claimed) = (thread.into(), claim.owner.clone(), claim.lease, Instant::now());
        let fence = Claiming::new(journal.clone(), thread.clone(), claim).done().await?;
        let lost: Arc<Lost> = Arc::default();
        let heartbeat = Heartbeat { journal: journal.clone(), thread: thread.clone(), fence, lease: duration };
        let heartbeat = tokio::spawn(heartbeat.beat(claimed, lost.clone()));
        Ok(Self { journal, thread, owner, fence, duration, lost, heartbeat, held: true })
    }

    /// Becomes the owner of a thread whoever has it. What that owner was doing is in doubt then, and it can write no more.
    ///
    /// # Errors
    /// When the storage fails or the name cannot be used.
    pub async fn take_over(
        journal: Arc<dyn Journal>,
        thread: impl Into<ThreadId>,
        claim: Claim,
    ) -> Result<Self, JournalError> {
        Self::claim(journal, thread, claim.take_over()).await
    }

    /// Cancels the run too once the thread is lost. It asks [`why_lost`](Self::why_lost) then: nobody wished its end.
    pub(crate) fn of_run(self, run: CancellationToken) -> Self {
        if self.lost.run.set(run).is_ok() && self.lost.token.is_cancelled() {
            self.lost.cancel();
        }
        self
    }

    /// The journal that has the thread.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// The thread.
    pub fn thread(&self) -> &str {
        &self.thread
    }

    /// Who claimed it, as others that want the thread are told.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// What proves the ownership to the journal, for appends.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long the thread stays owned without being renewed.
    pub(crate) fn duration(&self) -> Duration {
        self.duration
    }

    /// Is cancelled when the thread is lost: somebody took it over, or the lease ran out while the journal could not be
    /// reached. Whoever works on the thread is to stop.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost.token
    }

    /// Why the thread is lost, if it is: [`JournalError::Fenced`] where somebody took it over, and
    /// [`JournalError::Unavailable`] where the journal could not be reached for as long as the lease lasted.
    pub fn why_lost(&self) -> Option<JournalError> {
        self.lost.reason()
    }

    /// The same for whoever writes to the thread.
    pub(super) fn losing(&self) -> Arc<Lost> {
        self.lost.clone()
    }

    /// Renews the lease now: it then runs out after its full time. It is renewed in the background anyway; this tells for
    /// certain, before something that must not be done twice, that the thread is still owned.
    ///
    /// # Errors
    /// [`JournalError::Fenced`] when it is not. [`lost`](Self::lost) is cancelled then.
    pub async fn renew(&self) -> Result<(), JournalError> {
        let renewed = self.journal.renew(&self.thread, self.fence, self.duration).await;
        if let Err(fenced @ JournalError::Fenced { .. }) = &renewed {
            self.lost.lose(fenced.duplicate());
        }
        renewed
    }

    /// Releases the thread and waits until that is done.
    ///
    /// # Errors
    /// When the storage fails; the lease runs out by itself then.
    pub async fn release(mut self) -> Result<(), JournalError> {
        // A renewal behind the release would find that the thread is not owned, and tell so to a run that has ended.
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
        // Polled once here, so that it precedes whatever this process asks of the journal next. If it fails, the lease
        // runs out by itself.
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

/// A claim that is made to its end if nobody waits for it any more, and given up then: journals may carry it out all the
/// same, and the thread would be owned by nobody for a whole lease.
struct Claiming {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    claim: Option<BoxFuture<'static, Result<Fence, JournalError>>>,
}

impl Claiming {
    fn new(journal: Arc<dyn Journal>, thread: ThreadId, claim: Claim) -> Self {
        let (to, of) = (journal.clone(), thread.clone());
        let claim = Box::pin(async move { to.claim(&of, claim).await });
        Self { journal, thread, claim: Some(claim) }
    }

    async fn done(mut self) -> Result<Fence, JournalError> {
        let claimed = match &mut self.claim {
            Some(claim) => claim.as_mut().await,
            None => Err(JournalError::Storage("the claim was already made".into())),
        };
        self.claim = None;
        claimed
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        if let (Some(claim), Ok(runtime)) = (self.claim.take(), tokio::runtime::Handle::try_current()) {
            let (journal, thread) = (self.journal.clone(), self.thread.clone());
            runtime.spawn(async move {
                if let Ok(fence) = claim.await {
                    // It runs out if that fails.
                    let _ = journal.release(&thread, fence).await;
                }
            });
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
    async fn beat(self, claimed: Instant, lost: Arc<Lost>) {
        let pause = (self.lease / 3).max(Duration::from_millis(1));
        // After a failure sooner, so that the lease does not run out although the storage is back.
        let pause_after_failure = (self.lease / 30).max(Duration::from_millis(1));
        let (mut ends, mut next) = (claimed + self.lease, pause);
        loop {
            if !next.is_zero() {
                tokio::time::sleep(next).await;
            }
            next = pause;
            let asked = Instant::now();
            let renewal = self.journal.renew(&self.thread, self.fence, self.lease);
            // A process that was stopped past the end of its lease asks once more: nobody may have come.
            let until = if asked < ends { ends } else { asked + pause };
            match tokio::time::timeout_at(until, renewal).await {
                Ok(Ok(())) => ends = asked + self.lease,
                Ok(Err(fenced @ JournalError::Fenced { .. })) => return lost.lose(fenced),
                Ok(Err(_)) if Instant::now() < ends => next = pause_after_failure,
                Ok(Err(error)) => return lost.lose(self.unavailable(&error.to_string())),
                // One that was stopped while it waited for an answer asks again too: the time was up before it could be read.
                Err(_) if Instant::now() >= until + pause / 2 => next = Duration::ZERO,
                Err(_) => return lost.lose(self.unavailable("no renewal got an answer")),
            }
        }
    }

    fn unavailable(&self, why: &str) -> JournalError {
        JournalError::Unavailable { source: format!("the lease of thread `{}` expired: {why}", self.thread).into() }
    }
}
