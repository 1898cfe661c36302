//! Events in the format of run streams: a name and a value, selected by modes.

use deepagents_core::message::Message;
use serde_json::{Value, json};

use super::event::{AgentInfo, Delta, EventId, Kind, OpenBlock, RunIdentity, StreamEvent};
use super::runnable::RunnableEvents;
use super::task::{call_task, model_task, trigger};
use super::whole::WholeMessages;
use crate::error::Result;
use crate::ids;
use crate::json::{extend, set};
use crate::runs::StreamMode;
use crate::wire::{chunk_text, message, named, state_values, tool_call_chunk, usage};

/// A written event.
pub(crate) struct Frame {
    pub(crate) id: String,
    /// The event name, followed by `|` and the namespace for a sub-agent.
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Frame {
    /// Writes the frame as an event of a `text/event-stream`.
    pub(super) fn text(&self, with_id: bool) -> String {
        let Self { id, event, data } = self;
        let id = if with_id { format!("id: {id}\n") } else { String::new() };
        format!("event: {event}\ndata: {data}\n{id}\n")
    }
}

/// Writes the events of one run for one client.
pub(crate) struct Writer {
    identity: RunIdentity,
    modes: Vec<StreamMode>,
    subgraphs: bool,
    /// The messages being streamed, for the mode that repeats their whole text.
    whole: WholeMessages,
    runnables: RunnableEvents,
}

impl Writer {
    pub(crate) fn new(identity: RunIdentity, modes: Vec<StreamMode>, subgraphs: bool) -> Self {
        Self { identity, modes, subgraphs, whole: WholeMessages::default(), runnables: RunnableEvents::default() }
    }

    fn wants(&self, mode: StreamMode) -> bool {
        self.modes.contains(&mode)
    }

    fn name(&self, event: &str, agent: &AgentInfo) -> String {
        let mut name = event.to_owned();
        for part in self.identity.namespace(&agent.path) {
            name.push('|');
            name.push_str(&part);
        }
        name
    }

    /// Returns the frames for an event.
    pub(crate) fn write(&mut self, event: &StreamEvent) -> Result<Vec<Frame>> {
        let mut out = self.by_mode(event)?;
        if self.wants(StreamMode::Events) {
            for data in self.runnables.write(&self.identity, event)? {
                out.push(Frame { id: event.id.to_text(out.len()), event: "events".to_owned(), data });
            }
        }
        Ok(out)
    }

    fn by_mode(&mut self, event: &StreamEvent) -> Result<Vec<Frame>> {
        let agent = &event.agent;
        if !agent.path.is_empty() && !self.subgraphs {
            return Ok(Vec::new());
        }
        let mut out = Vec::new();
        let mut add = |name: String, data: Value| {
            out.push(Frame { id: event.id.to_text(out.len()), event: name, data });
        };
        match &event.kind {
            Kind::RunStarted => add("metadata".to_owned(), json!({"run_id": self.identity.run, "attempt": 1})),
            Kind::Failed { kind, message } => add("error".to_owned(), json!({"error": kind, "message": message})),
            Kind::Values { state, interrupts } if self.wants(StreamMode::Values) => {
                let mut values = state_values(state, agent)?;
                if !interrupts.is_empty() {
                    values.insert("__interrupt__".to_owned(), json!(interrupts));
                }
                add(self.name("values", agent), Value::Object(values));
            }
            Kind::Updated { node, changes } if self.wants(StreamMode::Updates) => {
                add(self.name("updates", agent), json!({*node: changes.to_json(agent)?}));
            }
            Kind::Interrupted(interrupts) if self.wants(StreamMode::Updates) => {
                add(self.name("updates", agent), json!({"__interrupt__": interrupts}));
            }
            Kind::TaskStarted { task, input } if self.wants_either(StreamMode::Tasks) => {
                self.either(StreamMode::Tasks, "task", &task.started(&self.identity, agent, input)?, event, &mut add);
            }
            Kind::TaskFinished { task, end } if self.wants_either(StreamMode::Tasks) => {
                self.either(StreamMode::Tasks, "task_result", &task.ended(agent, end)?, event, &mut add);
            }
            Kind::Checkpoint(reached) if self.wants_either(StreamMode::Checkpoints) => {
                let payload = reached.to_json(&self.identity, agent)?;
                self.either(StreamMode::Checkpoints, "checkpoint", &payload, event, &mut add);
            }
            Kind::Custom { data, .. } if self.wants(StreamMode::Custom) => {
                add(self.name("custom", agent), data.clone());
            }
            kind => {
                if self.wants(StreamMode::MessagesTuple)
                    && let Some((chunk, node)) = chunk(kind, agent)
                {
                    add(self.name("messages", agent), json!([chunk, message_metadata(&self.identity, event, node)]));
                }
                if self.wants(StreamMode::Messages) {
                    for (name, data) in self.whole.write(&self.identity, event) {
                        add(name.to_owned(), data);
                    }
                }
            }
        }
        Ok(out)
    }

