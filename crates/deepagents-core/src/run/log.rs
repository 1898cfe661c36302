//! An agent's access to its thread's log.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{LogPosition, RunId};
use crate::journal::{
    JournalError, LastRun, Lease, LogWriter, Record, Replay, SnapshotRule, ThreadInstance, UnknownChannels,
};
use crate::machine::Machine;
use crate::state::{Schema, State};

/// Time limit for releasing the thread.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Collects the records of an agent and appends them in batches.
#[derive(Default)]
pub(crate) struct Log {
    /// Set if the agent owns the thread.
    lease: Option<Lease>,
    /// The writer that sub-agents share.
    pub(super) to: Option<LogWriter>,
    /// The path of the sub-agent that writes these records, if any.
    path: Option<Arc<[String]>>,
    /// The path of the thread's own agent in a tree of agents; not empty for a background agent.
    pub(super) root: Vec<String>,
    end: LogPosition,
    waiting: Vec<Record>,
    /// Whether the log could not be written. Nothing more is written then.
    failed: bool,
    rule: SnapshotRule,
    /// Bytes of the log that the snapshot rule has counted.
    counted: u64,
    /// Values of channels that the agent does not have.
    kept: UnknownChannels,
    /// The thread instance, if the agent owns the thread.
    pub(super) thread: Option<ThreadInstance>,
    /// The runs of the thread when it was read, latest first.
    runs: Vec<String>,
}

impl Log {
    /// The log of an owned thread.
    pub(crate) fn own(
        lease: Lease,
        instance: ThreadInstance,
        end: LogPosition,
        rule: SnapshotRule,
        left: &Replay,
    ) -> Self {
        let writer = LogWriter::new(&lease, end);
        let runs = left.run.iter().map(|last| &last.run).chain(&left.earlier_runs).cloned().collect();
        let kept = left.kept.clone();
        Self { lease: Some(lease), to: Some(writer), end, rule, kept, thread: Some(instance), runs, ..Self::default() }
    }

    /// A sub-agent's part of a log.
    pub(crate) fn below(writer: Option<LogWriter>, path: Arc<[String]>) -> Self {
        Self { to: writer, path: Some(path), ..Self::default() }
    }

    pub(crate) fn push(&mut self, record: impl FnOnce() -> Record) {
        if self.to.is_none() {
            return;
        }
        let record = record();
        self.waiting.push(match &self.path {
            Some(path) => Record::Child { path: path.to_vec(), entry: Box::new(record) },
            None => record,
        });
    }

    /// Returns whether records are stored.
    pub(crate) fn is_kept(&self) -> bool {
        self.to.is_some()
    }

    /// Returns whether the log could not be written, so that what followed is not in it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns why the thread was lost, if it was. Nothing more is written in that case: the next run finds the log as
    /// after a crash.
    pub(crate) fn why_lost(&self) -> Option<JournalError> {
        self.to.as_ref().and_then(LogWriter::why_lost)
    }

    /// Returns the number of records waiting to be appended.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the position after the last append, if known.
    pub(crate) fn end(&self) -> Option<LogPosition> {
        (self.is_kept() && self.end > 0).then_some(self.end)
    }

    /// Returns whether a snapshot is due.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.lease.is_some() && self.rule.is_due()
    }

    /// Appends the collected records. If `give_up` completes first, this returns an error, but records already handed
    /// to the writer are still written if possible.
    ///
    /// After a failure nothing more is written, because later records would depend on lost ones. The thread's next run
    /// finds the log as after a crash.
    pub(crate) async fn flush(&mut self, give_up: impl Future<Output = ()>) -> Result<(), JournalError> {
        let (Some(writer), false) = (&self.to, self.waiting.is_empty()) else { return Ok(()) };
        match until(give_up, writer.append(std::mem::take(&mut self.waiting))).await {
            Ok(end) => {
                self.end = end;
                let bytes = writer.bytes();
                self.rule.appended(bytes.saturating_sub(self.counted));
                self.counted = bytes;
                Ok(())
            }
            Err(error) => {
                self.fail();
                Err(error)
            }
        }
    }

    fn fail(&mut self) {
        self.to = None;
        self.failed = true;
    }

    /// Replays the log of the whole thread for an agent with these channels, unless `give_up` completes first. Returns
    /// `None` without a log. After a failure nothing more is written.
    pub(crate) async fn replay(
        &mut self,
        schema: Arc<Schema>,
        give_up: impl Future<Output = ()>,
    ) -> Result<Option<Replay>, JournalError> {
        let Some(writer) = &self.to else { return Ok(None) };
        let replay = until(give_up, writer.replay(schema)).await;
        if replay.is_err() {
            self.fail();
        }
        replay.map(Some)
    }

    /// Writes a snapshot if one is due, unless `give_up` completes first. All records must be in the log and no call in
    /// progress.
    pub(crate) async fn snapshot_if_due(
        &mut self,
        run: &RunId,
        state: &State,
        machine: &Machine,
        give_up: impl Future<Output = ()>,
    ) -> Result<(), JournalError> {
        let (Some(lease), true) = (&self.lease, self.is_snapshot_due()) else { return Ok(()) };
        let last = LastRun {
            run: run.get().to_string(),
            ended: None,
            attempt: run.attempt(),
            thread: self.thread.clone(),
            keys: run.keys_of_copy().map(str::to_owned),
        };
        let replay = Replay {
            path: self.root.clone(),
            state: state.clone(),
            kept: self.kept.clone(),
            machine: Some(machine.clone()),
            run: Some(last),
            turns: machine.turn(),
            earlier_runs: self.runs.iter().filter(|earlier| ***earlier != **run.get()).cloned().collect(),
            end: self.end,
            ..Replay::new(state.schema().clone())
        };
        // Without a snapshot, reading starts further back in the log. That is no reason to end the run.
        let Ok(snapshot) = replay.snapshot(lease.thread()) else {
            self.rule.taken(0);
            return Ok(());
        };
        let written = lease.journal().put_snapshot(lease.thread(), lease.fence(), snapshot);
        match until(give_up, written).await {
            Ok(bytes) => self.rule.taken(bytes),
            Err(JournalError::Fenced { thread }) => return Err(JournalError::Fenced { thread }),
            Err(_) => self.rule.taken(0),
        }
        Ok(())
    }

    /// Releases the thread. Nothing is written after this.
    pub(crate) async fn close(&mut self) -> Result<(), JournalError> {
        self.waiting.clear();
        self.to = None;
        let Some(lease) = self.lease.take() else { return Ok(()) };
        // A lease that is not released in time expires.
        tokio::time::timeout(RELEASE_TIMEOUT, lease.release()).await.unwrap_or(Ok(()))
    }
}

/// Waits for the journal, unless `give_up` completes first.
async fn until<T>(
    give_up: impl Future<Output = ()>,
    work: impl Future<Output = Result<T, JournalError>>,
) -> Result<T, JournalError> {
    tokio::select! {
        biased;
        done = work => done,
        () = give_up => {
            Err(JournalError::Unavailable { source: "the run was ended while it waited for its journal".into() })
        }
    }
}
