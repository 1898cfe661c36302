//! Running the agent of a run, until it has ended, is ended from outside, or the server shuts down.

use std::sync::Arc;

use deepagents::{FinishReason, RunError, RunHandle, RunInput};
use deepagents_core::error::Error;
use deepagents_core::journal::JournalError;
use tokio::sync::watch;

use super::breakpoints::Breakpoints;
use super::execute::{Attempt, Ending};
use super::live::{CancelAction, LiveRun};
use super::open;
use super::record::RunRecord;
use super::served::ServedRun;
use super::spending::SpendingTracker;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::stream::Projector;

/// Runs the agent, showing its events to the readers of the streams.
pub(super) async fn work(
    app: &Arc<App>,
    run: &Arc<LiveRun>,
    record: &RunRecord,
    begun: bool,
    input: RunInput,
    followed: &mut Option<Projector>,
) -> Result<Attempt> {
    let served = app.known_agent(&record.graph_id)?;
    let create = &record.kwargs;
    let is_new = !begun && create.input.is_some() && create.resume().is_none();
    let stops = Breakpoints::new(create.interrupt_before.as_ref(), create.interrupt_after.as_ref(), is_new)?;
    // Readers go by the log, so old events need not be kept for them.
    let input = input.lease(app.lease).with(ServedRun::of(record)).recent_events_only();
    let mut input = input.note(served.note.clone());
    if let Some(stops) = stops {
        input = input.observer(stops);
    }
    if let Some(tracker) = record.owner.as_deref().and_then(|owner| SpendingTracker::new(app, owner, &record.limits)) {
        input = input.observer(tracker);
    }
    let working = served.agent.run(input);
    let handle = working.handle();
    run.set_handle(handle.clone());
    let events = handle.subscribe(deepagents::Subscribe::Start);
    let following = followed.take().map(|projector| tokio::spawn(projector.follow(events)));
    let attempted = outcome(app, run, &handle).await;
    drop(working);
    if let Some(following) = following {
        *followed = Some(following.await.map_err(|error| ApiError::bad_request(error.to_string()))?);
    }
    Ok(attempted)
}

/// Waits until the run is ended from outside.
pub(super) async fn stopped(stop: &mut watch::Receiver<Option<CancelAction>>) {
    // The sender lives as long as the run.
    let _ = stop.wait_for(Option::is_some).await;
}

async fn outcome(app: &App, run: &LiveRun, handle: &RunHandle) -> Attempt {
    let mut stop = run.stop.subscribe();
    let outcome = tokio::select! {
        outcome = handle.outcome() => outcome,
        () = app.closed() => {
            handle.suspend();
            match handle.outcome().await {
                Ok(outcome) if outcome.stop == FinishReason::Suspended => return Attempt::Left,
                outcome => outcome,
            }
        }
        () = stopped(&mut stop) => {
            // Records in the log after this point come from the cancellation.
            if let Ok(Some(info)) = app.journal.threads().get(&run.thread).await {
                run.set_cancelled_from(info.end);
            }
            handle.cancel();
            // A process that resumes the run because this one is killed ends it, too.
            let how = stop.borrow().unwrap_or_default();
            let asked = open::request_cancel(app, &run.thread, &run.id, how);
            match tokio::join!(handle.outcome(), asked).0 {
                // Cancelled, whatever the run reached meanwhile.
                Ok(_) => return Attempt::Ended(Ending::Cancelled),
                failed => failed,
            }
        }
    };
    Attempt::Ended(match outcome {
        Ok(outcome) if outcome.stop == FinishReason::Cancelled => Ending::Cancelled,
        Ok(outcome) => Ending::Ended(Box::new(outcome)),
        Err(error) => {
            let RunError { error, .. } = &*error;
            // The next attempt resumes from the log.
            match &**error {
                Error::Journal(JournalError::Unavailable { .. } | JournalError::Storage(_)) => {
                    return Attempt::Unavailable;
                }
                Error::Journal(
                    JournalError::Busy { .. } | JournalError::Conflict { .. } | JournalError::Fenced { .. },
                ) => return Attempt::Owned,
                _ => {}
            }
            Ending::Failed { kind: error.kind().to_owned(), message: error.to_string() }
        }
    })
}
