//! State changes by clients, for new and existing threads.

use std::borrow::Cow;

use deepagents_core::agent::ThreadAccess;
use deepagents_core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents_core::journal::{LogPosition, RunStatus};
use deepagents_core::message::MessageOp;
use deepagents_core::run::Node;
use deepagents_core::state::{MessagesChannel, State, Update};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::state::earlier_position;
use super::stopped::{calls_left_behind, changes_what_is_asked};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::runs::Command;
use crate::wire::{open_calls, overwritten, read_update};

/// The channel of the files in a state.
const FILES: &str = "files";

/// Updates with which a new thread starts, applied in order.
#[derive(Deserialize)]
pub(super) struct Superstep {
    updates: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    values: Option<Map<String, Value>>,
    command: Option<Command>,
    as_node: String,
}

/// On whose behalf a client changes a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedBy {
    Node(Node),
    /// Nobody: the state is copied into a new checkpoint.
    Copy,
}

/// Parses the updates with which a thread starts.
pub(super) fn read_changes(app: &App, graph: Option<&Value>, steps: &[Superstep]) -> Result<Vec<(ChangedBy, Update)>> {
    let changes: Vec<&Change> = steps.iter().flat_map(|step| &step.updates).collect();
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let graph = graph.and_then(Value::as_str).ok_or_else(|| {
        ApiError::invalid("a thread with `supersteps` needs `graph_id` in its metadata, which says whose state it is")
    })?;
    let served = app.known_agent(graph)?;
    let read = |change: &Change| {
        let told = change.command.as_ref().and_then(|command| command.update.as_ref());
        let mut update = Update::none();
        for values in change.values.iter().chain(told) {
            update = update.and(read_update(served.threads.schema(), values)?);
        }
        Ok((changed_by(&change.as_node, &update)?, update))
    };
    changes.into_iter().map(read).collect()
}

pub(super) async fn begin_with(app: &App, thread: &str, changes: Vec<(ChangedBy, Update)>) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let threads = app.threads_of(&app.thread(thread).await?)?;
    for (by, update) in changes {
        match by {
            ChangedBy::Node(node) => change(&threads, thread, Some(node), update).await?,
            ChangedBy::Copy => copy_state(app, thread, None).await?,
        }
    }
    Ok(())
}

/// Finds on whose behalf an update is made, by the name of a node.
pub(super) fn changed_by(name: &str, update: &Update) -> Result<ChangedBy> {
    Ok(ChangedBy::Node(match name {
        "__start__" | "__input__" => Node::Input,
        "model" => Node::Model,
        "tools" => Node::Tools,
        "__end__" => Node::End,
        "__copy__" if update.is_empty() => return Ok(ChangedBy::Copy),
        "__copy__" => {
            return Err(ApiError::invalid("`__copy__` copies a state and takes no values; change the copy afterwards"));
        }
        other => {
            return Err(ApiError::bad_request(format!(
                "`{other}` is not a node; the nodes are __start__, model, tools and __end__, and __input__ and \
                 __copy__ are accepted too"
            )));
        }
    }))
}

/// Copies the state at a checkpoint, or the newest one, into a new checkpoint from which the thread continues.
pub(super) async fn copy_state(app: &App, thread: &str, checkpoint: Option<&str>) -> Result<()> {
    let info = app.thread(thread).await?;
    let earlier = match checkpoint {
        Some(checkpoint) => earlier_position(app, &info, checkpoint).await?,
        None => None,
    };
    if info.end > 0 {
        app.threads_of(&info)?.rewind(thread, earlier.unwrap_or(info.end)).await?;
    }
    Ok(())
}

