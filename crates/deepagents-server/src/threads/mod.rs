//! Threads over HTTP: the threads of the journal and what clients expect in addition.

mod change;
mod checkpoint_ref;
mod checkpoints;
mod completed;
mod extract;
mod history;
mod matches;
mod page;
mod prune;
mod record;
mod removed;
mod routes;
mod search;
mod state;
mod state_routes;
mod stopped;
mod sub_states;
mod ttl;

use std::sync::Arc;

use crate::app::App;
use crate::auth::owns_thread;
use crate::error::Result;

pub(crate) use checkpoint_ref::CheckpointRef;
pub(crate) use checkpoints::{CheckpointCache, Entries, Entry, Place};
pub(crate) use completed::completed;
pub(crate) use page::{Fields, Limit, SortOrder, contains, page_of};
pub(crate) use record::{ThreadRecord, ThreadStatus, make, set_own};
pub(crate) use removed::RemovedRange;
pub(crate) use routes::routes;
pub(crate) use state::earlier_position;
pub(crate) use stopped::{has_next, present_state, unhide_log_end};
pub(crate) use ttl::{sweep, touch};

/// Deletes a thread with its runs, its crons and its time to live. Idempotent: repeating it removes what is left.
pub(crate) async fn delete(app: &Arc<App>, thread: &str) -> Result<()> {
    crate::crons::remove_where(app, |cron| cron.thread_id.as_deref() == Some(thread)).await?;
    loop {
        // Another caller may have created a thread of this name since it was deleted.
        if app.journal.threads().get(thread).await?.is_some_and(|info| !owns_thread(&info)) {
            return Ok(());
        }
        crate::runs::forget_thread(app, thread).await?;
        app.journal.threads().delete(thread).await?;
        // A run that was accepted meanwhile may have created the thread again.
        if !app.runs.is_busy(thread) && crate::runs::of_thread(app, thread).await?.is_empty() {
            break;
        }
    }
    ttl::forget(app, thread).await
}
