//! From a journal to a state: the nearest snapshot, what follows it, and the branches between.

use std::sync::Arc;

use super::{Journal, JournalError, Loaded, LogEntry, Record, Replay, ReplayedState, SnapshotRule};
use crate::ids::LogPosition;
use crate::state::Schema;

/// What a thread amounts to at a position, by default the end of its log.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::journal::{MemoryJournal, load};
/// use deepagents_core::state::Schema;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let folded = load(&MemoryJournal::new(), "nobody", Arc::new(Schema::default()), None).await?;
/// assert_eq!(folded.end, 0);
/// # Ok::<(), deepagents_core::journal::JournalError>(()) }).unwrap();
/// ```
///
/// # Errors
/// [`JournalError::NoState`] when the log has no state there; otherwise when the log cannot be read.
pub async fn load(
    journal: &dyn Journal,
    thread: &str,
    schema: Arc<Schema>,
    at: Option<LogPosition>,
) -> Result<ReplayedState, JournalError> {
    load_replay(journal, thread, schema, at).await?.fold.settled(thread)
}

/// A fold, and what its log says beside.
pub(crate) struct LoadedReplay {
    pub(crate) fold: Replay,
    pub(crate) rule: SnapshotRule,
    /// Where the whole log ends.
    pub(crate) head: LogPosition,
}

/// Folds what a thread amounts to at a position.
pub(crate) async fn load_replay(
    journal: &dyn Journal,
    thread: &str,
    schema: Arc<Schema>,
    at: Option<LogPosition>,
) -> Result<LoadedReplay, JournalError> {
    let loaded = journal.load(thread, at).await?;
    let (head, target) = (loaded.end, at.unwrap_or(loaded.end));
    let no_state = |position, reason| JournalError::NoState { thread: thread.to_owned(), position, reason };
    if target > head {
        return Err(no_state(target, "the log ends before it"));
    }
    let rule = SnapshotRule { since: loaded.entry_bytes, last: loaded.snapshot_bytes };
    // From the end backwards: pieces of the log that follow each other, up to where a snapshot or the start is below.
    let mut pieces: Vec<Vec<LogEntry>> = Vec::new();
    let mut target = target;
    let mut loaded = loaded;
    let base = loop {
        let Loaded { snapshot, mut entries, .. } = loaded;
        entries.truncate(entries.partition_point(|entry| entry.position < target));
        let start = snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
        if entries.len() as LogPosition != target.saturating_sub(start) {
            return Err(no_state(target, "it was pruned"));
        }
        let back = entries.iter().rposition(|entry| matches!(entry.record, Record::Rewind { .. }));
        let Some(back) = back else {
            pieces.push(entries);
            break snapshot;
        };
        let piece = entries.split_off(back);
        let Some(Record::Rewind { to, .. }) = piece.first().map(|entry| &entry.record) else { break snapshot };
        let (to, from) = (*to, start + back as LogPosition);
        if to > from {
            return Err(JournalError::Damaged {
                thread: thread.to_owned(),
                position: from,
                reason: format!("it goes back to position {to}, which is after it"),
            });
        }
        pieces.push(piece);
        target = to;
        loaded = if to >= start {
            Loaded { snapshot, entries, ..Loaded::default() }
        } else {
            journal.load(thread, Some(to)).await?
        };
    };
    let mut fold = match base {
        Some(snapshot) => Replay::restore(thread, &schema, &snapshot)?,
        None => Replay::new(schema),
    };
    for entry in pieces.into_iter().rev().flatten() {
        match entry.record {
            Record::Rewind { turn, .. } => fold.rewound(turn, entry.position),
            record => {
                fold.end = entry.position;
                fold.take(thread, record)?;
            }
        }
    }
    fold.adopt_paused();
    Ok(LoadedReplay { fold, rule, head })
}
