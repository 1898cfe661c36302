//! State changes by clients, for new and existing threads.

use deepagents_core::agent::ThreadAccess;
use deepagents_core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents_core::journal::{LogPosition, RunStatus};
use deepagents_core::message::MessageOp;
use deepagents_core::run::Node;
use deepagents_core::state::{MessagesChannel, State, Update};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::completed::completed;
use super::state::earlier_position;
use super::stopped::{calls_left_behind, changes_what_is_asked};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::runs::Command;
use crate::wire::{open_calls, read_update};

/// Updates with which a new thread starts, applied in order.
#[derive(Deserialize)]
pub(super) struct Superstep {
    updates: Vec<Change>,
}

/// One of these updates.
#[derive(Deserialize)]
pub(super) struct Change {
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

/// Checks the updates with which a thread starts, and returns them in order.
pub(super) fn read_changes(app: &App, graph: Option<&Value>, steps: Vec<Superstep>) -> Result<Vec<Change>> {
    let changes: Vec<Change> = steps.into_iter().flat_map(|step| step.updates).collect();
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let graph = graph.and_then(Value::as_str).ok_or_else(|| {
        ApiError::invalid("a thread with `supersteps` needs `graph_id` in its metadata, which says whose state it is")
    })?;
    let served = app.known_agent(graph)?;
    for change in &changes {
        let mut update = Update::none();
        for values in change.all_values() {
            update = update.and(read_update(served.threads.schema(), values)?);
        }
        changed_by(&change.as_node, &update)?;
    }
    Ok(changes)
}

impl Change {
    fn all_values(&self) -> impl Iterator<Item = &Map<String, Value>> {
        let told = self.command.as_ref().and_then(|command| command.update.as_ref());
        self.values.iter().chain(told)
    }
}

pub(super) async fn begin_with(app: &App, thread: &str, changes: Vec<Change>) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let threads = app.threads_of(&app.thread(thread).await?)?;
    for one in changes {
        let mut update = Update::none();
        for values in one.all_values() {
            // The changes before this one may have written the files.
            update = update.and(read_update(threads.schema(), &*completed(&threads, thread, None, values).await?)?);
        }
        match changed_by(&one.as_node, &update)? {
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
