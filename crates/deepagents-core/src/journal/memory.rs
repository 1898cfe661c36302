//! Logs in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;

use super::{Journal, JournalError, Position, Record, ThreadId};

/// Keeps logs in memory, for tests and for programs whose threads need not outlive them.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    threads: Mutex<HashMap<ThreadId, Vec<Record>>>,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<Record>>> {
        // Nothing panics while the lock is held, and a log is only ever extended.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for MemoryJournal {
    fn append<'a>(
        &'a self,
        thread: &'a str,
        expected: Position,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Position, JournalError>> {
        let mut threads = self.lock();
        if !threads.contains_key(thread) {
            threads.insert(thread.to_owned(), Vec::new());
        }
        let result = match threads.get_mut(thread) {
            Some(log) if log.len() as Position == expected => {
                log.extend(records);
                Ok(log.len() as Position)
            }
            log => Err(JournalError::Conflict {
                thread: thread.to_owned(),
                expected,
                found: log.map_or(0, |log| log.len() as Position),
            }),
        };
        Box::pin(std::future::ready(result))
    }

    fn load<'a>(
        &'a self,
        thread: &'a str,
        until: Option<Position>,
    ) -> BoxFuture<'a, Result<Vec<Record>, JournalError>> {
        let records = self.lock().get(thread).map_or_else(Vec::new, |log| {
            let end = until.and_then(|p| usize::try_from(p).ok()).unwrap_or(log.len());
            log.iter().take(end).cloned().collect()
        });
        Box::pin(std::future::ready(Ok(records)))
    }
}
