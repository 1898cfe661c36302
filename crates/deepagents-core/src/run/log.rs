//! An agent's end of its thread's log.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{LogPosition, RunId};
use crate::journal::{
    JournalError, LastRun, Lease, LogWriter, Record, Replay, SnapshotRule, ThreadInstance, UnknownChannels,
};
use crate::machine::Machine;
use crate::state::{Schema, State};

/// How long giving up the thread may take.
const RELEASE: Duration = Duration::from_secs(5);

/// Collects the records of an agent and appends them together.
#[derive(Default)]
pub(crate) struct Log {
    /// For the agent that owns the thread.
    lease: Option<Lease>,
    to: Option<LogWriter>,
    /// The agent below another one whose records these are.
    path: Option<Arc<[String]>>,
    /// Where in a tree of agents the thread's own agent is: the path of one in the background.
    root: Vec<String>,
    end: LogPosition,
    waiting: Vec<Record>,
    rule: SnapshotRule,
    /// Bytes of the log that the rule knows of.
    counted: u64,
    /// What channels that the agent does not have hold.
    kept: UnknownChannels,
    /// The thread, where it is owned.
    thread: Option<ThreadInstance>,
    /// The runs that the thread had when it was read, the last one first.
    runs: Vec<String>,
}

impl Log {
    /// The log of a thread that is owned.
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

    /// The part of a log that an agent below has.
    pub(crate) fn below(writer: Option<LogWriter>, path: Arc<[String]>) -> Self {
        Self { to: writer, path: Some(path), ..Self::default() }
    }

    /// Says where in a tree of agents the thread's own agent is.
    pub(crate) fn set_root(&mut self, path: Vec<String>) {
        self.root = path;
    }

    /// Whether the thread is that of an agent in the background.
    pub(crate) fn has_root(&self) -> bool {
        !self.root.is_empty()
    }

    /// The thread, where it is owned.
    pub(crate) fn thread(&self) -> Option<&ThreadInstance> {
        self.thread.as_ref()
    }

    /// What agents below write with.
    pub(crate) fn writer(&self) -> Option<&LogWriter> {
        self.to.as_ref()
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

    /// Whether what is written is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.to.is_some()
    }

    /// Why the thread is lost, if it is. Nothing more is written then: whoever goes on with the run finds the log as a
    /// crash would have left it.
    pub(crate) fn why_lost(&self) -> Option<JournalError> {
        self.to.as_ref().and_then(LogWriter::why_lost)
    }

    /// How many records wait to be appended.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The position behind what was appended last, where it is known.
    pub(crate) fn end(&self) -> Option<LogPosition> {
        (self.is_kept() && self.end > 0).then_some(self.end)
    }

    /// Whether the next snapshot is due.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.lease.is_some() && self.rule.is_due()
    }

    /// Appends what has been collected, unless it is given up first: what was handed over is written all the same if it
    /// can be.
    ///
    /// After a failure nothing more is written: what follows would lack what was lost. The next run of the thread
    /// finds the log as a crash would have left it.
    pub(crate) async fn flush(&mut self, give_up: impl Future<Output = ()>) -> Result<(), JournalError> {
        let (Some(writer), false) = (&self.to, self.waiting.is_empty()) else { return Ok(()) };
        let append = writer.append(std::mem::take(&mut self.waiting));
        let appended = tokio::select! {
            biased;
            appended = append => appended,
            () = give_up => Err(ended_waiting()),
        };
        match appended {
            Ok(end) => {
                self.end = end;
                let bytes = writer.bytes();
                self.rule.appended(bytes.saturating_sub(self.counted));
                self.counted = bytes;
                Ok(())
            }
            Err(error) => {
                self.to = None;
                Err(error)
            }
        }
    }

    /// What the log of the whole thread amounts to, for an agent with these channels, unless it is given up first; none
    /// without a log. After a failure nothing more is written.
    pub(crate) async fn replay(
        &mut self,
        schema: Arc<Schema>,
        give_up: impl Future<Output = ()>,
    ) -> Result<Option<Replay>, JournalError> {
        let Some(writer) = &self.to else { return Ok(None) };
        let replay = tokio::select! {
            biased;
            replay = writer.replay(schema) => replay,
            () = give_up => Err(ended_waiting()),
        };
        if replay.is_err() {
            self.to = None;
        }
        replay.map(Some)
    }

    /// Writes a snapshot if one is due, unless it is given up first. Everything must be in the log, and no call under way.
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
        // A log without a snapshot is read from further back; that is no reason to end the run.
        let Ok(snapshot) = replay.snapshot(lease.thread()) else {
            self.rule.taken(0);
            return Ok(());
        };
        let written = tokio::select! {
            biased;
            written = lease.journal().put_snapshot(lease.thread(), lease.fence(), snapshot) => written,
            () = give_up => Err(ended_waiting()),
        };
        match written {
            Ok(bytes) => self.rule.taken(bytes),
            Err(JournalError::Fenced { thread }) => return Err(JournalError::Fenced { thread }),
            Err(_) => self.rule.taken(0),
        }
        Ok(())
    }

    /// Gives the thread up. Nothing is written after this.
    pub(crate) async fn close(&mut self) -> Result<(), JournalError> {
        self.waiting.clear();
        self.to = None;
        match self.lease.take() {
            Some(lease) => match tokio::time::timeout(RELEASE, lease.release()).await {
                Ok(released) => released,
                // It runs out.
                Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }
}

fn ended_waiting() -> JournalError {
    JournalError::Unavailable { source: "the run was ended while it waited for its journal".into() }
}
