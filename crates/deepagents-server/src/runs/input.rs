//! Converting a client's request to the input of a run.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use deepagents::RunInput;
use deepagents_core::agent::{RewindPlan, ThreadAccess};
use deepagents_core::error::Error as CoreError;
use deepagents_core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents_core::journal::{LogEntry, LogPosition, Record, RunStatus, ThreadInfo};
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::run::Node;
use deepagents_core::state::{MessagesChannel, State, Update};
use serde_json::{Map, Value};

use super::check::parse_decisions;
use super::create::{Command, RunCreate};
use super::live::LiveRun;
use super::record::RunRecord;
use crate::app::App;
use crate::error::Result;
use crate::threads::{Entry, Place, ThreadRecord, completed, earlier_position, has_next};
use crate::wire::{Call, open_calls, read_input, read_other_channels, read_update};

/// Key of the title in a thread's metadata.
const TITLE: &str = "title";
/// Maximum number of characters that a title takes from the first message.
const TITLE_LENGTH: usize = 80;

/// What remains to be done for a run.
pub(super) enum Prepared {
    Run(Box<RunInput>),
    /// Nothing: the state is final.
    Resolved(State),
}

pub(super) async fn prepare(
    app: &App,
    run: &LiveRun,
    record: &RunRecord,
    info: &ThreadInfo,
    begun: bool,
) -> Result<Prepared> {
    let (create, threads) = (&record.kwargs, app.threads_of(info)?);
    // If the start of a resumed run is in the log, so are its messages and limits.
    let since = log_since(app, run, info).await?;
    let in_log = begun && since.iter().any(|entry| begins(run, &entry.record));
    let untouched = since.is_empty();
    let earlier = match create.checkpoint().filter(|_| create.is_about_state()) {
        Some(checkpoint) => earlier_position(app, info, checkpoint).await?,
        None => None,
    };
    let at = match create.checkpoint().filter(|_| !create.is_about_state()) {
        Some(id) => Some(app.entries(info).await?.find(id)?.1.clone()),
        None => None,
    };
    let place = earlier.or_else(|| at.as_ref().map(|at| at.state.unwrap_or(0)));
    let (mut input, mut update) = (None, None);
    if let Some(values) = &create.input {
        input = Some(completed(&threads, &info.id, place, values).await?);
    }
    if let Some(values) = create.update() {
        update = Some(completed(&threads, &info.id, place, values).await?);
    }
    // There may be no work to resume.
    let only_changes = create.only_updates() && !begun && !has_work(app, info, earlier).await?;
    let read = if only_changes { read_update } else { read_other_channels };
    // An earlier attempt may have gone back already.
    let went_back = |to| since.iter().any(|entry| matches!(entry.record, Record::Rewind { to: at, .. } if at == to));
    if let Some(position) = earlier.filter(|position| !went_back(*position)) {
        let target = update.as_ref().map(|update| read(threads.schema(), update)).transpose()?;
        let target = target.unwrap_or_else(Update::none);
        let plan = async |_, _| Ok::<_, CoreError>(RewindPlan { left: Update::none(), target });
        threads.rewind_with(&info.id, position, plan).await?;
    }
    if create.ends() {
        resolve(&threads, info).await?;
        return Ok(Prepared::Resolved(threads.state(&info.id).await?));
    }
    if let Some(update) = update.as_ref().filter(|_| only_changes) {
        if earlier.is_none() {
            threads.update_state(&info.id, read(threads.schema(), update)?).await?;
        }
        return Ok(Prepared::Resolved(threads.state(&info.id).await?));
    }
    if let Some(said) = input.as_ref().filter(|_| create.resume().is_none() && !begun) {
        let given = read_input(threads.schema(), said)?;
        let says_something = given.get::<MessagesChannel>().any(|ops| !ops.is_empty());
        if !says_something && threads.state(&info.id).await?.messages().is_empty() {
            // Without a message there is nothing to send to a model.
            if !given.is_empty() {
                threads.update_state(&info.id, given).await?;
            }
            return Ok(Prepared::Resolved(threads.state(&info.id).await?));
        }
    }
    let start = Start { input, update, untouched, in_log, begun, earlier, at };
    Ok(Prepared::Run(Box::new(run_input(app, run, info, create, start).await?)))
}

