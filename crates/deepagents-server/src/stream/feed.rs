//! The events of a thread, one run after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use deepagents_core::journal::LogPosition;
use tokio::sync::mpsc;

use super::event::StreamEvent;
use super::log::EventCursor;
use super::past::past;
use crate::app::App;
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
}

impl Feed {
    /// Subscribes to a thread. Starts with the runs cached in this process and, if a position is given, all runs after
    /// it.
    pub(crate) async fn open(app: &Arc<App>, thread: &str, after: Option<LogPosition>) -> Result<Self> {
        let (known, coming) = app.runs.follow(thread);
        if let Err(error) = follow(app, thread).await {
            drop(coming);
            app.runs.unfollow(thread);
            return Err(error);
        }
        let mut past = Vec::new();
        if let Some(after) = after {
            past = of_thread(app, thread).await?;
            let wanted = |record: &RunRecord| record.span().is_some_and(|(_, until)| until >= after);
            past.retain(|record| wanted(record) && known.iter().all(|run| run.id != record.run_id));
        }
        let thread = thread.to_owned();
        Ok(Self { app: app.clone(), thread, past, known: known.into(), coming, reading: None })
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

    /// Returns the next run, or `None` when the server shuts down.
    async fn next_run(&mut self) -> Option<Arc<LiveRun>> {
        while let Some(record) = self.past.last() {
            // A run that can no longer be read leaves a gap instead of blocking the stream.
            let run = past(&self.app, record).await;
            self.past.pop();
            if let Ok(Some(run)) = run {
                return Some(run);
            }
        }
        match self.known.pop_front() {
            Some(run) => Some(run),
            None => {
                tokio::select! {
                    run = self.coming.recv() => run,
                    () = self.app.closed() => None,
                }
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.coming.close();
        self.app.runs.unfollow(&self.thread);
    }
}
