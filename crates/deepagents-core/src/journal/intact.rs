//! Reads the intact part of logs with damaged records.

use std::ops::Range;
use std::sync::Arc;

use super::{Journal, JournalError, LoadedReplay, LogEntry, Record, SnapshotRule, load_replay};
use crate::ids::LogPosition;
use crate::state::Schema;

/// Reads the entries at these positions, skipping damaged ones.
pub(crate) async fn read_intact(
    journal: &dyn Journal,
    thread: &str,
    positions: Range<LogPosition>,
) -> Result<Vec<LogEntry>, JournalError> {
    let Range { mut start, end } = positions;
    let mut entries = Vec::new();
    while start < end {
        match journal.read(thread, start..end).await {
            Ok(rest) => {
                entries.extend(rest);
                break;
            }
            Err(JournalError::Damaged { position, .. }) if (start..end).contains(&position) => {
                entries.extend(journal.read(thread, start..position).await?);
                start = position + 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(entries)
}

/// Replays a thread to its end, or up to the first damaged record, for a caller that is about to abandon that end. The
/// next turn number is still one that no turn in the log has.
pub(crate) async fn load_intact(
    journal: &dyn Journal,
    thread: &str,
    schema: Arc<Schema>,
) -> Result<LoadedReplay, JournalError> {
    let damaged = match load_replay(journal, thread, schema.clone(), None).await {
        Err(JournalError::Damaged { position, .. }) => position,
        loaded => return loaded,
    };
    let LoadedReplay { mut replay, head, thread: instance, .. } =
        load_replay(journal, thread, schema, Some(damaged)).await?;
    for entry in read_intact(journal, thread, damaged..head).await? {
        let next = match entry.record {
            Record::ToolStarted { call, .. } => call.turn.saturating_add(1),
            Record::Step { machine, .. } => machine.turn(),
            Record::Rewind { turn, .. } => turn,
            _ => continue,
        };
        replay.turns = replay.turns.max(next);
    }
    // The damaged record may have started a turn.
    replay.turns = replay.turns.saturating_add(1);
    Ok(LoadedReplay { replay, rule: SnapshotRule::due(), head, thread: instance })
}
