//! Encoding of run events for the protocol.

use deepagents_core::message::{AssistantMessage, Block, Message, ToolMessage};
use serde_json::{Value, json};

use super::filter::Subscription;
use crate::error::Result;
use crate::json::set;
use crate::stream::{AgentInfo, At, Delta, Kind, OpenBlock, RunEnd, RunIdentity, StreamEvent};
use crate::threads::Place;
use crate::wire::{content_block, message, state_values, usage};

/// The channel of the interrupts that need a response. The method of its events has another name.
const INPUT: &str = "input";

/// The channel of an agent's own events.
pub(super) const CUSTOM: &str = "custom";

/// The channels that a client can subscribe to.
pub(super) const CHANNELS: [&str; 9] =
    ["values", "updates", "messages", "tools", "lifecycle", INPUT, "checkpoints", "tasks", CUSTOM];

/// An encoded event.
pub(super) struct ProtocolEvent {
    pub(super) method: &'static str,
    pub(super) sequence: u64,
    pub(super) json: Value,
}

/// Encodes an event for a subscription.
pub(super) fn encode(identity: &RunIdentity, event: &StreamEvent, wanted: &Subscription) -> Result<Vec<ProtocolEvent>> {
    let namespace = identity.namespace(&event.agent.path);
    let mut out = Vec::new();
    let mut part = 0;
    let mut add = |channel: &'static str, namespace: &[String], data: &dyn Fn() -> Result<Value>| -> Result<()> {
        let sequence = event.id.sequence(part);
        part += 1;
        let custom = match &event.kind {
            Kind::Custom { name, .. } => Some(name.as_str()),
            _ => None,
        };
        if wanted.since.is_some_and(|since| sequence <= since) || !wanted.includes(channel, custom, namespace) {
            return Ok(());
        }
        let id = match &event.kind {
            Kind::RunStarted => format!("synth:{}:lc:running", identity.run),
            Kind::RunEnded(_) => format!("synth:{}:lc:ended", identity.run),
            _ => format!("{}:{sequence}", identity.run),
        };
        let method = if channel == INPUT { "input.requested" } else { channel };
        let json = json!({
            "type": "event", "event_id": id, "seq": sequence, "method": method,
            "params": {"namespace": namespace, "timestamp": event.at, "data": data()?},
        });
        out.push(ProtocolEvent { method, sequence, json });
        Ok(())
    };
    if let Kind::ToolFinished { message: result, .. } = &event.kind {
        add("tools", &namespace, &|| Ok(tool_ended(result)))?;
        let below: Vec<String> = namespace.iter().cloned().chain([format!("tools:{}", result.call_id)]).collect();
        for data in result_message(result) {
            add("messages", &below, &|| Ok(data.clone()))?;
        }
        return Ok(out);
    }
    if let Some(channel) = channel(&event.kind) {
        add(channel, &namespace, &|| data(identity, event))?;
    }
    Ok(out)
}

/// Returns the channel of an event, or `None` if the protocol does not report it.
fn channel(kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::RunStarted | Kind::RunEnded(_) | Kind::AgentStarted { .. } | Kind::AgentEnded(_) => "lifecycle",
        Kind::Values { .. } => "values",
        Kind::Updated { .. } => "updates",
        Kind::InputRequested { .. } => INPUT,
        Kind::MessageStarted { .. }
        | Kind::BlockStarted { .. }
        | Kind::BlockDelta { .. }
        | Kind::BlockFinished { .. }
        | Kind::MessageFinished { .. }
        | Kind::MessageVoided { .. } => "messages",
        Kind::ToolStarted { .. } | Kind::ToolProgress { .. } | Kind::ToolFinished { .. } => "tools",
        Kind::TaskStarted { .. } | Kind::TaskFinished { .. } => "tasks",
        Kind::Checkpoint { .. } => "checkpoints",
        Kind::Custom { .. } => CUSTOM,
        Kind::Interrupted { .. } | Kind::Failed { .. } => return None,
    })
}

/// Turns the content of a message into a list of blocks, with the calls of an answer among them.
fn to_blocks(message: &mut Value) {
    let mut blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(Value::String(text)) if !text.is_empty() => vec![json!({"type": "text", "text": text})],
        _ => Vec::new(),
    };
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    blocks.extend(calls.cloned());
    set(message, "content", blocks);
}

