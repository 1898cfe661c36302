//! Runs of agents in the background that are under way in this process.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::ids::ThreadId;
use crate::journal::MemoryJournal;

/// A run that is under way; a layer above says what it is.
pub(crate) trait LiveRun: Any + Send + Sync {
    /// Whether it has ended.
    fn is_finished(&self) -> bool;

    /// Ends it where it is, as the end of the process would.
    fn abort(&self);
}

/// The runs of agents in the background that are under way in this process, by their threads. What owns them is the
/// agent object that started them: they are aborted when it is dropped, and anybody can go on with them.
#[derive(Default)]
pub(crate) struct LiveThreads {
    live: Mutex<HashMap<ThreadId, Arc<dyn LiveRun>>>,
    /// For the tasks of runs without a thread.
    private: OnceLock<Arc<MemoryJournal>>,
}

impl LiveThreads {
    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Arc<dyn LiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn private(&self) -> Arc<MemoryJournal> {
        self.private.get_or_init(Arc::default).clone()
    }

    /// The run of a thread, if it is under way.
    pub(crate) fn get<R: LiveRun + Clone>(&self, thread: &str) -> Option<R> {
        let run: Arc<dyn Any + Send + Sync> = self.lock().get(thread).filter(|run| !run.is_finished())?.clone();
        run.downcast_ref::<R>().cloned()
    }

    /// The threads below another on which runs are under way.
    pub(crate) fn below(&self, parent: &str) -> Vec<ThreadId> {
        let live = self.lock();
        let below = live.iter().filter(|(thread, run)| is_below(thread, parent) && !run.is_finished());
        below.map(|(thread, _)| thread.clone()).collect()
    }

    /// Starts a run on a thread unless one is under way there, which is given then.
    ///
    /// # Errors
    /// How many are under way below the parent, where it is not fewer than `limit`.
    pub(crate) fn start<R: LiveRun + Clone>(
        &self,
        parent: &str,
        thread: &str,
        limit: usize,
        start: impl FnOnce() -> R,
    ) -> Result<R, usize> {
        let mut live = self.lock();
        if let Some(run) = live.get(thread).filter(|run| !run.is_finished()) {
            let run: Arc<dyn Any + Send + Sync> = run.clone();
            if let Some(run) = run.downcast_ref::<R>() {
                return Ok(run.clone());
            }
        }
        let running = live.iter().filter(|(thread, run)| is_below(thread, parent) && !run.is_finished()).count();
        if running >= limit {
            return Err(running);
        }
        let run = start();
        live.insert(thread.to_owned(), Arc::new(run.clone()));
        Ok(run)
    }

    /// Notes a run that somebody else has started.
    pub(crate) fn insert(&self, thread: ThreadId, run: Arc<dyn LiveRun>) {
        self.lock().insert(thread, run);
    }

    /// Forgets the run of a thread if it has ended.
    pub(crate) fn forget_finished(&self, thread: &str) {
        let mut live = self.lock();
        if live.get(thread).is_some_and(|run| run.is_finished()) {
            live.remove(thread);
        }
    }
}

fn is_below(thread: &str, parent: &str) -> bool {
    thread.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/')).is_some_and(|name| !name.contains('/'))
}

impl Drop for LiveThreads {
    fn drop(&mut self) {
        self.lock().values().for_each(|run| run.abort());
    }
}
