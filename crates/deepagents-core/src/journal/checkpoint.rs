//! The checkpoints of a thread: positions that a run can continue from.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Journal, JournalError, LogEntry, Record, read_intact};
use crate::env::Timestamp;
use crate::ids::LogPosition;

/// Maximum number of entries read at once.
const PAGE: u64 = 1_000;

/// Minimum number of entries read at once, as there are several per checkpoint.
const MIN_PAGE: u64 = 64;

/// Number of entries read beyond what a page needs, to find the run that the page starts in.
const RUN_SEARCH: u64 = 4_000;

/// Version of the JSON form of [`Checkpoint`]. It is incremented when a field changes meaning or is removed, not when
/// one is added.
pub const CHECKPOINT_VERSION: u32 = 1;

/// A position that a run can continue from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// [`CHECKPOINT_VERSION`].
    pub v: u32,
    /// The position.
    pub position: LogPosition,
    /// The previous checkpoint's position. `None` at the start, or if that checkpoint was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<LogPosition>,
    /// When the checkpoint was written.
    pub at: Timestamp,
    /// The run that wrote it, or the last run to write before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What created it.
    pub origin: CheckpointSource,
}

/// What created a checkpoint.
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
    /// A rewind. The parent is its target.
    Rewind,
}

/// Lists up to `limit` checkpoints of a thread before a position, newest first, on all branches.
///
/// Reads the log backwards from that position, no further than needed. Unreadable records are skipped. A checkpoint's
/// run may be unknown in records of earlier versions far from the start of their run.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub async fn checkpoints(
    journal: &dyn Journal,
    thread: &str,
    before: Option<LogPosition>,
    limit: usize,
) -> Result<Vec<Checkpoint>, JournalError> {
    let Some(info) = journal.threads().get(thread).await? else { return Ok(Vec::new()) };
    // A checkpoint's position is the one after its record.
    let mut start = before.map_or(info.end, |before| info.end.min(before.saturating_sub(1)));
    let page = u64::try_from(limit).unwrap_or(PAGE).saturating_mul(4).clamp(MIN_PAGE, PAGE);
    let mut size = page;
    let mut records: Vec<HistoryRecord> = Vec::new();
    let mut beyond = 0;
    while start > 0 && limit > 0 {
        let from = start.saturating_sub(size);
        let entries = read_intact(journal, thread, from..start).await?;
        // Grow the pages to skip pruned ranges quickly.
        size = if entries.is_empty() { size.saturating_mul(8) } else { page };
        records.extend(entries.into_iter().rev().filter_map(HistoryRecord::new));
        match Anchor::find(&records, limit) {
            Some(anchor) if anchor.knows_run || beyond >= RUN_SEARCH => break,
            Some(_) => beyond += start - from,
            None => {}
        }
        start = from;
    }
    // From the anchor onwards it is certain what created each checkpoint. Without an anchor, the records go back to the
    // start of the log.
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

/// A record that is relevant to checkpoints.
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

/// A step from which onwards it is certain what created each checkpoint, whatever precedes it.
struct Anchor {
    position: LogPosition,
    /// Whether the run at that step is known.
    knows_run: bool,
}

impl Anchor {
    /// Finds the oldest step in `records`, newest first, provided that enough checkpoints follow it.
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
    /// Whether the run started with a change by the application instead of an input.
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
            // The step that follows determines how the run continues from the change.
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
