//! Pruning: removes history without changing the state.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::agents::Pages;
use super::{Claim, Fence, Journal, JournalError, Lease, LogEntry, Record, load_replay, read_intact};
use crate::env::Timestamp;
use crate::ids::LogPosition;
use crate::state::Schema;

/// Lease on the thread while it is pruned.
const LEASE: Duration = Duration::from_secs(60);

/// Which part of a thread's history to keep. The state at every kept position stays the same.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RetentionPolicy {
    /// Only the current state.
    Latest,
    /// The state at a position, and what follows.
    From(LogPosition),
    /// The state at a time, and what follows.
    Since(Timestamp),
    /// Everything except these runs.
    NotRuns(Vec<String>),
}

/// Removes history from a thread. A snapshot first replaces what is removed, so that no kept state depends on it.
/// Positions in the removed range can no longer be rewound to.
///
/// # Errors
/// Returns [`JournalError::Busy`] if another owner works on the thread, [`JournalError::Fenced`] if another owner took
/// it over meanwhile, [`JournalError::Unavailable`] if the storage was unavailable for longer than the lease,
/// [`JournalError::NotFound`] if the thread does not exist, and an error if the log cannot be read or written.
pub async fn prune(
    journal: &Arc<dyn Journal>,
    thread: &str,
    schema: Arc<Schema>,
    keep: &RetentionPolicy,
) -> Result<(), JournalError> {
    if journal.threads().get(thread).await?.is_none() {
        return Err(JournalError::not_found(thread));
    }
    let lease = Lease::claim(journal.clone(), thread, Claim::new("prune", LEASE)).await?;
    let pruned = tokio::select! {
        biased;
        () = lease.lost().cancelled() => {
            Err(lease.why_lost().unwrap_or_else(|| JournalError::fenced(thread)))
        }
        pruned = replace(&**journal, thread, &schema, keep, lease.fence()) => pruned,
    };
    lease.release().await.and(pruned)
}

async fn replace(
    journal: &dyn Journal,
    thread: &str,
    schema: &Arc<Schema>,
    keep: &RetentionPolicy,
    fence: Fence,
) -> Result<(), JournalError> {
    let mut plan = Plan::new(keep);
    let Some(info) = journal.threads().get(thread).await? else { return Ok(()) };
    for page in (Pages { next: 0, end: info.end }) {
        for entry in read_intact(journal, thread, page).await? {
            plan.read_entry(&entry);
        }
    }
    let ranges = plan.ranges(info.end);
    let removed = |position: LogPosition| ranges.iter().any(|range| range.contains(&position));
    let mut wanted: Vec<LogPosition> = ranges.iter().map(|range| range.end).collect();
    // A rewind to a removed position must not depend on it.
    wanted.extend(plan.rewinds.iter().filter(|(at, to)| removed(*to) && !removed(*at)).map(|(at, _)| at + 1));
    for position in wanted {
        let replay = load_replay(journal, thread, schema.clone(), Some(position)).await?.replay;
        journal.put_snapshot(thread, fence, replay.snapshot(thread)?).await?;
    }
    for range in ranges {
        journal.threads().remove(thread, fence, range).await?;
    }
    Ok(())
}

struct Plan<'a> {
    keep: &'a RetentionPolicy,
    /// The start of what is kept, once known.
    begin: Option<LogPosition>,
    /// The start positions and ids of runs.
    runs: Vec<(LogPosition, String)>,
    /// The positions and targets of rewinds.
    rewinds: Vec<(LogPosition, LogPosition)>,
}

impl<'a> Plan<'a> {
    fn new(keep: &'a RetentionPolicy) -> Self {
        Self { keep, begin: None, runs: Vec::new(), rewinds: Vec::new() }
    }

    fn read_entry(&mut self, entry: &LogEntry) {
        match &entry.record {
            Record::RunStarted { run, .. } | Record::RunResumed { run, .. } => {
                self.runs.push((entry.position, run.clone()));
            }
            Record::Rewind { to, .. } => self.rewinds.push((entry.position, *to)),
            _ => {}
        }
        if let RetentionPolicy::Since(time) = self.keep
            && self.begin.is_none()
            && entry.at >= *time
        {
            self.begin = Some(entry.position);
        }
    }

    /// Returns the positions to remove.
    fn ranges(&self, end: LogPosition) -> Vec<Range<LogPosition>> {
        let before = |position: LogPosition| (position > 0).then_some(0..position).into_iter().collect();
        match self.keep {
            RetentionPolicy::Latest => before(end),
            RetentionPolicy::From(position) => before((*position).min(end)),
            RetentionPolicy::Since(_) => before(self.begin.unwrap_or(end)),
            RetentionPolicy::NotRuns(unwanted) => {
                let ends = self.runs.iter().skip(1).map(|(start, _)| *start).chain([end]);
                let spans = self.runs.iter().zip(ends);
                spans.filter(|((_, run), _)| unwanted.contains(run)).map(|((start, _), end)| *start..end).collect()
            }
        }
    }
}
