//! Positions at which a log may end.

use std::collections::BTreeMap;
use std::sync::Mutex;

use deepagents_core::forward_journal;
use deepagents_core::journal::{Appended, Fence, Journal, JournalError, LogPosition, MemoryJournal, Record};
use futures_core::future::BoxFuture;

/// A journal that records the position after each append. A process may end between appends, not within one.
#[derive(Default)]
pub(crate) struct Appends {
    pub(crate) inner: MemoryJournal,
    ends: Mutex<BTreeMap<String, Vec<usize>>>,
}

impl Appends {
    /// The positions at which the thread `t` may be cut.
    pub(crate) fn cuts(&self) -> Vec<usize> {
        let mut ends = self.ends("t");
        ends.pop();
        ends
    }

    pub(crate) fn ends(&self, thread: &str) -> Vec<usize> {
        self.ends.lock().unwrap().get(thread).cloned().unwrap_or_default()
    }
}

impl Journal for Appends {
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            let appended = self.inner.append(thread, fence, expected, records).await?;
            self.ends.lock().unwrap().entry(thread.to_owned()).or_default().push(appended.end as usize);
            Ok(appended)
        })
    }
}
