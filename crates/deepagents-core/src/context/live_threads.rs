//! Runs of background agents in progress in this process.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::ids::ThreadId;
use crate::journal::MemoryJournal;
use crate::panics::lock;

/// A run in progress, of a type defined by a higher layer.
pub(crate) trait LiveRun: Any + Send + Sync {
    /// Returns whether it has ended.
    fn is_finished(&self) -> bool;

    /// Aborts the run's task immediately, as the end of the process would.
    fn abort(&self);
}

/// Runs of background agents in progress in this process, by thread. The agent object that started them owns them:
/// dropping it aborts them, and they can be resumed from anywhere.
#[derive(Default)]
pub(crate) struct LiveThreads {
    live: Mutex<HashMap<ThreadId, Arc<dyn LiveRun>>>,
    /// The journal for tasks of runs without a thread.
    private: OnceLock<Arc<MemoryJournal>>,
}

impl LiveThreads {
    pub(crate) fn private(&self) -> Arc<MemoryJournal> {
        self.private.get_or_init(Arc::default).clone()
    }

    /// Returns the run of a thread, if it is in progress.
    pub(crate) fn get<R: LiveRun + Clone>(&self, thread: &str) -> Option<R> {
        running(&lock(&self.live), thread)
    }

    /// Returns the direct children of a thread on which runs are in progress.
    pub(crate) fn below(&self, parent: &str) -> Vec<ThreadId> {
        let live = lock(&self.live);
        let below = live.iter().filter(|(thread, run)| is_below(thread, parent) && !run.is_finished());
        below.map(|(thread, _)| thread.clone()).collect()
    }

    /// Starts a run on a thread, or returns the one already in progress there. `make` returns a run and what starts it.
    ///
    /// # Errors
    /// Returns the number of runs in progress below the parent if it is `limit` or more.
    pub(crate) fn start<R: LiveRun + Clone, S: FnOnce()>(
        &self,
        parent: &str,
        thread: &str,
        limit: usize,
        make: impl FnOnce() -> (R, S),
    ) -> Result<R, usize> {
        let mut live = lock(&self.live);
        if let Some(run) = running(&live, thread) {
            return Ok(run);
        }
        let running = live.iter().filter(|(thread, run)| is_below(thread, parent) && !run.is_finished()).count();
        if running >= limit {
            return Err(running);
        }
        let (run, start) = make();
        live.insert(thread.to_owned(), Arc::new(run.clone()));
        // The end of a run takes the lock.
        drop(live);
        start();
        Ok(run)
    }

    /// Adds a run that was started elsewhere.
    pub(crate) fn insert(&self, thread: ThreadId, run: Arc<dyn LiveRun>) {
        lock(&self.live).insert(thread, run);
    }

    /// Returns a function that removes the run of a thread if it has ended.
    pub(crate) fn forget_finished(self: &Arc<Self>, thread: &str) -> impl FnOnce() + Send + use<> {
        let (live, thread) = (Arc::downgrade(self), thread.to_owned());
        move || {
            let Some(live) = live.upgrade() else { return };
            let mut live = lock(&live.live);
            if live.get(&thread).is_some_and(|run| run.is_finished()) {
                live.remove(&thread);
            }
        }
    }
}

fn running<R: LiveRun + Clone>(live: &HashMap<ThreadId, Arc<dyn LiveRun>>, thread: &str) -> Option<R> {
    let run: &dyn LiveRun = &**live.get(thread)?;
    let run: &dyn Any = run;
    run.downcast_ref::<R>().filter(|run| !run.is_finished()).cloned()
}

fn is_below(thread: &str, parent: &str) -> bool {
    thread.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/')).is_some_and(|name| !name.contains('/'))
}

impl Drop for LiveThreads {
    fn drop(&mut self) {
        lock(&self.live).values().for_each(|run| run.abort());
    }
}
