//! Executing a run.

use std::sync::Arc;
use std::time::Duration;

use deepagents::Outcome;
use deepagents_core::journal::{LogPosition, ThreadInfo};
use deepagents_core::state::State;
use jiff::Timestamp;

use super::agents::is_served;
use super::finish::{RETRY_DELAYS, store_with_retries};
use super::input::{Prepared, prepare};
use super::live::{CancelAction, LiveRun};
use super::open;
use super::record::{RunRecord, Status, find_version};
use super::work::{stopped, work};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::stream::{Projector, end};
use crate::threads::unhide_log_end;

/// Interval between attempts to own a thread.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Error kind of a run that could not begin.
pub(super) const NOT_BEGUN: &str = "not_begun";

/// How a run ended.
pub(super) enum Ending {
    Ended(Box<Outcome>),
    Failed {
        kind: String,
        message: String,
    },
    Cancelled,
    /// The thread was ended in its current state.
    Resolved(State),
}

/// How an attempt to execute a run ended.
pub(super) enum Attempt {
    Ended(Ending),
    /// There is no result to store: the server shuts down, and the next one resumes the run, or the run has ended or
    /// was deleted elsewhere.
    Left,
    /// The storage is unavailable.
    Unavailable,
    /// Another process owns the thread, or did until a moment ago.
    Owned,
}

/// What earlier attempts to execute a run have left.
struct Earlier {
    /// Whether there was one, perhaps in another process.
    exists: bool,
    /// What the streams have been shown.
    followed: Option<Projector>,
    /// The times with which this process tried to close the record of a run that had not begun.
    closed_at: Vec<String>,
}

/// Executes a run to its end and stores the result.
pub(super) async fn execute(app: &Arc<App>, run: &Arc<LiveRun>) {
    if let Some(ending) = run_to_end(app, run).await {
        store_with_retries(app, run, &ending).await;
    }
}

/// Executes a run until it has ended. Waits while the storage is unavailable or another process owns the thread,
/// because an accepted run does not fail for these reasons. Returns `None` if there is no result to store.
async fn run_to_end(app: &Arc<App>, run: &Arc<LiveRun>) -> Option<Ending> {
    let mut earlier = Earlier { exists: run.recovered, followed: None, closed_at: Vec::new() };
    let mut stop = run.stop.subscribe();
    loop {
        let attempted = attempt(app, run, &mut earlier).await.unwrap_or_else(|error| {
            if error.is_temporary() {
                return Attempt::Unavailable;
            }
            Attempt::Ended(Ending::Failed { kind: NOT_BEGUN.to_owned(), message: error.to_string() })
        });
        let is_owned = match attempted {
            Attempt::Ended(ending) => {
                if let Some(projector) = earlier.followed {
                    report_end(projector, &ending);
                }
                return Some(ending);
            }
            // The streams end and continue where the next process resumes the run. A run that ended elsewhere has been
            // reported.
            Attempt::Left => return None,
            Attempt::Unavailable => false,
            Attempt::Owned => true,
        };
        earlier.exists = true;
        let asked = *stop.borrow_and_update();
        if let Some(how) = asked.filter(|_| is_owned) {
            // If the request cannot be stored, the next round retries.
            let _ = open::request_cancel(app, &run.thread, &run.id, how).await;
        }
        // Another process may execute a run that has not begun here, unseen by this one.
        let is_own = !is_owned && !run.recovered && run.handle().is_some();
        tokio::select! {
            () = tokio::time::sleep(RETRY_INTERVAL) => {}
            () = app.closed() => return None,
            () = stopped(&mut stop), if asked.is_none() || is_own => {
                if is_own {
                    earlier.followed.into_iter().for_each(Projector::cancelled);
                    return Some(Ending::Cancelled);
                }
            }
        }
    }
}

/// Reports the end of a run to its streams.
fn report_end(projector: Projector, ending: &Ending) {
    match ending {
        Ending::Failed { kind, message } => projector.failed(kind, message),
        Ending::Ended(outcome) => projector.ended(&outcome.state, Some(&outcome.stop)),
        Ending::Resolved(state) => projector.ended(state, None),
        Ending::Cancelled => projector.cancelled(),
    }
}

/// Makes one attempt to execute a run. Continues after the events that earlier attempts have shown instead of showing
/// them again.
async fn attempt(app: &Arc<App>, run: &Arc<LiveRun>, earlier: &mut Earlier) -> Result<Attempt> {
    // Read anew, because another process may have resumed the run, or the thread or the run may be gone.
    let info = match app.thread(&run.thread).await {
        Err(error) if error.is_not_found() => {
            // The thread was deleted while the run was being accepted, so nobody can request the run any more.
            run.record().delete(app).await?;
            return Ok(Attempt::Left);
        }
        info => info?,
    };
    let (stored, version) = match find_version(app, &run.thread, &run.id).await {
        Err(error) if error.is_not_found() => return Ok(Attempt::Left),
        stored => stored?,
    };
    if earlier.exists {
        // The record was read after the end of the log. If the run was open then, no later run is in the log up to
        // there.
        follow(app, run, &mut earlier.followed, &stored, info.end).await?;
    }
    if let Some(attempted) = ended_before(app, run, earlier, (&stored, version), &info).await? {
        return Ok(attempted);
    }
    if app.agent(&stored.graph_id).is_none() {
        // Only one process fails a run that none serves, and none while another one starts it.
        if is_served(app, &stored.graph_id).await? || !run.record().save_over(app, Some(version)).await? {
            return Ok(Attempt::Owned);
        }
        return Err(ApiError::not_found("Graph", &stored.graph_id));
    }
    begin(app, run, &mut earlier.followed, (stored, version), info).await
}

