//! Owning a thread.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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

/// Who is told that a thread is lost.
#[derive(Default)]
struct Lost {
    token: CancellationToken,
    /// The run that owns the thread with this lease.
    run: OnceLock<CancellationToken>,
}

impl Lost {
    fn cancel(&self) {
        self.token.cancel();
        if let Some(run) = self.run.get() {
            run.cancel();
        }
    }
}

impl Lease {
    /// Becomes the owner of a thread. A thread that does not exist begins to, and is gone again where nothing was written.
    ///
    /// # Errors
    /// [`JournalError::Busy`] when it has an owner whose lease has not run out, unless the claim
    /// [takes over](Claim::take_over).
    pub async fn claim(
        journal: Arc<dyn Journal>,
        thread: impl Into<ThreadId>,
        claim: Claim,
    ) -> Result<Self, JournalError> {
        let (thread, owner, duration, claimed) = (thread.into(), claim.owner.clone(), claim.lease, Instant::now());
        let fence = journal.claim(&thread, claim).await?;
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

    /// Cancels the run too once the thread is lost.
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

    /// Renews the lease now: it then runs out after its full time. It is renewed in the background anyway; this tells for
    /// certain, before something that must not be done twice, that the thread is still owned.
    ///
    /// # Errors
    /// [`JournalError::Fenced`] when it is not. [`lost`](Self::lost) is cancelled then.
    pub async fn renew(&self) -> Result<(), JournalError> {
        let renewed = self.journal.renew(&self.thread, self.fence, self.duration).await;
        if matches!(renewed, Err(JournalError::Fenced { .. })) {
            self.lost.cancel();
        }
        renewed
    }

    /// Releases the thread and waits until that is done.
    ///
    /// # Errors
    /// When the storage fails; the lease runs out by itself then.
    pub async fn release(mut self) -> Result<(), JournalError> {
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
        let (mut ends, mut asks_at_once) = (claimed + self.lease, false);
        loop {
            if !std::mem::take(&mut asks_at_once) {
                tokio::time::sleep(pause).await;
            }
            let asked = Instant::now();
            let renewal = self.journal.renew(&self.thread, self.fence, self.lease);
            // A process that was stopped past the end of its lease asks once more: nobody may have come.
            let until = if asked < ends { ends } else { asked + pause };
            match tokio::time::timeout_at(until, renewal).await {
                Ok(Ok(())) => ends = asked + self.lease,
                Ok(Err(error)) if !matches!(error, JournalError::Fenced { .. }) && Instant::now() < ends => {}
                // One that was stopped while it waited for an answer asks again too: the time was up before it could be read.
                Err(_) if Instant::now() >= until + pause / 2 => asks_at_once = true,
                _ => {
                    lost.cancel();
                    return;
                }
            }
        }
    }
}
