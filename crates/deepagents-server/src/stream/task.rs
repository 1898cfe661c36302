//! The tasks of an agent in graph terms: model calls and tool calls.

use std::sync::Arc;

use deepagents_core::message::Message;
use deepagents_core::state::State;
use deepagents_core::tool::CallId;
use serde_json::{Map, Value, json};

use super::event::{AgentInfo, RunIdentity};
use super::metadata::run_metadata;
use super::v1::shown;
use crate::error::Result;
use crate::ids;
use crate::wire::state_values;

/// A task that has started.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) node: &'static str,
    /// The step of the agent for a model task, or the turn of the tool call.
    pub(crate) turn: u32,
    /// The tool call, if it is one.
    pub(crate) call: Option<CallId>,
    /// Its step number in the thread of its agent.
    pub(crate) step: i64,
}

/// The input of a task.
#[derive(Debug)]
pub(crate) enum TaskInput {
    State(State),
    /// A call as it appears in the conversation.
    Call(Value),
}

/// The changes made by a node.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) message: Message,
    /// The state and the names of its changed channels other than the messages.
    pub(crate) channels: Option<(State, Vec<&'static str>)>,
}

/// How a task ended.
#[derive(Debug)]
pub(crate) enum TaskEnd {
    Done(Arc<Changes>),
    /// It waits for responses to these interrupts.
    Interrupted(Vec<Value>),
    Failed {
        kind: String,
        message: String,
    },
}

impl Task {
    /// Creates the model task of an agent.
    pub(super) fn model(identity: &RunIdentity, path: &[String], turn: u32, step: i64) -> Self {
        Self { id: model_task(identity, path, turn.into()), node: "model", turn, call: None, step }
    }

    /// Creates the task of a tool call.
    pub(super) fn call(identity: &RunIdentity, call: &CallId, step: i64) -> Self {
        let id = call_task(identity, call);
        Self { id, node: "tools", turn: call.turn, call: Some(call.clone()), step }
    }

    /// Serialises the start of the task.
    pub(crate) fn started(&self, identity: &RunIdentity, agent: &AgentInfo, input: &TaskInput) -> Result<Value> {
        let input = match input {
            TaskInput::State(state) => Value::Object(state_values(state, agent)?),
            TaskInput::Call(call) => json!([call]),
        };
        Ok(json!({
            "id": self.id, "name": self.node, "input": input, "triggers": [trigger(self.node)],
            "metadata": run_metadata(identity),
        }))
    }

    /// Serialises the end of the task.
    pub(crate) fn ended(&self, agent: &AgentInfo, end: &TaskEnd) -> Result<Value> {
        let (error, result, interrupts) = match end {
            TaskEnd::Done(changes) => (Value::Null, changes.to_json(agent)?, json!([])),
            TaskEnd::Interrupted(asked) => (Value::Null, Map::new(), json!(asked)),
            TaskEnd::Failed { kind, message } => (json!({"error": kind, "message": message}), Map::new(), json!([])),
        };
        Ok(json!({
            "id": self.id, "name": self.node, "error": error, "result": result, "interrupts": interrupts,
        }))
    }
}

impl Changes {
    /// Serialises the changed channels.
    pub(crate) fn to_json(&self, agent: &AgentInfo) -> Result<Map<String, Value>> {
        let mut changed = Map::from_iter([("messages".to_owned(), json!([shown(&self.message, agent)]))]);
        if let Some((state, names)) = &self.channels {
            let all = state_values(state, agent)?;
            changed.extend(all.into_iter().filter(|(name, _)| names.contains(&name.as_str())));
        }
        Ok(changed)
    }
}

/// Returns the trigger of a node in graph terms: the tools node is triggered by a push, the model node by a branch.
pub(super) fn trigger(node: &str) -> String {
    if node == "tools" { "__pregel_push".to_owned() } else { format!("branch:to:{node}") }
}

/// Returns the id of the model task of an agent at a step.
pub(super) fn model_task(identity: &RunIdentity, path: &[String], step: u64) -> String {
    ids::derived(&[&identity.run, &path.join("/"), "model", &step.to_string()]).to_string()
}

/// Returns the id of a call's task. If the call runs a sub-agent, its namespace has the same id.
pub(super) fn call_task(identity: &RunIdentity, call: &CallId) -> String {
    identity.task_of(call.child_path("task").iter())
}
