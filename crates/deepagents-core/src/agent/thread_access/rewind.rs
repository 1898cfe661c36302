//! Going back to an earlier position of a thread.

use super::{ThreadAccess, give_up};
use crate::error::{Error, Result};
use crate::ids::LogPosition;
use crate::journal::{self, JournalError, Lease, LogEntry, Record, RecordUpdate};
use crate::state::{State, Update};

/// State changes that go with a rewind; see [`ThreadAccess::rewind_with`].
#[derive(Clone, Debug, Default)]
pub struct RewindPlan {
    /// A change to the state that is left, in effect when the rewind is undone.
    pub left: Update,
    /// A change to the state that the thread continues from.
    pub target: Update,
}

/// The result of a rewind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewindResult {
    /// The position that was left. Rewinding to it undoes the rewind.
    pub left: LogPosition,
    /// The end of the log after the rewind.
    pub end: LogPosition,
}

impl ThreadAccess {
    /// Makes a thread continue from an earlier position, and returns the position after the rewind. The abandoned
    /// records stay in the log on a branch of their own. Equivalent to starting the next run with
    /// [`RunInput::at`](crate::run::RunInput::at).
    ///
    /// # Errors
    /// Returns an error if another owner works on the thread, or the log has no state at the position.
    pub async fn rewind(&self, thread: &str, to: LogPosition) -> Result<LogPosition> {
        let nothing = |_, _| async { Ok::<_, Error>(RewindPlan::default()) };
        Ok(self.rewind_with(thread, to, nothing).await?.end)
    }

    /// Makes a thread continue from an earlier position as [`rewind`](Self::rewind) does, unless something was appended
    /// after its log ended at `end`. If the first record after that is this rewind, returns the position after it.
    ///
    /// # Errors
    /// As [`rewind`](Self::rewind). Also returns [`JournalError::Conflict`] if something else was appended.
    pub async fn rewind_from(&self, thread: &str, end: LogPosition, to: LogPosition) -> Result<LogPosition> {
        let lease = self.claim_thread(thread, "rewind").await?;
        let done = self.append_rewind_from(&lease, end, to).await;
        give_up(lease).await;
        done
    }

    async fn append_rewind_from(&self, lease: &Lease, end: LogPosition, to: LogPosition) -> Result<LogPosition> {
        // Nobody else appends while the thread is claimed.
        let next = lease.journal().read(lease.thread(), end..end.saturating_add(1)).await?;
        match next.first() {
            None => {
                let nothing = |_, _| async { Ok::<_, Error>(RewindPlan::default()) };
                Ok(self.append_rewind(lease, to, nothing).await?.end)
            }
            Some(LogEntry { record: Record::Rewind { to: earlier, .. }, .. }) if *earlier == to => {
                Ok(end.saturating_add(1))
            }
            Some(_) => {
                let thread = lease.thread().to_owned();
                let found = lease.journal().threads().get(&thread).await?.map_or(end, |info| info.end);
                Err(JournalError::Conflict { thread, expected: end, found }.into())
            }
        }
    }

    /// Makes a thread continue from an earlier position, together with data outside its log, such as files on disk.
    ///
    /// `work` receives the current state and the state at the position. It runs while the thread is locked. If it
    /// fails, the thread is unchanged.
    ///
    /// ```
    /// use deepagents_core::agent::{Agent, RewindPlan};
    /// # async fn example(agent: Agent) -> deepagents_core::error::Result<()> {
    /// let rewound = agent.rewind_with("t1", 7, async |here, there| {
    ///     println!("{} messages become {}", here.messages().len(), there.messages().len());
    ///     Ok::<_, deepagents_core::error::Error>(RewindPlan::default())
    /// });
    /// println!("to undo it, rewind to {}", rewound.await?.left);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if another owner works on the thread, the log has no state at the position, or `work` fails.
    pub async fn rewind_with<E: From<Error>>(
        &self,
        thread: &str,
        to: LogPosition,
        work: impl AsyncFnOnce(State, State) -> Result<RewindPlan, E>,
    ) -> Result<RewindResult, E> {
        let lease = self.claim_thread(thread, "rewind").await?;
        let done = self.append_rewind(&lease, to, work).await;
        give_up(lease).await;
        done
    }

    async fn append_rewind<E: From<Error>>(
        &self,
        lease: &Lease,
        to: LogPosition,
        work: impl AsyncFnOnce(State, State) -> Result<RewindPlan, E>,
    ) -> Result<RewindResult, E> {
        let (journal, thread, schema) = (lease.journal(), lease.thread(), &self.schema);
        let here = journal::load_intact(&**journal, thread, schema.clone()).await.map_err(Error::from)?;
        // A rewind to a state that cannot be loaded must fail here.
        let there = journal::load_replay(&**journal, thread, schema.clone(), Some(to)).await.map_err(Error::from)?;
        let (head, turn) = (here.head, here.replay.turns.saturating_add(1));
        let (mut left, mut target) = (here.replay.state.clone(), there.replay.state.clone());
        let work = work(here.replay.state, there.replay.state).await?;
        let ids = &*self.ids;
        let work = RewindPlan { left: work.left.with_ids(ids), target: work.target.with_ids(ids) };
        let storable = work.left.check_storable().and_then(|()| work.target.check_storable());
        storable
            .and_then(|()| left.apply(&work.left))
            .and_then(|()| target.apply(&work.target))
            .map_err(Error::from)?;
        let logged = |update: Update| {
            (!update.is_empty()).then(|| Record::StateUpdated { update: RecordUpdate::Live(update), run: None })
        };
        let before = logged(work.left);
        let left = head + LogPosition::from(before.is_some());
        let back = Record::Rewind { to, turn };
        let records = before.into_iter().chain([back]).chain(logged(work.target)).collect();
        let end = journal.append(thread, lease.fence(), head, records).await.map_err(Error::from)?.end;
        Ok(RewindResult { left, end })
    }
}
