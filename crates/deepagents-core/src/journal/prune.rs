//! Pruning: less history, the same state.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{Claim, Fence, Journal, JournalError, Lease, LogEntry, Record, load_replay, read_intact};
use crate::env::Timestamp;
use crate::ids::LogPosition;
use crate::state::Schema;

/// How many entries are read at once.
const PAGE: u64 = 1_000;

/// How long a thread stays owned if the process ends while it is pruned.
const LEASE: Duration = Duration::from_secs(60);

/// What of a thread's history is kept. The state at every position that is kept stays the same.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RetentionPolicy {
    /// The present state alone.
    Latest,
    /// The state at a position, and what follows.
    From(LogPosition),
    /// The state at a time, and what follows.
    Since(Timestamp),
    /// All but these runs.
    NotRuns(Vec<String>),
}

/// Removes history from a thread. What is removed is first replaced by a snapshot of what it amounts to, so that no
/// state that is kept depends on it; positions within it can no longer be gone back to.
///
/// # Errors
/// [`JournalError::Busy`] when somebody works on the thread, [`JournalError::Fenced`] when somebody
/// took it over meanwhile, [`JournalError::Unavailable`] when the storage was away for longer than its lease,
/// [`JournalError::NotFound`] when there is none; otherwise
/// when the log cannot be read or written.
pub async fn prune(
    journal: &Arc<dyn Journal>,
    thread: &str,
    schema: Arc<Schema>,
    keep: &RetentionPolicy,
) -> Result<(), JournalError> {
    if journal.threads().get(thread).await?.is_none() {
        return Err(JournalError::NotFound { thread: thread.to_owned() });
    }
    let lease = Lease::claim(journal.clone(), thread, Claim::new("prune", LEASE)).await?;
    let pruned = tokio::select! {
        biased;
        () = lease.lost().cancelled() => {
            Err(lease.why_lost().unwrap_or_else(|| JournalError::Fenced { thread: thread.to_owned() }))
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
    let mut from = 0;
    while from < info.end {
        let until = info.end.min(from + PAGE);
        for entry in read_intact(journal, thread, from..until).await? {
            plan.see(&entry);
        }
        from = until;
    }
    let ranges = plan.ranges(info.end);
    let removed = |position: LogPosition| ranges.iter().any(|range| range.contains(&position));
    let mut wanted: Vec<LogPosition> = ranges.iter().map(|range| range.end).collect();
    // What goes back to a position that is removed must not need it.
    wanted.extend(plan.rewinds.iter().filter(|(at, to)| removed(*to) && !removed(*at)).map(|(at, _)| at + 1));
    for position in wanted {
        let fold = load_replay(journal, thread, schema.clone(), Some(position)).await?.fold;
        journal.put_snapshot(thread, fence, fold.snapshot(thread)?).await?;
    }
    for range in ranges {
        journal.threads().remove(thread, fence, range).await?;
    }
    Ok(())
}

struct Plan<'a> {
    keep: &'a RetentionPolicy,
    /// Where what is kept begins, once it is known.
    begin: Option<LogPosition>,
    /// Where a run begins, and which.
    runs: Vec<(LogPosition, String)>,
    /// Where the log goes back, and to where.
    rewinds: Vec<(LogPosition, LogPosition)>,
}

impl<'a> Plan<'a> {
    fn new(keep: &'a RetentionPolicy) -> Self {
        Self { keep, begin: None, runs: Vec::new(), rewinds: Vec::new() }
    }

    fn see(&mut self, entry: &LogEntry) {
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

    /// The records to remove.
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
