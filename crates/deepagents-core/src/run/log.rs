//! The run's end of its thread's log.

use std::sync::Arc;

use crate::journal::{Journal, JournalError, Position, Record};

/// Collects records and appends them together.
pub(crate) struct Log {
    to: Option<(Arc<dyn Journal>, String)>,
    end: Position,
    waiting: Vec<Record>,
}

impl Log {
    /// For runs that nothing is kept of.
    pub(crate) fn none() -> Self {
        Self { to: None, end: 0, waiting: Vec::new() }
    }

    pub(crate) fn new(journal: Arc<dyn Journal>, thread: String, end: Position) -> Self {
        Self { to: Some((journal, thread)), end, waiting: Vec::new() }
    }

    pub(crate) fn push(&mut self, record: impl FnOnce() -> Record) {
        if self.to.is_some() {
            self.waiting.push(record());
        }
    }

    /// Appends what has been collected. Not to be dropped half way: the end of the log would be unknown then.
    pub(crate) async fn flush(&mut self) -> Result<(), JournalError> {
        if let (Some((journal, thread)), false) = (&self.to, self.waiting.is_empty()) {
            self.end = journal.append(thread, self.end, std::mem::take(&mut self.waiting)).await?;
        }
        Ok(())
    }
}
