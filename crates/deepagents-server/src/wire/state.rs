//! States as clients read them.

use deepagents_core::run::{Machine, NextStep};
use deepagents_core::state::{ChannelSpec, MessagesChannel, State};
use serde_json::{Map, Value, json};

use super::calls::open_calls;
use super::message;
use crate::error::Result;
use crate::stream::AgentInfo;

/// Returns the values of a state: every channel that is neither private nor empty, with flat messages.
pub(crate) fn values(state: &State) -> Result<Map<String, Value>> {
    // Messages are serialised only in the wire format.
    let others = |spec: &ChannelSpec| !spec.is_private() && !spec.is::<MessagesChannel>();
    let mut out = state.to_json_where(others)?;
    out.retain(|_, value| !is_empty(value));
    if !state.messages().is_empty() {
        let messages = state.messages().iter().map(|each| message::message(each)).collect();
        out.insert("messages".to_owned(), Value::Array(messages));
    }
    Ok(out)
}

/// Returns the values of an agent's state. Messages of sub-agents carry the agent's name.
pub(crate) fn state_values(state: &State, agent: &AgentInfo) -> Result<Map<String, Value>> {
    let mut values = values(state)?;
    if let Some(Value::Array(messages)) = values.get_mut("messages") {
        messages.iter_mut().for_each(|message| named(message, agent));
    }
    Ok(values)
}

/// Adds the agent's name to a message if the agent is a sub-agent.
pub(crate) fn named(message: &mut Value, agent: &AgentInfo) {
    if let Some(name) = agent.sub_agent_name()
        && message.get("type").is_some_and(|kind| kind == "ai")
        && let Some(own) = message.get_mut("name").filter(|own| own.is_null())
    {
        *own = json!(name);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Returns the next nodes in graph terms: `model`, `tools`, or none.
pub(crate) fn next_nodes(state: &State, machine: Option<&Machine>) -> Vec<&'static str> {
    match machine.map(Machine::next) {
        None | Some(NextStep::Finish(_) | NextStep::AfterAgent) => Vec::new(),
        Some(NextStep::Tools { .. }) => vec!["tools"],
        Some(NextStep::AfterModel) => {
            if open_calls(state).is_some() {
                vec!["tools"]
            } else {
                Vec::new()
            }
        }
        Some(_) => vec!["model"],
    }
}
