//! Undoing what a run has done, and deleting the run.

use std::sync::Arc;

use deepagents_core::error::Error;
use deepagents_core::journal::{JournalError, LogEntry, LogPosition, Record, ThreadInfo};

use super::finish::KeptThread;
use super::live::LiveRun;
use super::record::find_version;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::threads::{RemovedRange, ThreadRecord, has_next, set_own};

/// Undoes what a run has added to its thread, and deletes the run.
pub(super) async fn roll_back(
    app: &Arc<App>,
    run: &LiveRun,
    info: &ThreadInfo,
    mut held: ThreadRecord,
    kept: KeptThread,
) -> Result<()> {
    let record = run.record();
    if let Some(before) = record.from.filter(|before| info.end > *before) {
        let Some(end) = end_of(app, run, before, info.end).await? else {
            // Another process has finished the rollback.
            app.runs.forget(&run.id);
            return Ok(());
        };
        match app.threads_of(info)?.rewind_from(&run.thread, end, before).await {
            Ok(until) => {
                RemovedRange::add(&mut held.removed, before, until);
                held.unfinished = has_next(app, &app.thread(&run.thread).await?, None).await?;
            }
            // Others have continued from what the run had done, which therefore stays.
            Err(Error::Journal(JournalError::Conflict { .. })) => {
                held = ThreadRecord::read(&app.thread(&run.thread).await?);
            }
            Err(error) => return Err(error.into()),
        }
    }
    match kept {
        KeptThread::None => {
            app.journal.threads().delete(&run.thread).await?;
        }
        KeptThread::WithResult => set_own(app, &run.thread, &held).await?,
        KeptThread::Unchanged => {}
    }
    // After all steps above, because a retry needs the record.
    record.delete(app).await?;
    app.runs.forget(&run.id);
    Ok(())
}

/// Returns the end of the log when a run had ended, or `None` if the run no longer exists. The end is stored before
/// anything is undone, so that a process that finishes the rollback undoes no more than the run has added.
async fn end_of(app: &App, run: &LiveRun, before: LogPosition, found: LogPosition) -> Result<Option<LogPosition>> {
    let (mut stored, version) = match find_version(app, &run.thread, &run.id).await {
        Err(error) if error.is_not_found() => return Ok(None),
        stored => stored?,
    };
    if let Some(end) = stored.until {
        return Ok(Some(end));
    }
    let end = end_in_log(app, &run.thread, before, found).await?;
    stored.until = Some(end);
    if !stored.save_over(app, Some(version)).await? {
        return Err(ApiError::conflict("another process is ending the run at the same time; try again"));
    }
    Ok(Some(end))
}

/// Returns the position after the end of the run that began at `before`, or `found` if the log does not contain its end.
async fn end_in_log(app: &App, thread: &str, before: LogPosition, found: LogPosition) -> Result<LogPosition> {
    let entries = app.journal.read(thread, before..found).await?;
    let finished = |entry: &LogEntry| match &entry.record {
        Record::RunFinished { run, .. } => Some((run.clone(), entry.position.saturating_add(1))),
        _ => None,
    };
    // A run that was suspended or failed for lack of storage was resumed under the same id.
    let first = entries.iter().find_map(finished).map(|(run, _)| run);
    let last = entries.iter().rev().filter_map(finished).find(|(run, _)| Some(run) == first.as_ref());
    Ok(last.map_or(found, |(_, end)| end))
}
