//! Events in the format of LangChain's `astream_events`: chains, models and tools start, stream and end, each with its
//! id and the ids of its parents. Sub-agents are always included.

use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::message::{Message, ToolMessage};
use deepagents_core::state::State;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::event::{AgentInfo, Kind, RunEnd, RunIdentity, StreamEvent};
use super::metadata::{ChunkMetadata, message_metadata, raw, run_metadata};
use super::task::TaskEnd;
use super::v1::{answer_chunk, shown};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::json::set;
use crate::wire::{message, state_values};

/// The state of a reader that has followed a run.
#[derive(Default)]
pub(super) struct RunnableEvents {
    agents: HashMap<Vec<String>, Agent>,
    chunks: ChunkMetadata,
}

/// The current state of an agent.
#[derive(Default)]
struct Agent {
    /// The client's id of the call that started it.
    call: Option<String>,
    /// The state with which it started.
    given: Option<State>,
    state: Option<State>,
    /// The step of the current model task, and the number of its model calls so far.
    turn: u32,
    asked: u32,
    /// The calls in flight, by the client's ids.
    calls: HashMap<String, Value>,
}

/// A chain, model or tool.
struct Runnable {
    name: String,
    tag: Option<String>,
    id: String,
    parents: Vec<String>,
    metadata: Arc<RawValue>,
}

#[derive(Serialize)]
struct RunnableEvent<'a> {
    event: &'a str,
    name: &'a str,
    run_id: &'a str,
    parent_ids: &'a [String],
    tags: Vec<&'a String>,
    metadata: &'a RawValue,
    data: Value,
}

impl Runnable {
    /// Returns an event as JSON.
    fn event(&self, event: &str, data: Value) -> Result<String> {
        let Self { name, tag, id, parents, metadata } = self;
        let tags = tag.iter().collect();
        let event = RunnableEvent { event, name, run_id: id, parent_ids: parents, tags, metadata, data };
        serde_json::to_string(&event).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}

impl RunnableEvents {
    /// Returns the `astream_events` events for an event, as JSON.
    pub(super) fn write(&mut self, identity: &RunIdentity, event: &StreamEvent) -> Result<Vec<String>> {
        match &event.kind {
            Kind::ToolStarted { id, name, input, .. } => self.tool_started(identity, event, (id, name, input)),
            Kind::ToolFinished { message, .. } => self.tool_finished(identity, event, message),
            Kind::TaskStarted { task, .. } if task.call.is_none() => {
                let agent = self.agent(&event.agent.path);
                (agent.turn, agent.asked) = (task.turn, 0);
                let input = self.input(&event.agent)?;
                Ok(vec![self.node(identity, event).event("on_chain_start", json!({"input": input}))?])
            }
            Kind::TaskFinished { task, end: TaskEnd::Done(changes) } if task.call.is_none() => {
                let update = json!({"messages": [shown(&changes.message, &event.agent)]});
                let output = json!([{"graph": null, "update": update, "resume": null, "goto": []}]);
                let (node, input) = (self.node(identity, event), self.input(&event.agent)?);
                Ok(vec![
                    node.event("on_chain_stream", json!({"chunk": output}))?,
                    node.event("on_chain_end", json!({"output": output, "input": input}))?,
                ])
            }
            Kind::AgentStarted { .. }
            | Kind::Values { .. }
            | Kind::Checkpoint(_)
            | Kind::RunEnded(_)
            | Kind::AgentEnded(_) => self.of_agent(identity, event),
            piece => self.of_model(identity, event, piece),
        }
    }

    /// Returns the events of an agent's own chain.
    fn of_agent(&mut self, identity: &RunIdentity, event: &StreamEvent) -> Result<Vec<String>> {
        let path = &event.agent.path;
        let (name, data) = match &event.kind {
            Kind::AgentStarted { call } => {
                self.agent(path).call.clone_from(call);
                return Ok(Vec::new());
            }
            Kind::Values { state, .. } => {
                let agent = self.agent(path);
                agent.state = Some(state.clone());
                if agent.given.is_some() {
                    return Ok(Vec::new());
                }
                agent.given = Some(state.clone());
                ("on_chain_start", json!({"input": self.input(&event.agent)?}))
            }
            Kind::Checkpoint(reached) => {
                self.agent(path).state = Some(reached.state.clone());
                return Ok(Vec::new());
            }
            Kind::AgentEnded(_) => {
                let given = self.agent(path).given.clone();
                let input = given.map_or_else(|| Ok(Map::new()), |state| state_values(&state, &event.agent))?;
                ("on_chain_end", json!({"output": self.input(&event.agent)?, "input": input}))
            }
            // A failed run has no end event; the error event reports it.
            Kind::RunEnded(RunEnd::Failed(_)) => return Ok(Vec::new()),
            _ => ("on_chain_end", json!({"output": self.input(&event.agent)?})),
        };
        Ok(vec![self.chain(identity, event).event(name, data)?])
    }