/// Completes an update of the files of a thread, at a position or where it stands. Files given as texts get times. If the
/// update replaces all files, those that it does not name are removed.
pub(crate) async fn completed<'a>(
    threads: &ThreadAccess,
    thread: &str,
    at: Option<LogPosition>,
    values: &'a Map<String, Value>,
) -> Result<Cow<'a, Map<String, Value>>> {
    let given = values.get(FILES);
    let replaces = given.and_then(overwritten);
    let Some(Value::Object(files)) = replaces.or(given) else { return Ok(Cow::Borrowed(values)) };
    if replaces.is_none() && !files.values().any(Value::is_string) {
        return Ok(Cow::Borrowed(values));
    }
    let state = match at {
        Some(position) => threads.state_at(thread, position).await?,
        None => threads.state(thread).await?,
    };
    let had = state.to_json_where(|channel| channel.name() == FILES)?;
    let had = had.get(FILES).and_then(Value::as_object);
    let (mut files, now) = (files.clone(), crate::ids::now());
    for (path, file) in &mut files {
        if let Value::String(text) = file {
            let created = had.and_then(|had| had.get(path)?.get("created_at")?.as_str()).unwrap_or(&now);
            *file = json!({"content": text, "encoding": "utf-8", "created_at": created, "modified_at": now});
        }
    }
    for path in had.filter(|_| replaces.is_some()).into_iter().flat_map(Map::keys) {
        files.entry(path.as_str()).or_insert(Value::Null);
    }
    let mut values = values.clone();
    values.insert(FILES.to_owned(), Value::Object(files));
    Ok(Cow::Owned(values))
}

/// Updates a state, as a node if one is given. An update as a node ends the work of the last run and clears its
/// interrupts.
pub(super) async fn change(threads: &ThreadAccess, thread: &str, node: Option<Node>, update: Update) -> Result<()> {
    let known = threads.journal().threads().get(thread).await?;
    let is_new = known.is_none_or(|info| info.status == RunStatus::Empty);
    match planned(&threads.state(thread).await?, node, is_new, update)? {
        (Some(node), update) => threads.update_state_as(thread, node, update).await?,
        (None, update) => threads.update_state(thread, update).await?,
    };
    Ok(())
}

/// Refuses a change that the thread would refuse if it continued from a position.
pub(super) async fn check_change(
    threads: &ThreadAccess,
    thread: &str,
    position: LogPosition,
    node: Option<Node>,
    update: &Update,
) -> Result<()> {
    let (node, update) = planned(&threads.state_at(thread, position).await?, node, false, update.clone())?;
    Ok(threads.check_update(thread, position, node, update).await?)
}

/// Returns the node as which a state is updated, if any, and the update with what goes with it. Nothing has run yet on
/// a new thread.
fn planned(state: &State, node: Option<Node>, is_new: bool, update: Update) -> Result<(Option<Node>, Update)> {
    let mut after = state.clone();
    after.apply(&update)?;
    let node = node.or_else(|| inferred(state, &after, is_new, &update));
    let (node, update) = match node {
        // If the update changes calls under review, the review starts over with the new calls, if there are any.
        None if changes_what_is_asked(state, &after) => {
            let is_answer = after.messages().iter().last().is_some_and(|last| last.as_assistant().is_some());
            (Some(if is_answer { Node::Model } else { Node::Input }), update)
        }
        Some(Node::Model) => (node, calls_left_behind(state, &update).and(update)),
        node => (node, update),
    };
    Ok(match node {
        Some(_) => (node, update.with::<ActionRequests>(vec![ActionRequestChange::Clear])),
        None => (node, update),
    })
}

/// Returns the node that an update without a node stands for: one with calls stands for the model, whose calls are made
/// next, and the first messages of a thread are its input.
fn inferred(before: &State, after: &State, is_new: bool, update: &Update) -> Option<Node> {
    let last = after.messages().last()?.id().to_owned();
    let asks = |state: &State| open_calls(state).is_some_and(|(answer, _)| answer.id == last);
    if asks(after) && !asks(before) {
        return Some(Node::Model);
    }
    let is_put = |op: &MessageOp| matches!(op, MessageOp::Put(_));
    (is_new && update.get::<MessagesChannel>().flatten().any(is_put)).then_some(Node::Input)
}
