//! The input of a run, from a client's request.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use deepagents::RunInput;
use deepagents_core::journal::{LogPosition, ThreadInfo};
use deepagents_core::message::{Message, MessageOp};
use deepagents_core::state::{MessagesChannel, Update};
use serde_json::{Map, Value};

use super::check::parse_decisions;
use super::command::Command;
use super::create::RunCreate;
use super::input::Attempted;
use super::live::LiveRun;
use crate::app::App;
use crate::error::Result;
use crate::threads::{Entry, Place};
use crate::wire::{read_input, read_other_channels};

/// Key of the title in a thread's metadata.
const TITLE: &str = "title";
/// Maximum number of characters that a title takes from the first message.
const TITLE_LENGTH: usize = 80;

/// What a run starts from.
pub(super) struct Start<'a> {
    /// The channels of the input and of the command's update.
    pub(super) input: Option<Cow<'a, Map<String, Value>>>,
    pub(super) update: Option<Cow<'a, Map<String, Value>>>,
    pub(super) attempted: Attempted,
    /// The earlier position that the thread has gone back to for the run's command.
    pub(super) earlier: Option<LogPosition>,
    /// The checkpoint from which the input continues.
    pub(super) at: Option<Entry>,
}

/// The parts of a request's channels.
struct Parts {
    messages: Vec<Message>,
    /// Removals of messages.
    removed: Update,
    rest: Update,
    /// Changes of a command to channels that are no input of a run.
    others: Update,
}

/// Builds the input of a run, and makes the changes of the thread that must precede it.
pub(super) async fn run_input(
    app: &App,
    run: &LiveRun,
    info: &ThreadInfo,
    create: &RunCreate,
    start: Start<'_>,
) -> Result<RunInput> {
    let threads = app.threads_of(info)?;
    let schema = threads.schema();
    let mut update = Update::none();
    for value in start.input.iter().chain(&start.update) {
        update = update.and(read_input(schema, value)?);
    }
    // A thread that went back has them already.
    let told = start.update.as_ref().filter(|_| start.earlier.is_none());
    let others = told.map(|value| read_other_channels(schema, value)).transpose()?.unwrap_or_else(Update::none);
    let parts = split(update, others);
    let began = start.attempted.began;
    let input = if create.resume().is_some() || create.only_updates() {
        start.attempted.change(&threads, run, parts.others.clone()).await?;
        resuming(app, info, create, &start, parts).await?
    } else {
        let asks = create.input.is_some() || create.command.as_ref().is_some_and(Command::asks);
        let is_empty = parts.messages.is_empty() && parts.removed.is_empty() && parts.rest.is_empty();
        if asks || !is_empty {
            asking(app, run, info, start, parts).await?
        } else {
            if let Some(at) = &start.at {
                // Resuming from the checkpoint before an input keeps the input.
                let (Place::After(position) | Place::BeforeInput(position)) = at.place;
                start.attempted.go_back(&threads, position).await?;
            }
            start.attempted.change(&threads, run, parts.others).await?;
            RunInput::resume(&info.id)
        }
    };
    let limit = create.config.as_ref().and_then(|config| config.get("recursion_limit")).and_then(Value::as_u64);
    Ok(match limit.filter(|_| !began) {
        // A turn is two graph steps: the model and the tools. Each agent has steps of its own.
        Some(limit) => input.max_calls_per_agent(u32::try_from(limit.div_ceil(2).max(1)).unwrap_or(u32::MAX)),
        None => input,
    })
}

/// Builds the input of a run that resumes the thread's work, with the decisions of the request.
async fn resuming(
    app: &App,
    info: &ThreadInfo,
    create: &RunCreate,
    start: &Start<'_>,
    parts: Parts,
) -> Result<RunInput> {
    let input = RunInput::resume(&info.id);
    if start.attempted.began {
        return Ok(input);
    }
    // If calls are pending, messages are delivered after their results.
    let input = parts.messages.into_iter().fold(input.update(parts.removed.and(parts.rest)), RunInput::message);
    let Some(resume) = create.resume() else { return Ok(input) };
    let given = parse_decisions(app, info, start.earlier, resume).await?;
    Ok(given.into_iter().fold(input, |input, (asked, answer)| input.decide(asked, answer)))
}

/// Builds the input of a run that calls the model, as any input does, even an empty one.
async fn asking(app: &App, run: &LiveRun, info: &ThreadInfo, start: Start<'_>, parts: Parts) -> Result<RunInput> {
    let threads = app.threads_of(info)?;
    let title = title(app, run, info, &parts.messages);
    let input = RunInput::messages(parts.messages).note(title).id(run.id.clone()).thread(&info.id).update(parts.rest);
    let before = parts.others.and(parts.removed);
    // A new input replaces the one after the checkpoint.
    let input = match start.at.map(|at| at.state).filter(|_| !start.attempted.began) {
        Some(Some(position)) if before.is_empty() => input.at(position),
        Some(position) => {
            start.attempted.go_back(&threads, position.unwrap_or(0)).await?;
            input
        }
        None => input,
    };
    start.attempted.change(&threads, run, before).await?;
    Ok(input)
}

/// Splits an update into new messages, message removals and the rest.
fn split(update: Update, others: Update) -> Parts {
    let (ops, rest) = update.split::<MessagesChannel>();
    let (mut messages, mut removed) = (Vec::new(), Vec::new());
    for op in in_effect(ops.concat()) {
        match op {
            MessageOp::Put(message) => messages.push(Arc::unwrap_or_clone(message)),
            other => removed.push(other),
        }
    }
    let removed = if removed.is_empty() { Update::none() } else { Update::new::<MessagesChannel>(removed) };
    Parts { messages, removed, rest, others }
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

/// Returns a title from the first message, if the agent has a note and the thread has no title yet.
fn title(app: &App, run: &LiveRun, info: &ThreadInfo, messages: &[Message]) -> Map<String, Value> {
    let notes = app.agent(&run.record().graph_id).is_some_and(|served| !served.note.is_empty());
    let said = messages.iter().find(|message| notes && message.as_user().is_some());
    let said = said.filter(|_| !info.metadata.contains_key(TITLE)).map(Message::text).unwrap_or_default();
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    let title = line.map(|line| line.chars().take(TITLE_LENGTH).collect::<String>());
    title.map(|title| (TITLE.to_owned(), title.into())).into_iter().collect()
}