/// What a run starts from.
struct Start<'a> {
    /// The channels of the input and of the command's update.
    input: Option<Cow<'a, Map<String, Value>>>,
    update: Option<Cow<'a, Map<String, Value>>>,
    /// Whether nothing had been added to the log since the run began.
    untouched: bool,
    /// Whether the log contains the start of the run, which an earlier process began.
    in_log: bool,
    /// Whether an earlier process may have begun the run.
    begun: bool,
    /// The earlier position that the thread has gone back to for the run's command.
    earlier: Option<LogPosition>,
    /// The checkpoint from which the input continues.
    at: Option<Entry>,
}

/// Whether a run can resume work at an earlier position, or where the thread stands.
async fn has_work(app: &App, info: &ThreadInfo, earlier: Option<LogPosition>) -> Result<bool> {
    if earlier.is_some() {
        return has_next(app, info, earlier).await;
    }
    Ok(!matches!(info.status, RunStatus::Empty | RunStatus::Ended) || ThreadRecord::read(info).is_stopped())
}

/// Builds the input of a run.
async fn run_input(
    app: &App,
    run: &LiveRun,
    info: &ThreadInfo,
    create: &RunCreate,
    start: Start<'_>,
) -> Result<RunInput> {
    let Start { input, update: told, untouched, in_log, begun, earlier, at } = start;
    let threads = app.threads_of(info)?;
    let mut update = Update::none();
    for value in input.iter().chain(&told) {
        update = update.and(read_input(threads.schema(), value)?);
    }
    // Applied once: a resumed run has it in its log, and a thread that went back has it already.
    if let Some(value) = told.as_ref().filter(|_| untouched && earlier.is_none()) {
        // A command may change channels that an input may not.
        let others = read_other_channels(threads.schema(), value)?;
        if !others.is_empty() {
            threads.update_state(&info.id, others).await?;
        }
    }
    let limit = create.config.as_ref().and_then(|config| config.get("recursion_limit")).and_then(Value::as_u64);
    let limited = |input: RunInput| match limit.filter(|_| !in_log) {
        // A turn is two graph steps: the model and the tools. Each agent has steps of its own.
        Some(limit) => input.max_calls_per_agent(u32::try_from(limit.div_ceil(2).max(1)).unwrap_or(u32::MAX)),
        None => input,
    };
    let resumes = create.resume().is_some() || create.only_updates();
    let (messages, removed, rest) = split_messages(update);
    if resumes {
        let mut input = RunInput::resume(&info.id);
        if !in_log {
            // If calls are pending, messages are delivered after their results.
            let removed = if removed.is_empty() { Update::none() } else { Update::new::<MessagesChannel>(removed) };
            input = messages.into_iter().fold(input.update(removed.and(rest)), RunInput::message);
        }
        // The decisions are in the log together with the start.
        let Some(resume) = create.resume().filter(|_| !in_log) else { return Ok(limited(input)) };
        match parse_decisions(app, info, earlier, resume).await {
            Ok(given) => input = given.into_iter().fold(input, |input, (asked, answer)| input.decide(asked, answer)),
            Err(error) if error.is_temporary() => return Err(error),
            // If the run began with these decisions before, they are in the log.
            Err(_) if begun => {}
            Err(error) => return Err(error),
        }
        return Ok(limited(input));
    }
    // Any input leads to a model call, even an empty one.
    let asks = create.input.is_some() || create.command.as_ref().is_some_and(Command::asks);
    if messages.is_empty() && removed.is_empty() && rest.is_empty() && !asks {
        if let Some(at) = at {
            // Resuming from the checkpoint before an input keeps the input.
            let (Place::After(position) | Place::BeforeInput(position)) = at.place;
            threads.rewind(&info.id, position).await?;
        }
        return Ok(limited(RunInput::resume(&info.id)));
    }
    if !removed.is_empty() {
        threads.update_state(&info.id, Update::new::<MessagesChannel>(removed)).await?;
    }
    let title = title(app, run, info, &messages);
    let input = RunInput::messages(messages).note(title).id(run.id.clone()).thread(&info.id).update(rest);
    Ok(limited(match at.map(|at| at.state) {
        // A new input replaces the one after the checkpoint.
        Some(Some(position)) => input.at(position),
        Some(None) => {
            threads.rewind(&info.id, 0).await?;
            input
        }
        None => input,
    }))
}

