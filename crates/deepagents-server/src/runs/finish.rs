//! Storing the result of a run.

use std::sync::Arc;
use std::time::Duration;

use deepagents::FinishReason;
use deepagents_core::journal::{Checkpoint, CheckpointSource, LogPosition, RunStatus, ThreadInfo};
use deepagents_core::state::State;
use serde_json::{Value, json};

use super::execute::{Ending, NOT_BEGUN};
use super::live::{CancelAction, LiveRun};
use super::open;
use super::record::{RunRecord, Status, find};
use super::rollback::roll_back;
use super::run_options::OnCompletion;
use crate::app::App;
use crate::error::Result;
use crate::threads::{ThreadRecord, set_own, touch};
use crate::webhooks;
use crate::wire::next_nodes;

/// Why a run that stopped early counts as failed, in the client's terms.
#[derive(Debug)]
pub(crate) struct StoppedEarly {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl StoppedEarly {
    /// Returns the reason for a run that finished like this, or `None` if that is not a failure.
    pub(crate) fn of(stop: &FinishReason) -> Option<Self> {
        let kind = match stop {
            FinishReason::StepLimit => "GraphRecursionError",
            FinishReason::NoProgress => "NoProgress",
            _ => return None,
        };
        Some(Self { kind, message: stop.reason().to_string() })
    }
}

/// Backoff between attempts to store a result.
pub(super) const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Stores the result of a run, retrying while the storage is unavailable. If it stays unavailable, this process reports
/// an error to its clients. The next process still finds a run without a result, and resumes or ends it.
pub(super) async fn store_with_retries(app: &Arc<App>, run: &Arc<LiveRun>, ending: &Ending) {
    let mut pauses = RETRY_DELAYS.into_iter();
    loop {
        let Err(error) = store_result(app, run, ending).await else { return };
        let Some(pause) = pauses.next() else {
            run.change(|record| {
                record.status = Status::Error;
                record.error = Some(json!({"error": "storage", "message": error.to_string()}));
            });
            return;
        };
        tokio::time::sleep(pause).await;
    }
}

/// Stores the result of a run.
async fn store_result(app: &Arc<App>, run: &Arc<LiveRun>, ending: &Ending) -> Result<()> {
    // Skip this once an earlier attempt has closed the record here.
    let may_be_over = matches!(ending, Ending::Cancelled) && run.record().status.is_open();
    if may_be_over && ended_elsewhere(app, run).await? {
        return Ok(());
    }
    let info = match app.thread(&run.thread).await {
        // The thread was deleted, perhaps by an earlier attempt, so the run is deleted too.
        Err(error) if error.is_not_found() => {
            run.record().delete(app).await?;
            app.runs.forget(&run.id);
            return Ok(());
        }
        info => info?,
    };
    let mut held =
        ThreadRecord { state_updated_at: Some(crate::ids::now()), ..ThreadRecord::read(&info).kept_between_runs() };
    touch(app, &run.thread, &held).await?;
    let (record, stop) = (run.record(), *run.stop.borrow());
    let (status, error) = result_of(ending, stop);
    held.config = record.kwargs.config.clone().unwrap_or_default();
    held.error.clone_from(&error);
    let goes = record.stateless && record.kwargs.on_completion.unwrap_or_default() == OnCompletion::Delete;
    // A run that never began has added nothing.
    let never_began = record.from.is_none() && matches!(ending, Ending::Cancelled);
    if stop == Some(CancelAction::Rollback) {
        // A thread created for the run is deleted with it.
        let goes = goes || (record.stateless && record.from.is_none());
        let kept = if goes { KeptThread::None } else { KeptThread::of(!never_began) };
        return roll_back(app, run, &info, held, kept).await;
    }
    let before = record.from.unwrap_or(info.end);
    // Another run answered the interrupts first, and its result determines the thread's status.
    let came_late = matches!(ending, Ending::Failed { kind, .. } if kind == NOT_BEGUN)
        && record.kwargs.resume().is_some()
        && info.end == before;
    let suspended = matches!(ending, Ending::Ended(outcome) if outcome.stop == FinishReason::Suspended);
    let cancelled_from = run.cancelled_from().unwrap_or(LogPosition::MAX - 1);
    if suspended || stop.is_some() {
        held.stopped_at = stopped_at(app, &info, before, cancelled_from).await?;
    }
    let record = run.change(|record| {
        record.status = status;
        record.error = error;
        record.until = Some(info.end.min(cancelled_from));
        record.stop = match ending {
            Ending::Ended(outcome) => Some(outcome.stop.clone()),
            _ => None,
        };
    });
    let kept = if goes { KeptThread::None } else { KeptThread::of(!never_began && !came_late) };
    store_ended(app, &record, &held, kept).await
}

/// What remains of the thread of a run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptThread {
    /// It is deleted with the run.
    None,
    /// It shows the result of another run.
    Unchanged,
    /// It shows the result of the run.
    WithResult,
}