fn data(identity: &RunIdentity, event: &StreamEvent) -> Result<Value> {
    let agent = &event.agent;
    Ok(match &event.kind {
        Kind::RunStarted => json!({"event": "running", "graph_name": identity.graph, "run_id": identity.run}),
        Kind::RunEnded(end) => ended(end, &identity.graph),
        Kind::AgentStarted { call } => {
            let mut data = json!({"event": "started", "graph_name": agent.name});
            if let Some(call) = call {
                set(&mut data, "cause", json!({"type": "toolCall", "tool_call_id": call}));
            }
            data
        }
        Kind::AgentEnded(end) => ended(end, agent.name.as_deref().unwrap_or_default()),
        Kind::Values { state, .. } => {
            let mut values = state_values(state, agent)?;
            let messages = values.get_mut("messages").and_then(Value::as_array_mut);
            messages.into_iter().flatten().for_each(to_blocks);
            Value::Object(values)
        }
        Kind::Updated { node, changes } => json!({"node": node, "values": changes.to_json(agent)?}),
        // Some clients read `payload`, others `value`.
        Kind::InputRequested { id, value } => json!({"interrupt_id": id, "payload": value, "value": value}),
        Kind::ToolStarted { id, name, input, .. } => {
            json!({"event": "tool-started", "tool_call_id": id, "tool_name": name, "input": input})
        }
        Kind::ToolProgress { id, text } => json!({"event": "tool-output-delta", "tool_call_id": id, "delta": text}),
        Kind::TaskStarted { task, input } => task.started(identity, agent, input)?,
        Kind::TaskFinished { task, end } => task.ended(agent, end)?,
        Kind::Checkpoint(reached) => {
            let At { place, parent, source, step } = reached.at;
            json!({"id": place.id(), "parent_id": parent.map(Place::id), "source": source, "step": step})
        }
        Kind::Custom { name, data } if name == "custom" => json!({"payload": data}),
        Kind::Custom { name, data } => json!({"name": name, "payload": data}),
        piece => message_data(identity, agent, piece),
    })
}

/// Encodes a piece of an answer.
fn message_data(identity: &RunIdentity, agent: &AgentInfo, piece: &Kind) -> Value {
    match piece {
        Kind::MessageStarted(id) => {
            let (provider, model) = agent.provider_and_model();
            let metadata = json!({
                "provider": provider, "model": model, "model_type": "chat", "run_id": identity.run,
                "thread_id": identity.thread,
            });
            json!({"event": "message-start", "role": "ai", "id": id, "metadata": metadata})
        }
        Kind::BlockStarted { index, block, .. } => {
            let content = match block {
                OpenBlock::Text => json!({"type": "text", "text": ""}),
                OpenBlock::Reasoning => json!({"type": "reasoning", "reasoning": ""}),
                OpenBlock::Call { id, name } => json!({"type": "tool_call_chunk", "id": id, "name": name, "args": ""}),
            };
            json!({"event": "content-block-start", "index": index, "content": content})
        }
        Kind::BlockDelta { index, delta, .. } => {
            let delta = match delta {
                Delta::Text(text) => json!({"type": "text-delta", "text": text}),
                Delta::Reasoning(text) => json!({"type": "reasoning-delta", "reasoning": text}),
                Delta::Args(args) => json!({"type": "tool-call-delta", "args": args}),
            };
            json!({"event": "content-block-delta", "index": index, "delta": delta})
        }
        Kind::BlockFinished { index, block } => {
            json!({"event": "content-block-finish", "index": index, "content": finished(block)})
        }
        Kind::MessageFinished(answer) => message_finish(answer),
        Kind::MessageVoided(reason) => json!({"event": "error", "message": reason}),
        _ => Value::Null,
    }
}

fn ended(end: &RunEnd, graph: &str) -> Value {
    match end {
        RunEnd::Completed => json!({"event": "completed", "graph_name": graph}),
        RunEnd::Interrupted => json!({"event": "interrupted", "graph_name": graph}),
        RunEnd::Failed(error) => json!({"event": "failed", "graph_name": graph, "error": error}),
    }
}

fn message_finish(answer: &AssistantMessage) -> Value {
    let mut data = json!({"event": "message-finish"});
    if let Some(spent) = &answer.usage {
        set(&mut data, "usage", usage(spent));
    }
    if let Some(origin) = &answer.origin {
        set(&mut data, "metadata", json!({"model_name": origin.model, "model_provider": origin.provider}));
    }
    data
}

/// Encodes a complete block.
fn finished(block: &Block) -> Value {
    match block {
        Block::ToolCall(call) => json!({"type": "tool_call", "id": call.id, "name": call.name, "args": call.args}),
        Block::InvalidToolCall(call) => json!({
            "type": "invalid_tool_call", "id": call.id, "name": call.name, "args": call.raw, "error": call.error,
        }),
        other => content_block(other),
    }
}

/// Encodes a tool result. An error is a result too: the model sees it, and the run continues.
fn tool_ended(result: &ToolMessage) -> Value {
    let output = message(&Message::Tool(result.clone()));
    json!({"event": "tool-finished", "tool_call_id": result.call_id, "output": output})
}

/// Encodes a result as a message of its own, below the calling agent.
fn result_message(result: &ToolMessage) -> Vec<Value> {
    let text = result.content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let text: String = text.collect();
    vec![
        json!({"event": "message-start", "role": "tool", "id": result.id, "tool_call_id": result.call_id}),
        json!({"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}),
        json!({"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": text}}),
        json!({"event": "content-block-finish", "index": 0, "content": {"type": "text", "text": text}}),
        json!({"event": "message-finish"}),
    ]
}
