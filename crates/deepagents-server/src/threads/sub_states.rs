//! The states of a thread's sub-agents, which clients address by their namespaces.

use deepagents_core::journal::ThreadInfo;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::json::set;
use crate::stream::{AgentInfo, RunIdentity};
use crate::wire::{OpenInterrupt, open_interrupts, state_values};

/// Returns the checkpoint by which clients find the state of the sub-agent at a path.
pub(super) fn checkpoint_of(thread: &str, path: &[String]) -> Value {
    json!({"thread_id": thread, "checkpoint_ns": namespace(thread, path), "checkpoint_id": null})
}

fn namespace(thread: &str, path: &[String]) -> String {
    let identity = RunIdentity { thread: thread.to_owned(), ..RunIdentity::default() };
    identity.namespace(path).join("|")
}

/// Puts the states of waiting sub-agents into the tasks of a state, in place of their checkpoints.
pub(super) fn fill_in<'a>(app: &'a App, info: &'a ThreadInfo, state: &'a mut Value) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        for task in state.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten() {
            let namespace = task.get("checkpoint").and_then(|at| at.get("checkpoint_ns")).and_then(Value::as_str);
            let Some(namespace) = namespace.map(str::to_owned) else { continue };
            let mut below = match sub_state(app, info, &namespace).await {
                // Pruning has removed the agent's own part of the log.
                Err(error) if error.is_not_found() => continue,
                below => below?,
            };
            fill_in(app, info, &mut below).await?;
            set(task, "state", below);
            set(task, "checkpoint", Value::Null);
        }
        Ok(())
    })
}

/// Returns the newest state of a sub-agent.
pub(super) async fn sub_state(app: &App, info: &ThreadInfo, wanted: &str) -> Result<Value> {
    let threads = app.threads_of(info)?;
    let agents = threads.sub_agents(&info.id).await?;
    let agent = agents.into_iter().rev().find(|agent| namespace(&info.id, &agent.path) == wanted);
    let agent = agent.ok_or_else(|| ApiError::not_found("Checkpoint namespace", wanted))?;
    let state = threads.sub_agent_state(&info.id, &agent.path).await?;
    let mut open = open_interrupts(&info.id, &threads.state(&info.id).await?);
    open.retain(|open| open.path.starts_with(&agent.path));
    let task = |open: &OpenInterrupt| {
        let next = open.path.get(..=agent.path.len()).map(|below| checkpoint_of(&info.id, below));
        json!({
            "id": open.task, "name": "tools", "path": ["__pregel_pull", "tools"], "error": null,
            "interrupts": [open.to_json()], "checkpoint": next, "state": null, "result": null,
        })
    };
    let name = AgentInfo { path: agent.path.clone(), name: Some(agent.agent.clone()), ..AgentInfo::default() };
    let checkpoint = checkpoint_of(&info.id, &agent.path);
    Ok(json!({
        "values": state_values(&state, &name)?,
        "next": vec!["tools"; open.len()],
        "tasks": open.iter().map(task).collect::<Vec<_>>(),
        "metadata": {"thread_id": info.id, "lc_agent_name": agent.agent},
        "created_at": crate::ids::time(info.updated_at),
        "checkpoint": checkpoint,
        "parent_checkpoint": null,
        "interrupts": open.iter().map(OpenInterrupt::to_json).collect::<Vec<_>>(),
        "checkpoint_id": null,
        "parent_checkpoint_id": null,
    }))
}
