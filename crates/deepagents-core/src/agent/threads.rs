//! What an agent does with threads beside running on them.

use std::time::Duration;

use super::Agent;
use crate::error::Result;
use crate::journal::{self, Checkpoint, Claim, Fence, Journal, Keep, Position, Record, RecordUpdate, ThreadId};
use crate::run::{Run, RunInput, check_last_results};
use crate::state::{State, Update};

/// How long a change may own a thread.
const LEASE: Duration = Duration::from_secs(60);

impl Agent {
    /// Goes on with the run of a thread that was killed or failed; see [`RunInput::resume`].
    pub fn resume(&self, thread: impl Into<ThreadId>) -> Run {
        self.run(RunInput::resume(thread))
    }

    /// The state of a thread; empty for an unknown one.
    ///
    /// # Errors
    /// When the agent has no journal or the log cannot be read.
    pub async fn state(&self, thread: &str) -> Result<State> {
        let journal = self.parts.journal()?;
        Ok(journal::load(&**journal, thread, self.parts.schema.clone(), None).await?.state)
    }

    /// The state of a thread at a position of its log, such as that of a checkpoint.
    ///
    /// # Errors
    /// When the log has no state there, because it ends before or was pruned.
    pub async fn state_at(&self, thread: &str, position: Position) -> Result<State> {
        let journal = self.parts.journal()?;
        Ok(journal::load(&**journal, thread, self.parts.schema.clone(), Some(position)).await?.state)
    }

    /// The checkpoints of a thread, newest first: those before a position, at most so many.
    ///
    /// # Errors
    /// When the agent has no journal or the log cannot be read.
    pub async fn history(&self, thread: &str, before: Option<Position>, limit: usize) -> Result<Vec<Checkpoint>> {
        Ok(journal::checkpoints(&**self.parts.journal()?, thread, before, limit).await?)
    }

    /// Changes the state of a thread, and returns the position after the change. A thread that does not exist begins to.
    ///
    /// # Errors
    /// When somebody works on the thread, a channel refuses the change, or it puts a message between calls and their
    /// results.
    pub async fn update_state(&self, thread: &str, update: Update) -> Result<Position> {
        let journal = self.parts.journal()?;
        let fence = journal.claim(thread, Claim::new("update_state", LEASE)).await?;
        let done = self.append_update(&**journal, thread, fence, update).await;
        journal.release(thread, fence).await?;
        done
    }

    async fn append_update(
        &self,
        journal: &dyn Journal,
        thread: &str,
        fence: Fence,
        update: Update,
    ) -> Result<Position> {
        let mut loaded = journal::load_fold(journal, thread, self.parts.schema.clone(), None).await?;
        let update = update.with_ids(&*self.parts.ids);
        loaded.fold.state.apply(&update)?;
        check_last_results(loaded.fold.state.messages())?;
        let record = Record::StateUpdated { update: RecordUpdate::Live(update) };
        Ok(journal.append(thread, fence, loaded.head, vec![record]).await?.end)
    }

    /// Makes a thread go on from an earlier position, and returns the position after that. What came in between stays
    /// in the log, on a branch of its own. Equal to beginning the next run with [`RunInput::at`].
    ///
    /// # Errors
    /// When somebody works on the thread, or the log has no state at the position.
    pub async fn rewind(&self, thread: &str, to: Position) -> Result<Position> {
        let journal = self.parts.journal()?;
        let fence = journal.claim(thread, Claim::new("rewind", LEASE)).await?;
        let done = self.append_rewind(&**journal, thread, fence, to).await;
        journal.release(thread, fence).await?;
        done
    }

    async fn append_rewind(&self, journal: &dyn Journal, thread: &str, fence: Fence, to: Position) -> Result<Position> {
        let head = journal::load_fold(journal, thread, self.parts.schema.clone(), None).await?;
        // What cannot be loaded cannot be gone back to.
        journal::load_fold(journal, thread, self.parts.schema.clone(), Some(to)).await?;
        let record = Record::Rewound { to, turn: head.fold.turns.saturating_add(1) };
        Ok(journal.append(thread, fence, head.head, vec![record]).await?.end)
    }

    /// Removes history from a thread; see [`prune`](journal::prune).
    ///
    /// # Errors
    /// When somebody works on the thread, or there is none.
    pub async fn prune(&self, thread: &str, keep: &Keep) -> Result<()> {
        Ok(journal::prune(&**self.parts.journal()?, thread, self.parts.schema.clone(), keep).await?)
    }
}
