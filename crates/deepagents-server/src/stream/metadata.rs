//! The metadata that accompany the events of a run.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::event::{AgentInfo, Kind, RunIdentity, StreamEvent};
use super::task::{call_task, model_task, trigger};
use crate::json::{extend, set};

/// Returns the run's metadata, which accompany all its events.
pub(super) fn run_metadata(identity: &RunIdentity) -> Value {
    let RunIdentity { thread, run, assistant, graph, metadata, tags } = identity;
    let mut shown = Value::Object(metadata.clone());
    let own = json!({
        "thread_id": thread, "run_id": run, "assistant_id": assistant, "graph_id": graph, "tags": tags,
        "run_attempt": 1,
    });
    extend(&mut shown, own);
    shown
}

/// Returns the metadata of a message chunk or tool result.
pub(super) fn message_metadata(identity: &RunIdentity, event: &StreamEvent, node: &str) -> Value {
    let agent = &event.agent;
    let task = match &event.kind {
        Kind::ToolStarted { call, .. } | Kind::ToolFinished { call, .. } => call_task(identity, call),
        _ => model_task(identity, &agent.path, event.step),
    };
    let own = format!("{node}:{task}");
    let above = identity.namespace(&agent.path);
    let namespace = above.into_iter().chain([own]).collect::<Vec<_>>().join("|");
    let mut metadata = run_metadata(identity);
    let mut put = |key: &str, value: Value| set(&mut metadata, key, value);
    put("langgraph_node", json!(node));
    put("langgraph_step", json!(event.step));
    put("langgraph_triggers", json!([trigger(node)]));
    put("langgraph_checkpoint_ns", json!(namespace));
    if node == "model" || !agent.path.is_empty() {
        put("checkpoint_ns", json!(namespace));
    }
    if node == "model" {
        let (provider, model) = agent.provider_and_model();
        put("ls_provider", json!(provider));
        put("ls_model_name", json!(model));
        put("ls_model_type", json!("chat"));
    }
    if let Some(name) = agent.sub_agent_name() {
        put("lc_agent_name", json!(name));
    }
    metadata
}

/// The metadata of the chunks of answers, as JSON: all chunks of an agent's step have the same.
#[derive(Default)]
pub(super) struct ChunkMetadata(HashMap<Vec<String>, KnownMetadata>);

struct KnownMetadata {
    agent: Arc<AgentInfo>,
    step: u64,
    json: Arc<RawValue>,
}

impl ChunkMetadata {
    pub(super) fn of(&mut self, identity: &RunIdentity, event: &StreamEvent) -> Arc<RawValue> {
        let known = self.0.get(&event.agent.path);
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.agent, &event.agent) && known.step == event.step) {
            return known.json.clone();
        }
        let json = raw(&message_metadata(identity, event, "model"));
        let known = KnownMetadata { agent: event.agent.clone(), step: event.step, json: json.clone() };
        self.0.insert(event.agent.path.clone(), known);
        json
    }
}

/// Serialises a value once for several events.
pub(super) fn raw(value: &Value) -> Arc<RawValue> {
    // A value that was parsed or built here can be serialised.
    RawValue::from_string(value.to_string()).map_or_else(|_| RawValue::NULL.to_owned().into(), Arc::from)
}
