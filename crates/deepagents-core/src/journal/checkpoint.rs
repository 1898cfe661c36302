//! The checkpoints of a thread: positions from which a run can go on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Journal, JournalError, LogEntry, Record};
use crate::env::Timestamp;
use crate::ids::LogPosition;

/// How many entries are read at once.
const PAGE: u64 = 1_000;

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
/// # Errors
/// When the log cannot be read.
pub async fn checkpoints(
    journal: &dyn Journal,
    thread: &str,
    before: Option<LogPosition>,
    limit: usize,
) -> Result<Vec<Checkpoint>, JournalError> {
    let mut found: VecDeque<Checkpoint> = VecDeque::new();
    let mut walk = Walk::default();
    let mut next = match journal.threads().get(thread).await? {
        Some(info) => 0..info.end,
        None => return Ok(Vec::new()),
    };
    while next.start < next.end {
        let page = next.start..next.end.min(next.start + PAGE);
        next.start = page.end;
        for entry in journal.read(thread, page).await? {
            let Some(checkpoint) = walk.step(entry) else { continue };
            if before.is_some_and(|before| checkpoint.position >= before) {
                return Ok(found.into_iter().rev().collect());
            }
            found.push_back(checkpoint);
            if found.len() > limit {
                found.pop_front();
            }
        }
    }
    Ok(found.into_iter().rev().collect())
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
    fn step(&mut self, entry: LogEntry) -> Option<Checkpoint> {
        let mut parent = self.last;
        let origin = match entry.record {
            Record::RunStarted { run, .. } => {
                (self.run, self.begun, self.changed) = (Some(run), true, false);
                return None;
            }
            Record::RunResumed { run, .. } => {
                self.run = Some(run);
                return None;
            }
            // The step after it says how the run goes on from the change.
            Record::StateUpdated { .. } if self.begun => {
                self.changed = true;
                return None;
            }
            Record::Step { .. } if std::mem::take(&mut self.begun) && !self.changed => CheckpointSource::Input,
            Record::Step { .. } if std::mem::take(&mut self.changed) => CheckpointSource::Update,
            Record::Step { .. } => CheckpointSource::Step,
            Record::StateUpdated { .. } => CheckpointSource::Update,
            Record::Rewind { to, .. } => {
                parent = (to > 0).then_some(to);
                CheckpointSource::Rewind
            }
            _ => return None,
        };
        let position = entry.position + 1;
        self.last = Some(position);
        Some(Checkpoint { v: CHECKPOINT_VERSION, position, parent, at: entry.at, run: self.run.clone(), origin })
    }
}