/// Ends the attempt if there is nothing to execute: the run has ended, was cancelled, or is executed elsewhere.
async fn ended_before(
    app: &Arc<App>,
    run: &Arc<LiveRun>,
    earlier: &mut Earlier,
    (stored, version): (&RunRecord, u64),
    info: &ThreadInfo,
) -> Result<Option<Attempt>> {
    let Earlier { exists: again, followed, closed_at } = earlier;
    let again = *again;
    if stored.is_closed_early() {
        // Another process closed the record and will store the result. This one does so if the storage closed the
        // record here but answered with an error, or if that process is gone.
        if !closed_at.contains(&stored.updated_at) && !is_abandoned(app, stored) {
            run.replace(stored.clone());
            return Ok(Some(Attempt::Owned));
        }
        run.end(CancelAction::default());
        return close_early(app, run, closed_at, stored.clone(), version).await.map(Some);
    }
    if !stored.status.is_open() {
        if let Some(projector) = followed.take() {
            end(app, projector, stored).await?;
        }
        run.replace(stored.clone());
        return Ok(Some(Attempt::Left));
    }
    let is_cancelled = run.stop.borrow().is_some();
    // Another process may be starting a run that has not begun. Either it finds the run ended, or this one ends it.
    if is_cancelled && stored.from.is_none() {
        return close_early(app, run, closed_at, stored.clone(), version).await.map(Some);
    }
    // A cancelled run that another process has begun is ended there.
    let is_elsewhere = (again && app.is_owned(info)) || (is_cancelled && !again);
    if is_elsewhere || is_cancelled {
        run.replace(stored.clone());
        let attempted = if is_elsewhere { Attempt::Owned } else { Attempt::Ended(Ending::Cancelled) };
        return Ok(Some(attempted));
    }
    Ok(None)
}

/// Begins the run here, or resumes what an earlier attempt has begun.
async fn begin(
    app: &Arc<App>,
    run: &Arc<LiveRun>,
    followed: &mut Option<Projector>,
    (stored, version): (RunRecord, u64),
    info: ThreadInfo,
) -> Result<Attempt> {
    let info = unhide_log_end(app, info, stored.kwargs.resumes()).await?;
    let begun = stored.status == Status::Running;
    let record = run.change(|record| {
        record.status = Status::Running;
        // What an earlier process did belongs to the run, too.
        record.from = stored.from.or(record.from).or(Some(info.end));
        record.started_at = stored.started_at.or(record.started_at.take()).or_else(|| Some(ids::now()));
    });
    if !record.save_over(app, Some(version)).await? {
        // Another process has just started or ended it.
        return Ok(Attempt::Owned);
    }
    if followed.is_none() {
        let from = record.from.unwrap_or(info.end);
        *followed = Some(Projector::new(app, run, from, record.kwargs.shows_state()).await?);
    }
    if !record.kwargs.ends() {
        // Another program may have worked on the thread since the run was accepted.
        app.known_agent(&record.graph_id)?.check_thread(&info)?;
    }
    match prepare(app, run, &record, &info).await {
        Ok(Prepared::Run(input)) => work(app, run, &record, begun, *input, followed).await,
        Ok(Prepared::Resolved(state)) => Ok(Attempt::Ended(Ending::Resolved(state))),
        // Somebody changes the thread at this moment.
        Err(error) if error.is_conflict() => Ok(Attempt::Owned),
        Err(error) => Err(error),
    }
}

/// Closes the record of a run that was cancelled before it began. Of several processes, only one ends the run.
async fn close_early(
    app: &App,
    run: &LiveRun,
    closed_at: &mut Vec<String>,
    stored: RunRecord,
    version: u64,
) -> Result<Attempt> {
    let closed = RunRecord { status: Status::Interrupted, updated_at: ids::now(), ..stored };
    // If the storage answers with an error, the time tells who closed the record.
    closed_at.push(closed.updated_at.clone());
    if !closed.save_over(app, Some(version)).await? {
        return Ok(Attempt::Owned);
    }
    run.replace(closed);
    Ok(Attempt::Ended(Ending::Cancelled))
}

/// Shows what the log contains of a run that another process has started, to the readers here.
async fn follow(
    app: &App,
    run: &Arc<LiveRun>,
    followed: &mut Option<Projector>,
    stored: &RunRecord,
    end: LogPosition,
) -> Result<()> {
    let Some(from) = stored.from else { return Ok(()) };
    if followed.is_none() {
        *followed = Some(Projector::new(app, run, from, stored.kwargs.shows_state()).await?);
    }
    match followed {
        Some(projector) => projector.read_to(stored.until.unwrap_or(end)).await,
        None => Ok(()),
    }
}

/// Returns how long a run must still wait, counted from when it was accepted by any process. One that has begun was
/// due for the process that began it.
pub(super) fn remaining_delay(record: &RunRecord) -> Duration {
    let after = record.kwargs.after_seconds.filter(|_| record.from.is_none());
    Duration::from_secs(after.unwrap_or(0)).saturating_sub(since(&record.created_at))
}

/// Whether the process that closed a run early would have stored its result by now, unless its attempts to do so take
/// long.
pub(super) fn is_abandoned(app: &App, record: &RunRecord) -> bool {
    record.is_closed_early() && since(&record.updated_at) > app.lease + RETRY_DELAYS.iter().sum::<Duration>()
}

/// Returns how long ago a stored time was.
fn since(time: &str) -> Duration {
    let since = time.parse::<Timestamp>().map(|at| Timestamp::now().duration_since(at));
    since.ok().and_then(|since| Duration::try_from(since).ok()).unwrap_or_default()
}
