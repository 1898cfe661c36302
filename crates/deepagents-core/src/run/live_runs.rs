//! Runs in progress that have an id chosen by the caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::handle::Inner;
use super::task::RunTask;
use super::{Run, RunHandle, RunInput};
use crate::context::AgentDefinition;
use crate::ids::ThreadId;
use crate::panics::lock;

/// A run's thread, if it has one, and the id chosen by the caller. Ids are unique only within a thread.
type Key = (Option<ThreadId>, String);

/// An agent's runs in progress, by key.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns(Mutex<HashMap<Key, Weak<Inner>>>);

impl LiveRuns {
    /// Starts a run, or returns another owner of the run in progress that has the same id and thread.
    pub(crate) fn start(self: &Arc<Self>, agent: Arc<AgentDefinition>, input: RunInput) -> Run {
        let child = input.thread.clone().filter(|thread| thread.contains('/'));
        let Some(thread) = child else { return self.start_named(agent, input, || ()) };
        let background = agent.background.clone();
        let run = self.start_named(agent, input, background.forget_finished(&thread));
        if background.get::<RunHandle>(&thread).is_none() {
            background.insert(thread.clone(), Arc::new(run.handle()));
            // It may have ended meanwhile.
            background.forget_finished(&thread)();
        }
        run
    }

    fn start_named(
        self: &Arc<Self>,
        agent: Arc<AgentDefinition>,
        input: RunInput,
        ended: impl FnOnce() + Send + 'static,
    ) -> Run {
        let Some(id) = input.id.clone() else { return spawned(Run::prepare(agent, input, ended)) };
        let key = (input.thread.clone(), id);
        let mut live = lock(&self.0);
        if let Some(inner) = live.get(&key).and_then(Weak::upgrade) {
            let handle = RunHandle { inner };
            if !handle.is_finished() {
                return Run::from_handle(handle);
            }
        }
        let (runs, forgotten) = (self.clone(), key.clone());
        let (run, task) = Run::prepare(agent, input, move || {
            runs.forget(&forgotten);
            ended();
        });
        live.insert(key, Arc::downgrade(&run.handle.inner));
        // The end of the run takes the lock.
        drop(live);
        spawned((run, task))
    }

    fn forget(&self, key: &Key) {
        let mut live = lock(&self.0);
        // Keep a newer run that has the same key.
        let is_over = |inner: &Weak<Inner>| inner.upgrade().is_none_or(|inner| RunHandle { inner }.is_finished());
        if live.get(key).is_some_and(is_over) {
            live.remove(key);
        }
    }
}

fn spawned((run, task): (Run, RunTask)) -> Run {
    task.spawn();
    run
}
