//! State changes by clients, for new and existing threads.

use deepagents_core::agent::ThreadAccess;
use deepagents_core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents_core::journal::LogPosition;
use deepagents_core::run::Node;
use deepagents_core::state::{State, Update};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::stopped::{calls_left_behind, changes_what_is_asked};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::runs::Command;
use crate::wire::read_update;

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

/// Parses the updates with which a thread starts.
pub(super) fn read_changes(app: &App, graph: Option<&Value>, steps: &[Superstep]) -> Result<Vec<(Node, Update)>> {
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
        Ok((node(&change.as_node)?, update))
    };
    changes.into_iter().map(read).collect()
}

pub(super) async fn begin_with(app: &App, thread: &str, changes: Vec<(Node, Update)>) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let threads = app.threads_of(&app.thread(thread).await?)?;
    for (node, update) in changes {
        change(&threads, thread, Some(node), update).await?;
    }
    Ok(())
}

/// Finds a node by its name.
pub(super) fn node(name: &str) -> Result<Node> {
    Ok(match name {
        "__start__" => Node::Input,
        "model" => Node::Model,
        "tools" => Node::Tools,
        "__end__" => Node::End,
        other => {
            return Err(ApiError::bad_request(format!(
                "`{other}` is not a node; the nodes are __start__, model, tools and __end__"
            )));
        }
    })
}

/// Updates a state, as a node if one is given. An update as a node ends the work of the last run and clears its
/// interrupts.
pub(super) async fn change(threads: &ThreadAccess, thread: &str, node: Option<Node>, update: Update) -> Result<()> {
    match planned(&threads.state(thread).await?, node, update)? {
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
    let (node, update) = planned(&threads.state_at(thread, position).await?, node, update.clone())?;
    Ok(threads.check_update(thread, position, node, update).await?)
}

/// Returns the node as which a state is updated, if any, and the update with what goes with it.
fn planned(state: &State, node: Option<Node>, update: Update) -> Result<(Option<Node>, Update)> {
    let mut after = state.clone();
    after.apply(&update)?;
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
