//! Pruning of threads.

use std::sync::Arc;

use deepagents_core::journal::{RetentionPolicy, ThreadInfo};
use serde::{Deserialize, Serialize};

use super::record::{ThreadRecord, set_own};
use super::stopped::unhide_log_end;
use crate::app::App;
use crate::error::Result;

/// What happens to a thread that is pruned or expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PruneStrategy {
    /// It is deleted.
    #[default]
    Delete,
    /// Only its newest state is kept.
    KeepLatest,
}

impl PruneStrategy {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_delete(&self) -> bool {
        *self == Self::Delete
    }
}

/// Prunes a thread.
pub(super) async fn prune_thread(app: &Arc<App>, info: &ThreadInfo, strategy: PruneStrategy) -> Result<()> {
    match strategy {
        PruneStrategy::Delete => super::delete(app, &info.id).await?,
        PruneStrategy::KeepLatest if info.end == 0 => {}
        PruneStrategy::KeepLatest => {
            let info = &unhide_log_end(app, info.clone(), true).await?;
            app.threads_of(info)?.prune(&info.id, &RetentionPolicy::Latest).await?;
            // The rolled-back ranges are gone from the log, and what is left must be visible.
            let held = ThreadRecord::read(info);
            if !held.removed.is_empty() {
                set_own(app, &info.id, &ThreadRecord { removed: Vec::new(), ..held }).await?;
            }
            app.checkpoints.forget(&info.id);
        }
    }
    Ok(())
}
