//! An agent as a graph, and its schemas.

use deepagents_core::agent::AgentDefinition;
use serde_json::{Map, Value, json};

use crate::json::set;

/// Returns the agent loop as nodes and edges.
pub(crate) fn graph(agent: &AgentDefinition) -> Value {
    let node = |name: &str| json!({"id": name, "type": "runnable", "data": {"name": name}});
    let names: Vec<&str> = agent.tools().iter().map(|tool| &*tool.name).collect();
    let mut tools = node("tools");
    set(&mut tools, "metadata", json!({"__tools": names}));
    json!({
        "nodes": [node("__start__"), node("model"), tools, {"id": "__end__"}],
        "edges": [
            {"source": "__start__", "target": "model"},
            {"source": "model", "target": "tools", "conditional": true},
            {"source": "model", "target": "__end__", "conditional": true},
            {"source": "tools", "target": "model"},
        ],
    })
}

/// Returns the schemas of the input, output, state and context.
pub(crate) fn schemas(graph: &str, agent: &AgentDefinition) -> Value {
    let mut all = Map::new();
    let mut input = Map::new();
    for channel in agent.schema().channels().iter().filter(|channel| !channel.is_private()) {
        let schema = match channel.name() {
            "messages" => json!({"title": "Messages", "type": "array", "items": {"type": "object"}}),
            "todos" => json!({"title": "Todos", "type": "array", "items": {"type": "object"}}),
            "files" => json!({"title": "Files", "type": "object", "additionalProperties": {"type": "object"}}),
            other => json!({"title": other}),
        };
        if channel.is_from_input() {
            input.insert(channel.name().to_owned(), schema.clone());
        }
        all.insert(channel.name().to_owned(), schema);
    }
    let object = |title: &str, properties: &Map<String, Value>| json!({"title": title, "type": "object", "properties": properties});
    json!({
        "graph_id": graph,
        "input_schema": object("Input", &input),
        "output_schema": object("Output", &all),
        "state_schema": object("State", &all),
        "config_schema": object("Config", &Map::new()),
        "context_schema": object("Context", &Map::new()),
    })
}
