//! The states of a thread's sub-agents, which clients address by their namespaces.

use deepagents_core::agent::LogReplay;
use deepagents_core::journal::ThreadInfo;
use deepagents_core::state::State;
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

/// The sub-agents that wait at the end of a thread's log, which is read once for all of them.
pub(super) struct WaitingAgents<'a> {
    info: &'a ThreadInfo,
    replay: LogReplay,
    open: Vec<OpenInterrupt>,
}

impl<'a> WaitingAgents<'a> {
    pub(super) async fn read(app: &App, info: &'a ThreadInfo) -> Result<Self> {
        let replay = app.threads_of(info)?.replay(&info.id, info.end).await?;
        let open = replay.settled_state(&[])?.map(|state| open_interrupts(&info.id, &state)).unwrap_or_default();
        Ok(Self { info, replay, open })
    }

    /// Puts the states of waiting sub-agents into the tasks of a state, in place of their checkpoints.
    pub(super) fn fill_in(&self, state: &mut Value) -> Result<()> {
        for task in state.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten() {
            let namespace = task.get("checkpoint").and_then(|at| at.get("checkpoint_ns")).and_then(Value::as_str);
            // Pruning may have removed the agent's own part of the log.
            let Some(mut below) = namespace.map(|wanted| self.state(wanted)).transpose()?.flatten() else { continue };
            self.fill_in(&mut below)?;
            set(task, "state", below);
            set(task, "checkpoint", Value::Null);
        }
        Ok(())
    }

    /// Returns the state of the waiting sub-agent with a namespace.
    fn state(&self, wanted: &str) -> Result<Option<Value>> {
        let found = self.replay.sub_agents().find(|(path, _)| namespace(&self.info.id, path) == wanted);
        let Some((path, name)) = found else { return Ok(None) };
        let Some(state) = self.replay.settled_state(path)? else { return Ok(None) };
        shown(self.info, path, name, &state, &self.open).map(Some)
    }
}

/// Returns the newest state of a sub-agent, with the states of those that wait below it if they are wanted.
pub(super) async fn sub_state(app: &App, info: &ThreadInfo, wanted: &str, subgraphs: bool) -> Result<Value> {
    let waiting = WaitingAgents::read(app, info).await?;
    let mut state = match waiting.state(wanted)? {
        Some(state) => state,
        None => ended_state(app, &waiting, wanted).await?,
    };
    if subgraphs {
        waiting.fill_in(&mut state)?;
    }
    Ok(state)
}

/// Returns the last state of a sub-agent that has ended.
async fn ended_state(app: &App, waiting: &WaitingAgents<'_>, wanted: &str) -> Result<Value> {
    let (info, threads) = (waiting.info, app.threads_of(waiting.info)?);
    let agents = threads.sub_agents(&info.id).await?;
    let agent = agents.into_iter().rev().find(|agent| namespace(&info.id, &agent.path) == wanted);
    let agent = agent.ok_or_else(|| ApiError::not_found("Checkpoint namespace", wanted))?;
    let state = threads.sub_agent_state(&info.id, &agent.path).await?;
    shown(info, &agent.path, &agent.agent, &state, &waiting.open)
}

/// Serialises the state of the sub-agent at a path.
fn shown(info: &ThreadInfo, path: &[String], name: &str, state: &State, open: &[OpenInterrupt]) -> Result<Value> {
    let open: Vec<&OpenInterrupt> = open.iter().filter(|open| open.path.starts_with(path)).collect();
    let task = |open: &&OpenInterrupt| {
        let next = open.path.get(..=path.len()).map(|below| checkpoint_of(&info.id, below));
        json!({
            "id": open.task, "name": "tools", "path": ["__pregel_pull", "tools"], "error": null,
            "interrupts": [open.to_json()], "checkpoint": next, "state": null, "result": null,
        })
    };
    let agent = AgentInfo { path: path.to_vec(), name: Some(name.to_owned()), ..AgentInfo::default() };
    Ok(json!({
        "values": state_values(state, &agent)?,
        "next": vec!["tools"; open.len()],
        "tasks": open.iter().map(task).collect::<Vec<_>>(),
        "metadata": {"thread_id": info.id, "lc_agent_name": name},
        "created_at": crate::ids::time(info.updated_at),
        "checkpoint": checkpoint_of(&info.id, path),
        "parent_checkpoint": null,
        "interrupts": open.iter().map(|open| open.to_json()).collect::<Vec<_>>(),
        "checkpoint_id": null,
        "parent_checkpoint_id": null,
    }))
}
