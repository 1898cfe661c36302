//! The run's end of its thread's log.

use crate::ids::LogPosition;
use crate::journal::{JournalError, LastRun, Lease, Record, Replay, SnapshotRule, UnknownChannels};
use crate::machine::{Machine, Open};
use crate::state::State;

/// Collects records and appends them together.
pub(crate) struct Log {
    to: Option<Lease>,
    end: LogPosition,
    waiting: Vec<Record>,
    rule: SnapshotRule,
    /// What channels that the agent does not have hold.
    kept: UnknownChannels,
}

impl Log {
    /// For runs that nothing is kept of.
    pub(crate) fn none() -> Self {
        Self { to: None, end: 0, waiting: Vec::new(), rule: SnapshotRule::default(), kept: UnknownChannels::default() }
    }

    pub(crate) fn new(lease: Lease, end: LogPosition, rule: SnapshotRule, kept: UnknownChannels) -> Self {
        Self { to: Some(lease), end, waiting: Vec::new(), rule, kept }
    }

    pub(crate) fn push(&mut self, record: impl FnOnce() -> Record) {
        if self.to.is_some() {
            self.waiting.push(record());
        }
    }

    /// Whether something waits to be appended.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the next snapshot is due.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.to.is_some() && self.rule.is_due()
    }

    /// Appends what has been collected. Not to be dropped half way: the end of the log would be unknown then.
    ///
    /// After a failure nothing more is written: what follows would lack what was lost. The next run of the thread
    /// finds the log as a crash would have left it.
    pub(crate) async fn flush(&mut self) -> Result<(), JournalError> {
        let (Some(lease), false) = (&self.to, self.waiting.is_empty()) else { return Ok(()) };
        let records = std::mem::take(&mut self.waiting);
        match lease.journal().append(lease.thread(), lease.fence(), self.end, records).await {
            Ok(appended) => {
                self.end = appended.end;
                self.rule.appended(appended.bytes);
                Ok(())
            }
            Err(error) => {
                self.to = None;
                Err(error)
            }
        }
    }

    /// Writes a snapshot if one is due. Everything must be in the log, and no call under way.
    pub(crate) async fn snapshot_if_due(
        &mut self,
        run: &str,
        state: &State,
        machine: &Machine,
    ) -> Result<(), JournalError> {
        let (Some(lease), true) = (&self.to, self.rule.is_due()) else { return Ok(()) };
        let fold = Replay {
            state: state.clone(),
            kept: self.kept.clone(),
            machine: Some(machine.clone()),
            run: Some(LastRun { run: run.to_owned(), ended: None }),
            open: Open::default(),
            turns: machine.turn(),
            end: self.end,
        };
        let snapshot = fold.snapshot(lease.thread())?;
        let bytes = lease.journal().put_snapshot(lease.thread(), lease.fence(), snapshot).await?;
        self.rule.taken(bytes);
        Ok(())
    }

    /// Gives the thread up. Nothing is written after this.
    pub(crate) async fn close(&mut self) -> Result<(), JournalError> {
        self.waiting.clear();
        match self.to.take() {
            Some(lease) => lease.release().await,
            None => Ok(()),
        }
    }
}
