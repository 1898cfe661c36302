//! Thread IDs.

use anyhow::{Result, bail};
use deepagents::core::env::{Ids, RandomIds};
use deepagents::core::journal::Journal;

/// Returns a new ID, short enough to type.
pub(crate) async fn fresh(journal: &dyn Journal) -> Result<String> {
    for _ in 0..16 {
        let long = RandomIds.next("thread");
        let id: String = long.chars().rev().take(8).collect();
        if journal.threads().get(&id).await?.is_none() {
            return Ok(id);
        }
    }
    bail!("no unused id for a thread was found; delete threads that you do not need")
}
