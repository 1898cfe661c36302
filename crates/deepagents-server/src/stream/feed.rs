//! The events of a thread, one run after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use deepagents_core::journal::LogPosition;
use tokio::sync::mpsc;

use super::event::StreamEvent;
use super::log::EventCursor;
use super::past::past;
use crate::app::App;
use crate::auth::Reader;
use crate::error::Result;
use crate::runs::{LiveRun, RunRecord, follow, of_thread};

/// A client's subscription to a thread: earlier runs that it asks for, the current run, and future ones.
pub(crate) struct Feed {
    app: Arc<App>,
    pub(super) thread: String,
    /// Runs to be read from the log, newest first.
    past: Vec<RunRecord>,
    known: VecDeque<Arc<LiveRun>>,
    coming: mpsc::UnboundedReceiver<Arc<LiveRun>>,
    reading: Option<EventCursor>,
    reader: Reader,
}

impl Feed {
    /// Subscribes to a thread. Starts with the runs cached in this process and, if a position is given, all runs after
    /// it.
    pub(crate) async fn open(app: &Arc<App>, thread: &str, after: Option<LogPosition>) -> Result<Self> {
        let (known, coming) = app.runs.follow(thread);
        let mut feed = Self {
            app: app.clone(),
            thread: thread.to_owned(),
            past: Vec::new(),
            known: known.into(),
            coming,
            reading: None,
            reader: Reader::current(),
        };
        follow(app, thread).await?;
        if after.is_none() && !feed.reader.is_authenticated() {
            return Ok(feed);
        }
        let stored = of_thread(app, thread).await?;
        if feed.reader.is_authenticated() {
            // Runs of a deleted thread of the same name may still be cached.
            feed.known.retain(|run| stored.iter().any(|record| record.run_id == run.id));
        }
        if let Some(after) = after {
            let ends_later = |record: &RunRecord| record.span().is_some_and(|(_, until)| until >= after);
            let is_known = |record: &RunRecord| feed.known.iter().any(|run| run.id == record.run_id);
            let wanted = stored.into_iter().filter(|record| ends_later(record) && !is_known(record));
            feed.past = wanted.collect();
        }
        Ok(feed)
    }

    /// Returns the next event with its run. Cancel safe: dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Option<(Arc<LiveRun>, Arc<StreamEvent>)> {
        loop {
            if self.reading.is_none() {
                self.reading = Some(EventCursor::new(self.next_run().await?, 0));
            }
            let reading = self.reading.as_mut()?;
            if let Some(event) = reading.next().await {
                return Some((reading.run.clone(), event));
            }
            self.reading = None;
        }
    }

    /// Whether the client may still read the thread.
    pub(super) async fn is_readable(&self) -> bool {
        self.reader.may_read(&self.app, &self.thread).await
    }

    /// Returns the next run, or `None` when the server shuts down or the thread belongs to somebody else.
    async fn next_run(&mut self) -> Option<Arc<LiveRun>> {
        while let Some(record) = self.past.last() {
            // A run that can no longer be read leaves a gap instead of blocking the stream.
            let run = past(&self.app, record).await;
            self.past.pop();
            if let Ok(Some(run)) = run {
                return Some(run);
            }
        }
        if self.known.is_empty() {
            let run = tokio::select! {
                run = self.coming.recv() => run,
                () = self.app.closed() => None,
            };
            // Kept across the check, so that dropping the future loses no run.
            self.known.push_back(run?);
        }
        if !self.is_readable().await {
            return None;
        }
        self.known.pop_front()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.coming.close();
        self.app.runs.unfollow(&self.thread);
    }
}