impl KeptThread {
    fn of(shows_result: bool) -> Self {
        if shows_result { Self::WithResult } else { Self::Unchanged }
    }
}

/// Whether the process that executes a cancelled run has ended it, or the run is gone. If so, its result is shown here.
async fn ended_elsewhere(app: &Arc<App>, run: &LiveRun) -> Result<bool> {
    match find(app, &run.thread, &run.id).await {
        Ok(record) if record.status.is_open() => Ok(false),
        Ok(record) => {
            webhooks::send(app, &record);
            run.replace(record);
            Ok(true)
        }
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Stores the record of a run that has ended, and what its thread shows of it.
async fn store_ended(app: &Arc<App>, record: &RunRecord, held: &ThreadRecord, kept: KeptThread) -> Result<()> {
    webhooks::remember(app, record).await?;
    record.save(app).await?;
    open::end(app, &record.thread_id, &record.run_id).await;
    match kept {
        KeptThread::None => {
            record.delete(app).await?;
            app.journal.threads().delete(&record.thread_id).await?;
        }
        KeptThread::WithResult => set_own(app, &record.thread_id, held).await?,
        KeptThread::Unchanged => {}
    }
    // Last, because a failure above repeats all steps.
    app.metrics.run_ended(record.status);
    webhooks::send(app, record);
    Ok(())
}

/// Returns the status of a run that ended like this, and its error.
fn result_of(ending: &Ending, stop: Option<CancelAction>) -> (Status, Option<Value>) {
    let error = |kind: &str, message: &str| Some(json!({"error": kind, "message": message}));
    match ending {
        _ if stop.is_some() => (Status::Interrupted, None),
        Ending::Failed { kind, message } => (Status::Error, error(kind, message)),
        Ending::Ended(outcome) if outcome.stop == FinishReason::Deadline => (Status::Timeout, None),
        Ending::Ended(outcome) => match StoppedEarly::of(&outcome.stop) {
            Some(early) => (Status::Error, error(early.kind, &early.message)),
            None => (Status::Success, None),
        },
        Ending::Cancelled | Ending::Resolved(_) => (Status::Success, None),
    }
}

/// Number of checkpoints searched for that of the input of a run, which is one of the last.
const MAX_CHECKPOINTS_AT_START: usize = 16;

/// Returns the last checkpoint before a run was ended from outside, or that of its input if the run had not reached it,
/// if work was left there.
async fn stopped_at(
    app: &App,
    info: &ThreadInfo,
    before: LogPosition,
    until: LogPosition,
) -> Result<Option<LogPosition>> {
    // A run that has added nothing leaves the thread as it was.
    if info.end <= before {
        return Ok(None);
    }
    let threads = app.threads_of(info)?;
    let newest = threads.history(&info.id, Some(until.saturating_add(1)), 1).await?;
    let mut at = newest.first().map(|checkpoint| checkpoint.position);
    if at.is_none_or(|at| at <= before) {
        let own = threads.history(&info.id, None, MAX_CHECKPOINTS_AT_START).await?;
        let is_input = |one: &&Checkpoint| one.position > before && one.origin == CheckpointSource::Input;
        at = own.iter().rev().find(is_input).map(|input| input.position).or(at);
    }
    let Some(at) = at else { return Ok(None) };
    // A run that had asked a question before it was ended has left nothing to hide.
    if info.status == RunStatus::Interrupted
        && threads.history(&info.id, None, 1).await?.first().is_some_and(|newest| newest.position == at)
    {
        return Ok(None);
    }
    let loaded = deepagents_core::journal::load(&*app.journal, &info.id, threads.schema().clone(), Some(at)).await?;
    Ok((!next_nodes(&loaded.state, loaded.machine.as_ref()).is_empty()).then_some(at))
}

/// Returns the final values of a run, as returned to waiting clients.
pub(crate) fn final_values(thread: &str, state: &State, error: Option<&Value>) -> Result<Value> {
    if let Some(error) = error {
        return Ok(json!({"__error__": error}));
    }
    let mut values = crate::wire::values(state)?;
    let open = crate::wire::open_interrupts(thread, state);
    if !open.is_empty() {
        values.insert("__interrupt__".to_owned(), open.iter().map(|open| open.to_json()).collect());
    }
    Ok(Value::Object(values))
}
