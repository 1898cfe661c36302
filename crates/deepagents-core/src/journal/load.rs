//! Computes a state from a journal: the nearest snapshot, the records that follow, and the rewinds between them.

use std::sync::Arc;

use super::{
    Journal, JournalError, Loaded, LogEntry, Record, Replay, ReplayedState, Snapshot, SnapshotRule, ThreadInstance,
    read_intact,
};
use crate::ids::LogPosition;
use crate::state::Schema;

/// Returns the state of a thread at a position, by default the end of its log.
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
/// Returns [`JournalError::NoState`] if the log has no state there, and an error if the log cannot be read.
pub async fn load(
    journal: &dyn Journal,
    thread: &str,
    schema: Arc<Schema>,
    at: Option<LogPosition>,
) -> Result<ReplayedState, JournalError> {
    load_replay(journal, thread, schema, at).await?.replay.settled(thread)
}

/// A replay, with further data about its log.
pub(crate) struct LoadedReplay {
    pub(crate) replay: Replay,
    pub(crate) rule: SnapshotRule,
    /// The end of the whole log.
    pub(crate) head: LogPosition,
    /// The identity of the thread.
    pub(crate) thread: ThreadInstance,
}

/// Replays a thread up to a position.
pub(crate) async fn load_replay(
    journal: &dyn Journal,
    thread: &str,
    schema: Arc<Schema>,
    at: Option<LogPosition>,
) -> Result<LoadedReplay, JournalError> {
    // Consecutive pieces of the log, collected from the end backwards until a snapshot or the start precedes them.
    let mut pieces: Vec<Vec<LogEntry>> = Vec::new();
    let mut loaded = load_around(journal, thread, at, &mut pieces).await?;
    let head = loaded.end;
    let instance = ThreadInstance { id: thread.to_owned(), created_at: loaded.created_at };
    let asked = at.unwrap_or(head);
    if asked > head {
        return Err(JournalError::no_state(thread, asked, "the log ends before it"));
    }
    let rule = if pieces.is_empty() {
        SnapshotRule { since: loaded.entry_bytes, last: loaded.snapshot_bytes }
    } else {
        SnapshotRule::due()
    };
    let mut target = pieces.last().and_then(|piece| rewinds_to(piece)).unwrap_or(asked);
    let base = loop {
        let Loaded { snapshot, mut entries, .. } = loaded;
        entries.truncate(entries.partition_point(|entry| entry.position < target));
        let start = snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
        if entries.len() as LogPosition != target.saturating_sub(start) {
            return Err(JournalError::no_state(thread, target, "it was pruned"));
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
            let reason = format_args!("it goes back to position {to}, which is after it");
            return Err(JournalError::damaged(thread, from, reason));
        }
        pieces.push(piece);
        target = to;
        loaded = if to >= start {
            Loaded { snapshot, entries, ..Loaded::default() }
        } else {
            let pieces_before = pieces.len();
            let loaded = load_around(journal, thread, Some(to), &mut pieces).await?;
            if pieces.len() > pieces_before {
                target = pieces.last().and_then(|piece| rewinds_to(piece)).unwrap_or(to);
            }
            loaded
        };
    };
    let replay = replay_pieces(thread, &schema, base.as_ref(), pieces)?;
    Ok(LoadedReplay { replay, rule, head, thread: instance })
}

/// Replays pieces of a log, the last one first, after the snapshot that precedes them.
fn replay_pieces(
    thread: &str,
    schema: &Arc<Schema>,
    base: Option<&Snapshot>,
    pieces: Vec<Vec<LogEntry>>,
) -> Result<Replay, JournalError> {
    let mut replay = match base {
        Some(snapshot) => Replay::restore(thread, schema, snapshot)?,
        None => Replay::new(schema.clone()),
    };
    for entry in pieces.into_iter().rev().flatten() {
        match entry.record {
            Record::Rewind { turn, .. } => replay.rewound(turn, entry.position),
            record => {
                replay.end = entry.position;
                replay.take(thread, record)?;
            }
        }
    }
    replay.adopt_paused();
    Ok(replay)
}

/// Returns the target of the rewind that starts a piece, if one does.
fn rewinds_to(piece: &[LogEntry]) -> Option<LogPosition> {
    match piece.first()?.record {
        Record::Rewind { to, .. } => Some(to),
        _ => None,
    }
}

/// Loads what is needed for the state at a position. A damaged record does not matter if the log is later rewound to
/// before it: the records after the rewind are then added to `pieces`, and the state at its target is loaded.
async fn load_around(
    journal: &dyn Journal,
    thread: &str,
    at: Option<LogPosition>,
    pieces: &mut Vec<Vec<LogEntry>>,
) -> Result<Loaded, JournalError> {
    let mut target = at;
    let mut head = None;
    loop {
        let (damaged, error) = match journal.load(thread, target).await {
            Ok(loaded) => return Ok(Loaded { end: head.unwrap_or(loaded.end), ..loaded }),
            Err(error @ JournalError::Damaged { position, .. }) => (position, error),
            Err(error) => return Err(error),
        };
        let Some(info) = journal.threads().get(thread).await? else { return Err(error) };
        head = Some(info.end);
        let end = target.unwrap_or(info.end);
        let mut later = read_intact(journal, thread, damaged.saturating_add(1)..end).await?;
        let Some(back) = later.iter().rposition(|entry| matches!(entry.record, Record::Rewind { .. })) else {
            return Err(error);
        };
        let piece = later.split_off(back);
        let whole = piece.first().is_some_and(|first| piece.len() as LogPosition == end - first.position);
        match rewinds_to(&piece).filter(|to| whole && *to < end) {
            Some(to) => target = Some(to),
            None => return Err(error),
        }
        pieces.push(piece);
    }
}
