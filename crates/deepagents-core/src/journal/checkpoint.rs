//! The checkpoints of a thread: positions from which a run can go on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Journal, JournalError, LogEntry, Record, read_intact};
use crate::env::Timestamp;
use crate::ids::LogPosition;

/// How many entries are read at once, at most.
const PAGE: u64 = 1_000;

/// How many entries are read at once, at least: there are several to a checkpoint.
const SMALLEST_PAGE: u64 = 64;

/// How many entries are read beyond what a page needs to find the run that it begins in.
const RUN_SEARCH: u64 = 4_000;

/// Version of the JSON form of [`Checkpoint`]. It grows when a field changes its meaning or goes away, not when one is added.
pub const CHECKPOINT_VERSION: u32 = 1;

/// A position from which a run can go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// [`CHECKPOINT_VERSION`].
    pub v: u32,
    /// The position.
    pub position: LogPosition,
    /// The position it follows; none at the start, and where what it follows was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<LogPosition>,
    /// When it was written.
    pub at: Timestamp,
    /// The run that wrote it, or wrote last before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What made it.
    pub origin: CheckpointSource,
}

/// What made a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CheckpointSource {
    /// The input of a run.
    Input,
    /// A step of a run.
    Step,
    /// A change by the application.
    Update,
    /// Going back; the parent is where to.
    Rewind,
}

/// The checkpoints of a thread, newest first: those before a position, at most so many. All branches are among them.
///
/// The log is read backwards from that position, no further than the page needs. A record that cannot be read is passed
/// over. The run of a checkpoint is not known where records of earlier versions lie far behind the beginning of theirs.
///
/// # Errors
/// When the log cannot be read.
pub async fn checkpoints(
    journal: &dyn Journal,
    thread: &str,
    before: Option<LogPosition>,
    limit: usize,
) -> Result<Vec<Checkpoint>, JournalError> {
    let Some(info) = journal.threads().get(thread).await? else { return Ok(Vec::new()) };
    // The position of a checkpoint is that after its record.
    let mut start = before.map_or(info.end, |before| info.end.min(before.saturating_sub(1)));
    let mut size = u64::try_from(limit).unwrap_or(PAGE).saturating_mul(4).clamp(SMALLEST_PAGE, PAGE);
    let mut records: Vec<HistoryRecord> = Vec::new();
    let mut beyond = 0;
    while start > 0 && limit > 0 {
        let from = start.saturating_sub(size);
        let entries = read_intact(journal, thread, from..start).await?;
        // What was pruned is left behind quickly.
        size = if entries.is_empty() { size.saturating_mul(8) } else { size };
        records.extend(entries.into_iter().rev().filter_map(HistoryRecord::new));
        match Anchor::find(&records, limit) {
            Some(anchor) if anchor.knows_run || beyond >= RUN_SEARCH => break,
            Some(_) => beyond += start - from,
            None => {}
        }
        start = from;
    }
    // From the anchor on it is certain what each record made; without one, this is all that the log has.
    let anchor = (start > 0).then(|| Anchor::find(&records, limit)).flatten();
    let mut walk = Walk::default();
    let mut found: VecDeque<Checkpoint> = VecDeque::new();
    for record in records.into_iter().rev() {
        let position = record.position;
        let Some(checkpoint) = walk.step(record) else { continue };
        if anchor.as_ref().is_none_or(|anchor| position > anchor.position) {
            found.push_front(checkpoint);
        }
    }
    found.truncate(limit);
    Ok(found.into())
}

/// A record that matters to checkpoints.
struct HistoryRecord {
    position: LogPosition,
    at: Timestamp,
    kind: HistoryKind,
}

enum HistoryKind {
    Started(String),
    Resumed(String),
    Updated,
    Step(Option<String>),
    Rewind(LogPosition),
}

impl HistoryRecord {
    fn new(entry: LogEntry) -> Option<Self> {
        let kind = match entry.record {
            Record::RunStarted { run, .. } => HistoryKind::Started(run),
            Record::RunResumed { run, .. } => HistoryKind::Resumed(run),
            Record::StateUpdated { .. } => HistoryKind::Updated,
            Record::Step { run, .. } => HistoryKind::Step(run),
            Record::Rewind { to, .. } => HistoryKind::Rewind(to),
            _ => return None,
        };
        Some(Self { position: entry.position, at: entry.at, kind })
    }
}

/// A step from which on it is certain what each record made, whatever lies before it.
struct Anchor {
    position: LogPosition,
    /// Whether the run at that step is known.
    knows_run: bool,
}

impl Anchor {
    /// The oldest step among records, newest first, if enough checkpoints follow it.
    fn find(records: &[HistoryRecord], limit: usize) -> Option<Self> {
        let is_certain = |record: &&HistoryRecord| matches!(record.kind, HistoryKind::Step(_) | HistoryKind::Rewind(_));
        let at = records.iter().rposition(|record| matches!(record.kind, HistoryKind::Step(_)))?;
        if records.iter().take(at).filter(is_certain).count() < limit {
            return None;
        }
        let says_run = |record: &HistoryRecord| {
            matches!(record.kind, HistoryKind::Step(Some(_)) | HistoryKind::Started(_) | HistoryKind::Resumed(_))
        };
        let position = records.get(at)?.position;
        Some(Self { position, knows_run: records.iter().skip(at).any(says_run) })
    }
}

#[derive(Default)]
struct Walk {
    run: Option<String>,
    last: Option<LogPosition>,
    begun: bool,
    /// The run began with a change by the application, in place of an input.
    changed: bool,
}

impl Walk {
    fn step(&mut self, record: HistoryRecord) -> Option<Checkpoint> {
        let mut parent = self.last;
        let origin = match record.kind {
            HistoryKind::Started(run) => {
                (self.run, self.begun, self.changed) = (Some(run), true, false);
                return None;
            }
            HistoryKind::Resumed(run) => {
                self.run = Some(run);
                return None;
            }
            // The step after it says how the run goes on from the change.
            HistoryKind::Updated if self.begun => {
                self.changed = true;
                return None;
            }
            HistoryKind::Updated => CheckpointSource::Update,
            HistoryKind::Step(run) => {
                self.run = run.or(self.run.take());
                match (std::mem::take(&mut self.begun), std::mem::take(&mut self.changed)) {
                    (_, true) => CheckpointSource::Update,
                    (true, false) => CheckpointSource::Input,
                    (false, false) => CheckpointSource::Step,
                }
            }
            HistoryKind::Rewind(to) => {
                parent = (to > 0).then_some(to);
                CheckpointSource::Rewind
            }
        };
        let position = record.position + 1;
        self.last = Some(position);
        Some(Checkpoint { v: CHECKPOINT_VERSION, position, parent, at: record.at, run: self.run.clone(), origin })
    }
}
