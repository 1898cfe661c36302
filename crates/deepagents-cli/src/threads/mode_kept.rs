//! A journal in which an agent works only on threads that allow as much as its own mode.

use std::sync::Arc;

use deepagents::core::futures_core::future::BoxFuture;
use deepagents::core::journal::{Claim, Fence, Journal, JournalError};
use deepagents::forward_journal;

use super::note::keeps_mode;
use crate::args::Approve;

struct ModeKept {
    journal: Arc<dyn Journal>,
    mode: Approve,
}

/// Refuses to work in a mode on threads of stricter modes.
pub(crate) fn keeping_modes(journal: Arc<dyn Journal>, mode: Approve) -> Arc<dyn Journal> {
    Arc::new(ModeKept { journal, mode })
}

impl Journal for ModeKept {
    forward_journal!([.journal]; renew, release, append, load, read, put_snapshot, threads, storage);

    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>> {
        Box::pin(async move {
            // The claim notes the mode of the agent, so that this is the last time at which the earlier one is known.
            if let Some(info) = self.journal.threads().get(thread).await? {
                let option = |mode: &str| format!("--approve {mode}");
                keeps_mode(&info, self.mode, option).map_err(|why| JournalError::Storage(why.into()))?;
            }
            self.journal.claim(thread, claim).await
        })
    }
}
