//! Follows a thread that another process works on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream;

use super::ThreadAccess;
use crate::error::{Error, Result};
use crate::event::{Event, LogEvents};
use crate::ids::{LogPosition, ThreadId};
use crate::interrupt::ActionRequests;
use crate::journal::load_replay;
use crate::state::{ChannelSpec, MessagesChannel, Schema};

/// Shortest and longest polling interval: the interval doubles while nothing happens.
pub(super) const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Number of entries read at once.
const PAGE: LogPosition = 1_000;

impl ThreadAccess {
    /// Follows a thread through its log, whichever process works on it. The stream yields the
    /// [durable](crate::event::EventKind::is_durable) events of the records after a position, each with its own
    /// position, and then those of new records. It does not end by itself, even when a run has ended: drop it to stop.
    ///
    /// The reader numbers the events itself. Details that the log lacks are omitted or have default values: pieces of
    /// answers, the name of the main agent, why a run failed, and which attempt of an answer succeeded. If the thread
    /// does not exist, the stream waits for it.
    ///
    /// ```
    /// use deepagents_core::agent::ThreadAccess;
    /// use deepagents_core::event::EventKind;
    /// use futures_util::TryStreamExt;
    /// # async fn example(threads: ThreadAccess) -> deepagents_core::error::Result<()> {
    /// let mut events = std::pin::pin!(threads.watch("t1", 0));
    /// while let Some(event) = events.try_next().await? {
    ///     println!("{:?}: {:?}", event.position, event.kind);
    ///     if matches!(event.kind, EventKind::RunFinished { .. } | EventKind::RunFailed { .. }) {
    ///         break;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Yields an error, as the last item, if the log cannot be read or has no state at the position.
    pub fn watch(&self, thread: &str, from: LogPosition) -> impl Stream<Item = Result<Event>> + Send + use<> {
        let watching = self.watching(thread, from);
        stream::try_unfold(watching, |mut watching| async move {
            let event = watching.next().await?;
            Ok(Some((event, watching)))
        })
    }

    /// Returns the [durable](crate::event::EventKind::is_durable) events of a thread's log from a position to its end,
    /// as [`watch`](Self::watch) yields them.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read or has no state at the position.
    pub async fn events(&self, thread: &str, from: LogPosition) -> Result<Vec<Event>> {
        let mut watching = self.watching(thread, from);
        while watching.read().await? {}
        Ok(watching.ready.into())
    }

    fn watching(&self, thread: &str, from: LogPosition) -> Watching {
        let (threads, thread) = (self.clone(), thread.to_owned());
        Watching { threads, thread, next: from, log: None, ready: VecDeque::new() }
    }
}

struct Watching {
    threads: ThreadAccess,
    thread: ThreadId,
    next: LogPosition,
    log: Option<LogEvents>,
    ready: VecDeque<Event>,
}

impl Watching {
    async fn next(&mut self) -> Result<Event> {
        let mut pause = POLL.0;
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if !self.read().await? {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(POLL.1);
            }
        }
    }

    /// Reads the next page. Returns whether there was anything to read.
    async fn read(&mut self) -> Result<bool> {
        let journal = &*self.threads.journal;
        let end = journal.threads().get(&self.thread).await?.map_or(0, |info| info.end);
        if end <= self.next {
            return Ok(false);
        }
        if self.log.is_none() {
            // Questions are reported whatever channels the reader knows.
            let own = [ChannelSpec::new::<MessagesChannel>(), ChannelSpec::new::<ActionRequests>()];
            let known = self.threads.schema.channels().iter().copied();
            let schema = Schema::new(own.into_iter().chain(known)).map_err(Error::other)?;
            let replay = load_replay(journal, &self.thread, Arc::new(schema), Some(self.next)).await?.replay;
            self.log = Some(LogEvents::after(&self.thread, replay));
        }
        let page = self.next..end.min(self.next + PAGE);
        for entry in journal.read(&self.thread, page.clone()).await? {
            if let Some(log) = &mut self.log {
                self.ready.extend(log.of(entry).map_err(Error::from)?);
            }
        }
        self.next = page.end;
        Ok(true)
    }
}
