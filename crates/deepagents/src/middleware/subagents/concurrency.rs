//! Limits how many sub-agents of a run work at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use deepagents_core::tool::ToolError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limit on the sub-agents of a run that work at once, at each depth of the tree. An agent holds a place while it
/// waits for those below it, which need places of their own depth, so it never waits for itself.
#[derive(Debug)]
pub(crate) struct RunConcurrency {
    limit: usize,
    /// By depth.
    places: Mutex<Vec<Arc<Semaphore>>>,
}

impl RunConcurrency {
    fn new(limit: usize) -> Self {
        Self { limit: limit.min(Semaphore::MAX_PERMITS), places: Mutex::default() }
    }

    /// Waits for a place for a sub-agent of an agent at this depth.
    pub(super) async fn enter(&self, depth: usize) -> Result<OwnedSemaphorePermit, ToolError> {
        let places = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            if places.len() <= depth {
                places.resize_with(depth + 1, || Arc::new(Semaphore::new(self.limit)));
            }
            places.get(depth).cloned()
        };
        let places = places.unwrap_or_else(|| Arc::new(Semaphore::new(self.limit)));
        Ok(places.acquire_owned().await?)
    }

    /// Returns `true` if this allows fewer than another.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        self.limit < other.limit
    }
}

/// The limits of an agent's runs that have sub-agents at work, by run.
#[derive(Default)]
pub(super) struct RunLimits(Mutex<HashMap<String, Weak<RunConcurrency>>>);

impl RunLimits {
    /// Returns the limit for a run.
    pub(super) fn of(&self, run: &str, limit: usize) -> Arc<RunConcurrency> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runs.get(run).and_then(Weak::upgrade) {
            return known;
        }
        runs.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(RunConcurrency::new(limit));
        runs.insert(run.to_owned(), Arc::downgrade(&new));
        new
    }
}
