//! The latest state of a thread that others work on.

use std::fmt;

use super::ThreadAccess;
use crate::error::Result;
use crate::ids::{LogPosition, ThreadId};
use crate::journal::{Replay, ThreadInstance, follow, load_replay};
use crate::state::State;

/// Reads the latest state of a thread again and again. Each time, only what was appended to the log is read, unless the
/// thread has been rewound.
///
/// ```
/// use deepagents_core::agent::{LatestState, ThreadAccess};
/// use deepagents_core::journal::MemoryJournal;
/// use deepagents_core::message::Message;
/// use deepagents_core::state::{State, Update};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let threads = ThreadAccess::new(MemoryJournal::new(), State::default().schema().clone());
/// let mut latest = LatestState::new(&threads, "t1");
/// for n in 1..3 {
///     threads.update_state("t1", Update::message(Message::user("Hello"))).await?;
///     assert_eq!(latest.read().await?.0.messages().len(), n);
/// }
/// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
/// ```
pub struct LatestState {
    threads: ThreadAccess,
    thread: ThreadId,
    /// What has been read, and of which thread of that name.
    known: Option<(Replay, ThreadInstance)>,
}

impl LatestState {
    /// Creates a reader that has read nothing yet.
    pub fn new(threads: &ThreadAccess, thread: impl Into<ThreadId>) -> Self {
        Self { threads: threads.clone(), thread: thread.into(), known: None }
    }

    /// Returns the state at the end of the log, and that position. The state is empty if the thread does not exist.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn read(&mut self) -> Result<(State, LogPosition)> {
        let (journal, thread) = (&*self.threads.journal, self.thread.as_str());
        let info = journal.threads().get(thread).await?;
        let (end, created_at) = (info.as_ref().map_or(0, |info| info.end), info.map(|info| info.created_at));
        let known = self.known.take().filter(|(_, instance)| instance.created_at == created_at);
        let followed = match known {
            Some((replay, instance)) => {
                follow(journal, thread, replay, end, |_| None).await?.map(|replay| (replay, instance))
            }
            None => None,
        };
        let (replay, instance) = match followed {
            Some(followed) => followed,
            None => {
                let loaded = load_replay(journal, thread, self.threads.schema.clone(), None).await?;
                (loaded.replay, loaded.thread)
            }
        };
        let read = replay.result_so_far(thread)?;
        self.known = Some((replay, instance));
        Ok((read.state, read.end))
    }
}

impl fmt::Debug for LatestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatestState").field("thread", &self.thread).finish_non_exhaustive()
    }
}
