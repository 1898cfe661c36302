//! The runs of an agent that are under way and have an id of the caller's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::handle::Inner;
use super::{Run, RunHandle, RunInput};
use crate::context::AgentDefinition;
use crate::ids::ThreadId;

/// The thread of a run, if it has one, and the id that its caller gave it: an id says nothing across threads.
type Key = (Option<ThreadId>, String);

/// The runs of an agent that are under way, by what their callers named them.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns(Mutex<HashMap<Key, Weak<Inner>>>);

impl LiveRuns {
    /// Starts a run, or gives another owner of the one that has the id of the input on its thread and is under way.
    pub(crate) fn start(self: &Arc<Self>, agent: Arc<AgentDefinition>, input: RunInput) -> Run {
        let child = input.thread.clone().filter(|thread| thread.contains('/'));
        let Some(thread) = child else { return self.start_named(agent, input) };
        let (background, ended) = (agent.background.clone(), thread.clone());
        let run = self.start_named(agent, input);
        if background.get::<RunHandle>(&ended).is_none() {
            background.insert(thread, Arc::new(run.handle()));
        }
        run
    }

    fn start_named(self: &Arc<Self>, agent: Arc<AgentDefinition>, input: RunInput) -> Run {
        let Some(id) = input.id.clone() else { return Run::start(agent, input, || ()) };
        let key = (input.thread.clone(), id);
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = live.get(&key).and_then(Weak::upgrade) {
            let handle = RunHandle { inner };
            if !handle.is_finished() {
                return Run::own(handle);
            }
        }
        let (runs, ended) = (self.clone(), key.clone());
        let run = Run::start(agent, input, move || runs.forget(&ended));
        live.insert(key, Arc::downgrade(&run.handle.inner));
        run
    }

    fn forget(&self, key: &Key) {
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has taken its place stays.
        let is_over = |inner: &Weak<Inner>| inner.upgrade().is_none_or(|inner| RunHandle { inner }.is_finished());
        if live.get(key).is_some_and(is_over) {
            live.remove(key);
        }
    }
}