    /// Returns the events of a model.
    fn of_model(&mut self, identity: &RunIdentity, event: &StreamEvent, piece: &Kind) -> Result<Vec<String>> {
        if matches!(piece, Kind::MessageStarted { .. }) {
            self.agent(&event.agent.path).asked += 1;
            let input = self.model_input(&event.agent)?;
            return Ok(vec![self.model(identity, event).event("on_chat_model_start", json!({"input": input}))?]);
        }
        let Some(chunk) = answer_chunk(piece, &event.agent) else { return Ok(Vec::new()) };
        let model = self.model(identity, event);
        let mut out = vec![model.event("on_chat_model_stream", json!({"chunk": chunk}))?];
        if let Kind::MessageFinished(answer) = piece {
            let output = shown(&Message::Assistant((**answer).clone()), &event.agent);
            let input = self.model_input(&event.agent)?;
            out.push(model.event("on_chat_model_end", json!({"output": output, "input": input}))?);
        }
        Ok(out)
    }

    fn tool_started(
        &mut self,
        identity: &RunIdentity,
        event: &StreamEvent,
        (id, name, input): (&str, &str, &Value),
    ) -> Result<Vec<String>> {
        let call = json!({"name": name, "args": input, "id": id, "type": "tool_call"});
        let (node, tool) = (self.call_node(identity, event, id), self.tool(identity, event, id, name));
        let out = vec![
            node.event("on_chain_start", json!({"input": [call]}))?,
            tool.event("on_tool_start", json!({"input": input}))?,
        ];
        self.agent(&event.agent.path).calls.insert(id.to_owned(), call);
        Ok(out)
    }

    fn tool_finished(
        &mut self,
        identity: &RunIdentity,
        event: &StreamEvent,
        result: &ToolMessage,
    ) -> Result<Vec<String>> {
        let id = &result.call_id;
        // A call that was answered without being executed never started.
        let Some(call) = self.agent(&event.agent.path).calls.remove(id) else { return Ok(Vec::new()) };
        let (node, tool) = (self.call_node(identity, event, id), self.tool(identity, event, id, &result.name));
        let answer = message(&Message::Tool(result.clone()));
        let update = json!({"messages": [answer]});
        Ok(vec![
            tool.event("on_tool_end", json!({"output": answer, "input": call.get("args")}))?,
            node.event("on_chain_stream", json!({"chunk": update}))?,
            node.event("on_chain_end", json!({"output": update, "input": [call]}))?,
        ])
    }

    fn agent(&mut self, path: &[String]) -> &mut Agent {
        self.agents.entry(path.to_vec()).or_default()
    }

    /// Returns the state of an agent, or an empty one if the reader has not seen it.
    fn input(&self, agent: &AgentInfo) -> Result<Map<String, Value>> {
        let state = self.agents.get(&agent.path).and_then(|known| known.state.as_ref());
        state.map_or_else(|| Ok(Map::new()), |state| state_values(state, agent))
    }

    /// Returns the input of a model.
    fn model_input(&self, agent: &AgentInfo) -> Result<Value> {
        let messages = self.input(agent)?.remove("messages").unwrap_or_else(|| json!([]));
        Ok(json!({"messages": [messages]}))
    }

    /// Returns the chain of the agent itself.
    fn chain(&self, identity: &RunIdentity, event: &StreamEvent) -> Runnable {
        let (path, name) = (&event.agent.path, event.agent.sub_agent_name());
        let mut metadata = run_metadata(identity);
        set(&mut metadata, "lc_agent_name", name);
        if !path.is_empty() {
            set(&mut metadata, "langgraph_node", "tools");
        }
        let (name, metadata) = (name.unwrap_or(&identity.graph).to_owned(), raw(&metadata));
        Runnable { name, tag: None, id: chain_id(identity, path), parents: self.above(identity, path), metadata }
    }

