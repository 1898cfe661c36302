//! Working on one run.

use std::sync::Arc;
use std::time::Duration;

use deepagents::{FinishReason, Outcome, RunError, RunHandle, RunInput};
use deepagents_core::error::Error;
use deepagents_core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents_core::journal::{JournalError, LogPosition, ThreadInfo};
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::run::Node;
use deepagents_core::state::{MessagesChannel, State, Update};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::breakpoints::Breakpoints;
use super::create::{RunCreate, answers};
use super::live::{CancelAction, LiveRun};
use super::record::{RunRecord, Status};
use super::spending::Meter;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::stream::Projector;
use crate::threads::{Held, Place, set_own, touch};
use crate::webhooks;
use crate::wire::{next_nodes, read_update};

/// Between one try to keep how a run ended and the next.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Between one try to own a thread and the next.
const BUSY: Duration = Duration::from_millis(500);

/// How a run ended.
enum Ending {
    Ended(Outcome),
    Failed {
        kind: String,
        message: String,
    },
    Cancelled,
    /// The server ends; the next one goes on with it.
    Suspended,
    /// Somebody else works on the thread, or did until a moment ago.
    Busy,
}

/// Works on a run to its end, and keeps how it ended.
pub(super) async fn execute(app: &Arc<App>, run: &Arc<LiveRun>) {
    let before = app.journal.threads().get(&run.thread).await.ok().flatten().map_or(0, |info| info.end);
    let mut stop = run.stop.subscribe();
    let later = until_due(&run.record());
    let waited = async {
        if !later.is_zero() {
            tokio::time::sleep(later).await;
        }
    };
    tokio::select! {
        () = waited => {}
        () = stopped(&mut stop) => {}
        () = app.closed() => return,
    }
    let stop = *run.stop.borrow();
    let ending = match stop {
        Some(_) => Ending::Cancelled,
        None => match begin(app, run).await {
            Ok(ending) => ending,
            Err(error) => Ending::Failed { kind: "not_begun".to_owned(), message: error.to_string() },
        },
    };
    if !matches!(ending, Ending::Suspended) {
        keep_at_last(app, run, &ending, before).await;
    }
}

async fn begin(app: &Arc<App>, run: &Arc<LiveRun>) -> Result<Ending> {
    let info = app.thread(&run.thread).await?;
    let record = run.change(|record| {
        record.status = Status::Running;
        // What an earlier process did of it belongs to it too.
        record.from.get_or_insert(info.end);
        record.started_at.get_or_insert_with(crate::ids::now);
    });
    record.save(app).await?;
    let from = record.from.unwrap_or(info.end);
    let mut projector = Projector::new(app, run, from, record.kwargs.shows_state()).await?;
    loop {
        // Meanwhile another process may have gone on with the thread.
        let info = app.thread(&run.thread).await?;
        let (ending, followed) = match prepare(app, run, &record, &info).await {
            Ok(Prepared::Run(input)) => work(app, run, &record, *input, projector).await?,
            Ok(Prepared::Resolved(state)) => {
                projector.ended(&state, None);
                return Ok(Ending::Cancelled);
            }
            Err(error) => (Ending::Failed { kind: "not_begun".to_owned(), message: error.to_string() }, projector),
        };
        match &ending {
            Ending::Busy => {
                projector = followed;
                let mut stop = run.stop.subscribe();
                tokio::select! {
                    () = tokio::time::sleep(BUSY) => continue,
                    () = app.closed() => return Ok(Ending::Suspended),
                    () = stopped(&mut stop) => {}
                }
                projector.cancelled();
                return Ok(Ending::Cancelled);
            }
            Ending::Failed { kind, message } => followed.failed(kind, message),
            Ending::Ended(outcome) => followed.ended(&outcome.state, Some(&outcome.stop)),
            Ending::Cancelled => followed.cancelled(),
            // Its streams end, and go on where the next process takes it up.
            Ending::Suspended => {}
        }
        return Ok(ending);
    }
}

/// What is to be done for a run.
enum Prepared {
    Run(Box<RunInput>),
    /// Nothing: its thread was ended where it stood.
    Resolved(State),
}

async fn prepare(app: &App, run: &LiveRun, record: &RunRecord, info: &ThreadInfo) -> Result<Prepared> {
    let create = &record.kwargs;
    if create.command.as_ref().is_some_and(super::create::Command::ends) {
        resolve(app, info).await?;
        return Ok(Prepared::Resolved(app.threads_of(info)?.state(&run.thread).await?));
    }
    Ok(Prepared::Run(Box::new(input(app, run, info, create).await?)))
}

