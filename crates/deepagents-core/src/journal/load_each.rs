//! The states of a thread at several positions, from a single read of its log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Journal, JournalError, Record, Replay, ReplayedState, load_replay};
use crate::ids::LogPosition;
use crate::state::Schema;

/// Number of entries read at once.
const PAGE: LogPosition = 256;

/// Returns the states of a thread at these positions, in the given order, as [`load`](super::load) does for one. The
/// log is read once, from what the first position needs up to the last position.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::journal::{MemoryJournal, load_each};
/// use deepagents_core::state::Schema;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let states = load_each(&MemoryJournal::new(), "nobody", Arc::new(Schema::default()), &[0]).await?;
/// assert_eq!(states.len(), 1);
/// # Ok::<(), deepagents_core::journal::JournalError>(()) }).unwrap();
/// ```
///
/// # Errors
/// Returns [`JournalError::NoState`] if the log has no state at one of them, and an error if the log cannot be read.
pub async fn load_each(
    journal: &dyn Journal,
    thread: &str,
    schema: Arc<Schema>,
    positions: &[LogPosition],
) -> Result<Vec<ReplayedState>, JournalError> {
    let wanted: BTreeSet<LogPosition> = positions.iter().copied().collect();
    let mut folds: BTreeMap<LogPosition, Replay> = BTreeMap::new();
    for at in wanted {
        let last = folds.last_key_value().map(|(_, last)| last.clone());
        let followed = match last {
            Some(last) => follow(journal, thread, last, at, |to| folds.get(&to).cloned()).await?,
            None => None,
        };
        let fold = match followed {
            Some(fold) => fold,
            None => load_replay(journal, thread, schema.clone(), Some(at)).await?.replay,
        };
        folds.insert(at, fold);
    }
    let states = positions.iter().filter_map(|at| folds.get(at));
    states.map(|fold| fold.result_so_far(thread)).collect()
}

/// Continues a replay to a later position. Returns `None` if the records between do not determine the state: some are
/// damaged, or the log is rewound to a position for which `replay_at` has no replay.
pub(crate) async fn follow(
    journal: &dyn Journal,
    thread: &str,
    mut fold: Replay,
    to: LogPosition,
    replay_at: impl Fn(LogPosition) -> Option<Replay>,
) -> Result<Option<Replay>, JournalError> {
    while fold.end < to {
        let page = fold.end..to.min(fold.end + PAGE);
        let entries = match journal.read(thread, page.clone()).await {
            Ok(entries) => entries,
            Err(JournalError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if entries.len() as LogPosition != page.end - page.start {
            return Ok(None);
        }
        for entry in entries {
            if let Record::Rewind { to, turn, .. } = entry.record {
                let Some(there) = replay_at(to) else { return Ok(None) };
                fold = there;
                fold.rewound(turn, entry.position);
            } else if fold.take(thread, entry.record).is_err() {
                // The fallback, `load_replay`, finds out whether the record matters.
                return Ok(None);
            }
        }
    }
    Ok(Some(fold))
}