/// Splits an update into new messages, message removals and the rest.
fn split_messages(update: Update) -> (Vec<Message>, Vec<MessageOp>, Update) {
    let (ops, rest) = update.split::<MessagesChannel>();
    let (mut messages, mut removed) = (Vec::new(), Vec::new());
    for op in in_effect(ops.concat()) {
        match op {
            MessageOp::Put(message) => messages.push(Arc::unwrap_or_clone(message)),
            other => removed.push(other),
        }
    }
    (messages, removed, rest)
}

/// Leaves out the changes that later ones of the same update undo, so that removals can be applied first.
fn in_effect(mut ops: Vec<MessageOp>) -> Vec<MessageOp> {
    if let Some(last) = ops.iter().rposition(|op| matches!(op, MessageOp::RemoveAll)) {
        ops.drain(..last);
    }
    let mut removed_later = HashSet::new();
    let mut kept: Vec<MessageOp> = Vec::new();
    for op in ops.into_iter().rev() {
        match &op {
            MessageOp::Put(message) if removed_later.contains(message.id()) => continue,
            MessageOp::Remove(id) => {
                removed_later.insert(id.clone());
            }
            _ => {}
        }
        kept.push(op);
    }
    kept.reverse();
    kept
}

/// Returns what the log has since a run began, in this process or an earlier one.
async fn log_since(app: &App, run: &LiveRun, info: &ThreadInfo) -> Result<Vec<LogEntry>> {
    let from = run.record().from.unwrap_or(info.end);
    Ok(if info.end <= from { Vec::new() } else { app.journal.read(&info.id, from..info.end).await? })
}

/// Whether a record starts or resumes a run. A change of the state is logged as a run of its own.
fn begins(run: &LiveRun, record: &Record) -> bool {
    match record {
        Record::RunStarted { run: started, .. } => *started == run.id,
        Record::RunResumed { .. } => true,
        _ => false,
    }
}

/// Returns a title from the first message, if the agent has a note and the thread has no title yet.
fn title(app: &App, run: &LiveRun, info: &ThreadInfo, messages: &[Message]) -> Map<String, Value> {
    let notes = app.agent(&run.record().graph_id).is_some_and(|served| !served.note.is_empty());
    let said = messages.iter().find(|message| notes && message.as_user().is_some());
    let said = said.filter(|_| !info.metadata.contains_key(TITLE)).map(Message::text).unwrap_or_default();
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    let title = line.map(|line| line.chars().take(TITLE_LENGTH).collect::<String>());
    title.map(|title| (TITLE.to_owned(), title.into())).into_iter().collect()
}

/// Ends a thread in its current state. Pending calls get results that say they were not made.
async fn resolve(threads: &ThreadAccess, info: &ThreadInfo) -> Result<()> {
    let state = threads.state(&info.id).await?;
    let text = "This call was not made: a person marked the conversation as resolved.";
    let result = |call: Call<'_>| MessageOp::put(Message::Tool(ToolMessage::synthetic(call.id, call.name, text)));
    let results = open_calls(&state).map(|(_, open)| open.into_iter().map(result).collect()).unwrap_or_default();
    let update = Update::new::<MessagesChannel>(results).with::<ActionRequests>(vec![ActionRequestChange::Clear]);
    threads.update_state_as(&info.id, Node::End, update).await?;
    Ok(())
}