async fn work(
    app: &Arc<App>,
    run: &Arc<LiveRun>,
    record: &RunRecord,
    input: RunInput,
    projector: Projector,
) -> Result<(Ending, Projector)> {
    let served = app.agent(&record.graph_id).ok_or_else(|| ApiError::not_found("Graph", &record.graph_id))?;
    let create = &record.kwargs;
    let stops = Breakpoints::new(create.interrupt_before.as_ref(), create.interrupt_after.as_ref());
    let input = input.lease(app.lease);
    let input = match &stops {
        Some(stops) => input.observer(stops.clone()),
        None => input,
    };
    let meter = record.owner.as_deref().and_then(|owner| Meter::new(app, owner, &record.limits));
    let input = match meter {
        Some(meter) => input.observer(meter),
        None => input,
    };
    let working = served.agent.run(input);
    let handle = working.handle();
    if let Some(stops) = &stops {
        stops.hold(&handle);
    }
    run.set_handle(handle.clone());
    let events = handle.subscribe(deepagents::Subscribe::Start);
    let following = tokio::spawn(projector.follow(events));
    let ending = outcome(app, run, &handle).await;
    drop(working);
    let projector = following.await.map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok((ending, projector))
}

/// How long a run has still to wait, counted from when it was accepted, in whatever process.
fn until_due(record: &RunRecord) -> Duration {
    let after = Duration::from_secs(record.kwargs.after_seconds.unwrap_or(0));
    let since = record.created_at.parse::<Timestamp>().map(|at| Timestamp::now().duration_since(at));
    let since = since.ok().and_then(|since| Duration::try_from(since).ok()).unwrap_or_default();
    after.saturating_sub(since)
}

/// Waits until the run is to be ended from outside.
async fn stopped(stop: &mut watch::Receiver<Option<CancelAction>>) {
    // The sender lives as long as the run does.
    let _ = stop.wait_for(Option::is_some).await;
}

async fn outcome(app: &App, run: &LiveRun, handle: &RunHandle) -> Ending {
    let mut stop = run.stop.subscribe();
    let outcome = tokio::select! {
        outcome = handle.outcome() => outcome,
        () = app.closed() => {
            handle.suspend();
            match handle.outcome().await {
                Ok(outcome) if outcome.stop == FinishReason::Suspended => return Ending::Suspended,
                outcome => outcome,
            }
        }
        () = stopped(&mut stop) => {
            // What the log has from here on is what cancelling adds.
            if let Ok(Some(info)) = app.journal.threads().get(&run.thread).await {
                run.set_cancelled_from(info.end);
            }
            handle.cancel();
            handle.outcome().await
        }
    };
    match outcome {
        Ok(outcome) if outcome.stop == FinishReason::Cancelled => Ending::Cancelled,
        Ok(outcome) => Ending::Ended(outcome),
        Err(error) => {
            let RunError { error, .. } = &*error;
            if matches!(&**error, Error::Journal(JournalError::Busy { .. })) {
                return Ending::Busy;
            }
            Ending::Failed { kind: error.kind().to_owned(), message: error.to_string() }
        }
    }
}

/// What the run is given.
async fn input(app: &App, run: &LiveRun, info: &ThreadInfo, create: &RunCreate) -> Result<RunInput> {
    let threads = app.threads_of(info)?;
    let mut update = Update::none();
    for value in [create.input.as_ref(), create.command.as_ref().and_then(|command| command.update.as_ref())]
        .into_iter()
        .flatten()
    {
        let read = read_update(threads.schema(), value).map_err(|error| ApiError::invalid(error.to_string()))?;
        update = update.and(read);
    }
    let at = create.checkpoint().map(place).transpose()?;
    let limit = create.config.as_ref().and_then(|config| config.get("recursion_limit")).and_then(Value::as_u64);
    let limited = |input: RunInput| match limit {
        // A turn is two steps of a graph: the model's, and that of the tools.
        Some(limit) => input.max_model_calls(u32::try_from(limit.div_ceil(2).max(1)).unwrap_or(u32::MAX)),
        None => input,
    };
    if let Some(resume) = create.resume() {
        let mut input = RunInput::resume(&info.id);
        match answers(app, &info.id, resume).await {
            Ok(given) => input = given.into_iter().fold(input, |input, (asked, answer)| input.decide(asked, answer)),
            // They are in the log where an earlier process has begun with them.
            Err(_) if run.recovered => {}
            Err(error) => return Err(error),
        }
        return Ok(limited(input.update(update)));
    }
    if update.is_empty() {
        if let Some(at) = at {
            threads.rewind(&info.id, at).await?;
        }
        return Ok(limited(RunInput::resume(&info.id)));
    }
    let (ops, rest) = update.split::<MessagesChannel>();
    let mut messages = Vec::new();
    let mut removed = Vec::new();
    for op in ops.concat() {
        match op {
            MessageOp::Put(message) => messages.push(Arc::unwrap_or_clone(message)),
            other => removed.push(other),
        }
    }
    if !removed.is_empty() {
        threads.update_state(&info.id, Update::new::<MessagesChannel>(removed)).await?;
    }
    let input = RunInput::messages(messages).id(run.id.clone()).thread(&info.id).update(rest);
    Ok(limited(match at {
        Some(at) => input.at(at),
        None => input,
    }))
}

