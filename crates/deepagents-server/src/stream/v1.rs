//! Events in the format of run streams: a name and a value, selected by modes.

use deepagents_core::message::Message;
use serde_json::{Value, json};

use super::event::{AgentInfo, Delta, EventId, Kind, OpenBlock, RunIdentity, StreamEvent};
use super::metadata::{ChunkMetadata, message_metadata};
use super::runnable::RunnableEvents;
use super::whole::WholeMessages;
use crate::error::Result;
use crate::ids;
use crate::json::set;
use crate::runs::StreamMode;
use crate::wire::{chunk_text, message, named, state_values, tool_call_chunk, usage};

/// A written event.
pub(crate) struct Frame {
    pub(crate) id: String,
    /// The event name, followed by `|` and the namespace for a sub-agent.
    pub(crate) event: String,
    /// JSON.
    pub(crate) data: String,
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
    chunks: ChunkMetadata,
}

impl Writer {
    pub(crate) fn new(identity: RunIdentity, modes: Vec<StreamMode>, subgraphs: bool) -> Self {
        let (whole, runnables, chunks) =
            (WholeMessages::default(), RunnableEvents::default(), ChunkMetadata::default());
        Self { identity, modes, subgraphs, whole, runnables, chunks }
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
        let mut add = |name: String, data: String| {
            out.push(Frame { id: event.id.to_text(out.len()), event: name, data });
        };
        match &event.kind {
            Kind::RunStarted => {
                add("metadata".to_owned(), json!({"run_id": self.identity.run, "attempt": 1}).to_string())
            }
            Kind::Failed { kind, message } => {
                add("error".to_owned(), json!({"error": kind, "message": message}).to_string())
            }
            Kind::Values { state, interrupts } if self.wants(StreamMode::Values) => {
                let mut values = state_values(state, agent)?;
                if !interrupts.is_empty() {
                    values.insert("__interrupt__".to_owned(), json!(interrupts));
                }
                add(self.name("values", agent), Value::Object(values).to_string());
            }
            Kind::Updated { node, changes } if self.wants(StreamMode::Updates) => {
                add(self.name("updates", agent), json!({*node: changes.to_json(agent)?}).to_string());
            }
            Kind::Interrupted(interrupts) if self.wants(StreamMode::Updates) => {
                add(self.name("updates", agent), json!({"__interrupt__": interrupts}).to_string());
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
                add(self.name("custom", agent), data.to_string());
            }
            kind => {
                if self.wants(StreamMode::MessagesTuple) {
                    if let Kind::ToolFinished { message: result, .. } = kind {
                        let metadata = message_metadata(&self.identity, event, "tools");
                        let result = message(&Message::Tool((**result).clone()));
                        add(self.name("messages", agent), json!([result, metadata]).to_string());
                    } else if let Some(chunk) = answer_chunk(kind, agent) {
                        let metadata = self.chunks.of(&self.identity, event);
                        add(self.name("messages", agent), format!("[{chunk},{metadata}]"));
                    }
                }
                if self.wants(StreamMode::Messages) {
                    for (name, data) in self.whole.write(&self.identity, event) {
                        add(name.to_owned(), data.to_string());
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
        add: &mut impl FnMut(String, String),
    ) {
        if self.wants(mode) {
            let name = if mode == StreamMode::Tasks { "tasks" } else { "checkpoints" };
            add(self.name(name, &event.agent), data.to_string());
        }
        if self.wants(StreamMode::Debug) {
            add(self.name("debug", &event.agent), debug(event, kind, data).to_string());
        }
    }
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