    /// Whether the client wants a mode or `debug`, which wraps its events.
    fn wants_either(&self, mode: StreamMode) -> bool {
        self.wants(mode) || self.wants(StreamMode::Debug)
    }

    /// Adds a mode's payload for an event, and the same wrapped for `debug`.
    fn either(
        &self,
        mode: StreamMode,
        kind: &str,
        data: &Value,
        event: &StreamEvent,
        add: &mut impl FnMut(String, Value),
    ) {
        if self.wants(mode) {
            let name = if mode == StreamMode::Tasks { "tasks" } else { "checkpoints" };
            add(self.name(name, &event.agent), data.clone());
        }
        if self.wants(StreamMode::Debug) {
            add(self.name("debug", &event.agent), debug(event, kind, data));
        }
    }
}

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

/// Whether a frame is still unread by a client that has read up to a part of an event.
pub(crate) fn is_after(frame: &Frame, event: EventId, after: Option<(EventId, usize)>) -> bool {
    after.is_none_or(|(last, part)| event > last || EventId::read(&frame.id).is_some_and(|(_, own)| own > part))
}

fn debug(event: &StreamEvent, kind: &str, payload: &Value) -> Value {
    let step = match &event.kind {
        Kind::Checkpoint(reached) => json!(reached.at.step),
        Kind::TaskStarted { task, .. } | Kind::TaskFinished { task, .. } => json!(task.step),
        _ => json!(event.step),
    };
    json!({"step": step, "timestamp": ids::millis(event.at), "type": kind, "payload": payload})
}

/// Serialises a message. Messages of sub-agents carry the agent's name.
pub(super) fn shown(one: &Message, agent: &AgentInfo) -> Value {
    let mut shown = message(one);
    named(&mut shown, agent);
    shown
}

/// Returns a message chunk or tool result and the node that produced it.
fn chunk(kind: &Kind, agent: &AgentInfo) -> Option<(Value, &'static str)> {
    match kind {
        Kind::ToolFinished { message: result, .. } => Some((message(&Message::Tool((**result).clone())), "tools")),
        piece => Some((answer_chunk(piece, agent)?, "model")),
    }
}

/// Returns a chunk of an assistant message.
pub(super) fn answer_chunk(kind: &Kind, agent: &AgentInfo) -> Option<Value> {
    let piece = match kind {
        Kind::BlockStarted { message, index, block: OpenBlock::Call { id, name } } => {
            tool_call_chunk(message, id.as_deref(), name.as_deref(), "", *index)
        }
        Kind::BlockDelta { message, index, delta } => match delta {
            Delta::Text(text) => chunk_text(message, text),
            Delta::Args(args) => tool_call_chunk(message, None, None, args, *index),
            Delta::Reasoning(text) => {
                let mut chunk = chunk_text(message, "");
                set(&mut chunk, "additional_kwargs", json!({"reasoning_content": text}));
                chunk
            }
        },
        Kind::MessageFinished(answer) => {
            let mut last = chunk_text(&answer.id, "");
            set(&mut last, "chunk_position", "last");
            set(&mut last, "usage_metadata", answer.usage.as_ref().map(usage));
            set(&mut last, "name", agent.sub_agent_name());
            last
        }
        _ => return None,
    };
    Some(piece)
}