    /// Returns the ids of an agent's parents.
    fn above(&self, identity: &RunIdentity, path: &[String]) -> Vec<String> {
        let Some((_, above)) = path.split_last() else { return Vec::new() };
        let mut ids = self.above(identity, above);
        ids.push(chain_id(identity, above));
        if let Some(call) = self.agents.get(path).and_then(|agent| agent.call.as_ref()) {
            ids.extend([part_id(identity, above, "tools", call), part_id(identity, above, "tool", call)]);
        }
        ids
    }

    /// Returns a runnable within an agent, below `of` if given.
    fn part(&mut self, identity: &RunIdentity, event: &StreamEvent, of: Option<String>, own: (&str, &str)) -> Runnable {
        let path = &event.agent.path;
        let (kind, number) = own;
        let mut parents = self.above(identity, path);
        parents.push(chain_id(identity, path));
        let (node, tag) = match (kind, of.is_some()) {
            ("model" | "tools", false) => (kind, format!("graph:step:{}", event.step)),
            ("tool", _) => ("tools", "seq:step:1".to_owned()),
            _ => ("model", "seq:step:1".to_owned()),
        };
        parents.extend(of);
        let metadata = match node {
            "model" => self.chunks.of(identity, event),
            _ => raw(&message_metadata(identity, event, node)),
        };
        let id = part_id(identity, path, kind, number);
        Runnable { name: node.to_owned(), tag: Some(tag), id, parents, metadata }
    }

    fn turn(&self, event: &StreamEvent) -> (String, u32) {
        let agent = self.agents.get(&event.agent.path);
        agent.map_or_else(|| ("0".to_owned(), 0), |agent| (agent.turn.to_string(), agent.asked))
    }

    /// Returns the model node.
    fn node(&mut self, identity: &RunIdentity, event: &StreamEvent) -> Runnable {
        let (turn, _) = self.turn(event);
        self.part(identity, event, None, ("model", &turn))
    }

    fn model(&mut self, identity: &RunIdentity, event: &StreamEvent) -> Runnable {
        let (turn, asked) = self.turn(event);
        let node = part_id(identity, &event.agent.path, "model", &turn);
        let model = self.part(identity, event, Some(node), ("chat", &format!("{turn}:{asked}")));
        let provider = event.agent.model.split_once(':').map_or("", |(provider, _)| provider);
        Runnable { name: class_of(provider).to_owned(), ..model }
    }

    /// Returns the tools node of a call.
    fn call_node(&mut self, identity: &RunIdentity, event: &StreamEvent, call: &str) -> Runnable {
        self.part(identity, event, None, ("tools", call))
    }

    fn tool(&mut self, identity: &RunIdentity, event: &StreamEvent, call: &str, name: &str) -> Runnable {
        let node = part_id(identity, &event.agent.path, "tools", call);
        Runnable { name: name.to_owned(), ..self.part(identity, event, Some(node), ("tool", call)) }
    }
}

/// Returns the id of an agent's chain. For the main agent it is the run id.
fn chain_id(identity: &RunIdentity, path: &[String]) -> String {
    if path.is_empty() { identity.run.clone() } else { part_id(identity, path, "agent", "") }
}

fn part_id(identity: &RunIdentity, path: &[String], kind: &str, number: &str) -> String {
    ids::derived(&[&identity.run, &path.join("/"), kind, number]).to_string()
}

/// Returns LangChain's class name for a provider's models.
fn class_of(provider: &str) -> &'static str {
    match provider {
        "openai" | "openai-chat" => "ChatOpenAI",
        "azure" | "azure-chat" => "AzureChatOpenAI",
        "anthropic" => "ChatAnthropic",
        "google" => "ChatGoogleGenerativeAI",
        "vertex" => "ChatVertexAI",
        "bedrock" => "ChatBedrockConverse",
        "ollama" => "ChatOllama",
        "mistral" => "ChatMistralAI",
        "groq" => "ChatGroq",
        "xai" => "ChatXAI",
        "deepseek" => "ChatDeepSeek",
        "openrouter" => "ChatOpenRouter",
        _ => "ChatModel",
    }
}
