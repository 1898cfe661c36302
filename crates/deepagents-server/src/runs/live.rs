//! A pending or running run.

use std::sync::{Mutex, OnceLock, PoisonError};

use deepagents::RunHandle;
use deepagents_core::journal::LogPosition;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::record::RunRecord;
use crate::stream::{EventLog, RunIdentity};

/// How a run is ended from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CancelAction {
    /// What it has done is kept.
    #[default]
    Interrupt,
    /// What it has done is undone, and the run is deleted.
    Rollback,
}

/// A run that this process executes, will execute, or has recently executed.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) id: String,
    pub(crate) thread: String,
    /// Whether another process accepted it and may have begun or execute it.
    pub(super) recovered: bool,
    record: Mutex<RunRecord>,
    /// The events for its streams.
    pub(crate) log: EventLog,
    pub(crate) identity: RunIdentity,
    /// The handle of the agent's run, once it has begun.
    handle: Mutex<Option<RunHandle>>,
    /// The order in which it began among the runs of this process.
    pub(super) order: OnceLock<u64>,
    pub(super) stop: watch::Sender<Option<CancelAction>>,
    done: watch::Sender<bool>,
    /// The end of the log when the run was cancelled.
    cancelled_from: OnceLock<LogPosition>,
}

impl LiveRun {
    pub(crate) fn new(record: RunRecord, recovered: bool) -> Self {
        Self {
            id: record.run_id.clone(),
            thread: record.thread_id.clone(),
            recovered,
            identity: RunIdentity {
                thread: record.thread_id.clone(),
                run: record.run_id.clone(),
                assistant: record.assistant_id.clone(),
                graph: record.graph_id.clone(),
                metadata: record.shown_metadata(),
                tags: record.tags(),
            },
            record: Mutex::new(record),
            log: EventLog::default(),
            handle: Mutex::default(),
            order: OnceLock::new(),
            stop: watch::Sender::new(None),
            done: watch::Sender::new(false),
            cancelled_from: OnceLock::new(),
        }
    }

    /// Returns the handle of the agent's run, or `None` before it begins.
    pub(crate) fn handle(&self) -> Option<RunHandle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_handle(&self, handle: RunHandle) {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }

    pub(crate) fn record(&self) -> RunRecord {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut RunRecord)) -> RunRecord {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut record);
        record.updated_at = crate::ids::now();
        record.clone()
    }

    /// Takes over a stored record.
    pub(super) fn replace(&self, stored: RunRecord) {
        *self.record.lock().unwrap_or_else(PoisonError::into_inner) = stored;
    }

    /// Ends the run.
    pub(crate) fn end(&self, how: CancelAction) {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(how);
            first
        });
    }

    pub(crate) fn cancelled_from(&self) -> Option<LogPosition> {
        self.cancelled_from.get().copied()
    }

    pub(super) fn set_cancelled_from(&self, position: LogPosition) {
        // The first value counts.
        let _ = self.cancelled_from.set(position);
    }

    pub(crate) fn finish(&self) {
        self.log.close();
        self.done.send_replace(true);
    }

    /// Waits until the run has ended and its result is stored.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.done.subscribe().wait_for(|done| *done).await;
    }
}