/// The position that a client's checkpoint stands for.
fn place(id: &str) -> Result<LogPosition> {
    match Place::read(id) {
        Some(Place::After(position) | Place::BeforeInput(position)) => Ok(position),
        None => Err(ApiError::not_found("Checkpoint", id)),
    }
}

/// Ends a thread where it stands: calls that wait are answered as not made.
async fn resolve(app: &App, info: &ThreadInfo) -> Result<()> {
    let threads = app.threads_of(info)?;
    let state = threads.state(&info.id).await?;
    let mut results = Vec::new();
    for message in state.messages().iter() {
        for id in message.as_assistant().into_iter().flat_map(|answer| answer.call_ids()) {
            let answered =
                state.messages().iter().any(|each| each.as_tool().is_some_and(|result| result.call_id == id));
            if !answered {
                let text = "This call was not made: a person marked the conversation as resolved.";
                results.push(MessageOp::put(Message::Tool(ToolMessage::error(id, String::new(), text))));
            }
        }
    }
    let update = Update::new::<MessagesChannel>(results).with::<ActionRequests>(vec![ActionRequestChange::Clear]);
    threads.update_state_as(&info.id, Node::End, update).await?;
    Ok(())
}

/// Keeps how a run ended, though the storage may be away for a moment. Where it stays away, those who ask this process are
/// told why; the next one finds a run that is under way, and goes on with it.
async fn keep_at_last(app: &Arc<App>, run: &Arc<LiveRun>, ending: &Ending, before: LogPosition) {
    let mut pauses = PAUSES.into_iter();
    loop {
        let Err(error) = keep(app, run, ending, before).await else { return };
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

/// Keeps how a run ended.
async fn keep(app: &Arc<App>, run: &Arc<LiveRun>, ending: &Ending, before: LogPosition) -> Result<()> {
    let cancelled_from = run.cancelled_from().unwrap_or(LogPosition::MAX - 1);
    let stop = *run.stop.borrow();
    let info = app.thread(&run.thread).await?;
    let mut held = Held { ttl: Held::read(&info).ttl, ..Held::default() };
    if let Some(minutes) = held.ttl {
        touch(app, &run.thread, minutes).await?;
    }
    let record = run.record();
    held.config = record.kwargs.config.clone().unwrap_or_default();
    let status = match ending {
        _ if stop.is_some() => Status::Interrupted,
        Ending::Ended(outcome) => match outcome.stop {
            FinishReason::Deadline => Status::Timeout,
            FinishReason::StepLimit => {
                held.error = Some(json!({"error": "GraphRecursionError", "message": outcome.stop.reason()}));
                Status::Error
            }
            FinishReason::NoProgress => {
                held.error = Some(json!({"error": "NoProgress", "message": outcome.stop.reason()}));
                Status::Error
            }
            _ => Status::Success,
        },
        Ending::Failed { kind, message } => {
            held.error = Some(json!({"error": kind, "message": message}));
            Status::Error
        }
        Ending::Cancelled | Ending::Suspended | Ending::Busy => Status::Success,
    };
    if stop == Some(CancelAction::Rollback) {
        if info.end > before {
            app.threads_of(&info)?.rewind(&run.thread, before).await?;
        }
        record.delete(app).await?;
        app.runs.forget(&run.id);
        return set_own(app, &run.thread, &held).await;
    }
    let suspended = matches!(ending, Ending::Ended(outcome) if outcome.stop == FinishReason::Suspended);
    if suspended || stop.is_some() {
        held.stopped_at = stopped_at(app, &info, before, cancelled_from).await?;
    }
    let error = held.error.clone();
    let stopped_by_itself = match ending {
        Ending::Ended(outcome) => Some(outcome.stop.clone()),
        _ => None,
    };
    let record = run.change(|record| {
        record.status = status;
        record.error = error;
        record.until = Some(info.end);
        record.stop = stopped_by_itself;
    });
    webhooks::remember(app, &record).await?;
    record.save(app).await?;
    app.metrics.run_ended(record.status);
    webhooks::send(app, &record);
    if record.stateless && record.kwargs.on_completion.unwrap_or_default() == super::create::OnCompletion::Delete {
        record.delete(app).await?;
        app.journal.threads().delete(&run.thread).await?;
        return Ok(());
    }
    set_own(app, &run.thread, &held).await
}

/// The last checkpoint that a run came to by itself, where there was something left to do.
async fn stopped_at(
    app: &App,
    info: &ThreadInfo,
    before: LogPosition,
    until: LogPosition,
) -> Result<Option<LogPosition>> {
    let threads = app.threads_of(info)?;
    let newest = threads.history(&info.id, Some(until.saturating_add(1)), 1).await?;
    let Some(at) = newest.first().map(|checkpoint| checkpoint.position).filter(|at| *at > before) else {
        return Ok(None);
    };
    let loaded = deepagents_core::journal::load(&*app.journal, &info.id, threads.schema().clone(), Some(at)).await?;
    Ok((!next_nodes(&loaded.state, loaded.machine.as_ref()).is_empty()).then_some(at))
}

/// The final values of a run, as those who wait for them are given them.
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
