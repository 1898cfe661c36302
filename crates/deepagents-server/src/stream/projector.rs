//! From the log of a thread and the live events of a run to what clients are streamed.
//!
//! Whatever the log holds is taken from the log, in its order; only pieces of answers and what tools tell while they work
//! come from the live events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use deepagents::{Event, EventKind, EventStream, FinishReason, Outcome};
use deepagents_core::agent::LogReplay;
use deepagents_core::journal::{LogPosition, Record, RecordUpdate};
use deepagents_core::message::{AssistantMessage, Message, MessageOp, ToolMessage};
use deepagents_core::state::{MessagesChannel, State, Update};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use super::log::Part;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::runs::{LiveRun, RunRecord, StreamMode};
use crate::wire::{chunk_text, message, next_nodes, open_interrupts, tool_call_chunk, usage, values};

/// Parts that stem from one record have numbers below this; live ones follow.
const LIVE: u64 = 1_000_000;

/// Works out the stream of one run.
pub(crate) struct Projector {
    run: Arc<LiveRun>,
    modes: Vec<StreamMode>,
    subgraphs: bool,
    replay: LogReplay,
    metadata: Map<String, Value>,
    agents: HashMap<Vec<String>, AgentView>,
    /// Parts so far of the last record, and live ones after it.
    counts: (u64, u64),
}

/// What is known of an agent of the run.
#[derive(Default)]
struct AgentView {
    name: Option<String>,
    /// What its clients were last shown.
    shown: Option<Value>,
    step: u64,
    model: String,
    /// The id of the answer that it is giving, and how much of it was streamed.
    answer: String,
    streamed: bool,
    tools_begun: bool,
}

impl Projector {
    pub(crate) async fn new(app: &App, run: &Arc<LiveRun>, record: &RunRecord, from: LogPosition) -> Result<Self> {
        let info = app.thread(&run.thread).await?;
        let replay = app.threads_of(&info)?.replay(&run.thread, from).await?;
        let create = &record.kwargs;
        let metadata = json!({
            "thread_id": run.thread, "run_id": run.id, "assistant_id": record.assistant_id, "graph_id": record.graph_id,
            "tags": [], "run_attempt": 1,
        });
        let mut projector = Self {
            run: run.clone(),
            modes: create.modes(),
            subgraphs: create.stream_subgraphs,
            replay,
            metadata: metadata.as_object().cloned().unwrap_or_default(),
            agents: HashMap::new(),
            counts: (0, 0),
        };
        projector.push("metadata".to_owned(), None, &json!({"run_id": run.id, "attempt": 1}));
        if create.resume().is_some() || create.input.is_none() {
            projector.show_values(&[])?;
        }
        Ok(projector)
    }

    fn wants(&self, mode: StreamMode) -> bool {
        self.modes.contains(&mode)
    }

    fn push(&mut self, event: String, mode: Option<StreamMode>, data: &Value) {
        self.counts.0 += 1;
        let id = format!("{:08}-{}", self.replay.position(), self.counts.0);
        self.run.log.push(Part { id, event, mode, data: data.to_string() });
    }

    fn push_live(&mut self, event: String, mode: StreamMode, data: &Value) {
        self.counts.1 += 1;
        let id = format!("{:08}-{}", self.replay.position(), LIVE + self.counts.1);
        self.run.log.push(Part { id, event, mode: Some(mode), data: data.to_string() });
    }

    /// The name of an event of an agent.
    fn name(&self, event: &str, path: &[String]) -> String {
        let mut name = event.to_owned();
        for depth in 1..=path.len() {
            name.push('|');
            name.push_str(&self.namespace(path.get(..depth).unwrap_or_default()));
        }
        name
    }

    fn namespace(&self, path: &[String]) -> String {
        let mut words = vec![self.run.thread.as_str()];
        words.extend(path.iter().map(String::as_str));
        format!("tools:{}", ids::derived(&words))
    }

    /// Whether anything of an agent is shown.
    fn shows(&self, path: &[String]) -> bool {
        path.is_empty() || self.subgraphs
    }

    /// Shows the state as the last thing of a run that did no work.
    pub(crate) fn only(mut self, state: &State) -> Result<()> {
        let shown = Value::Object(values(state)?);
        self.run.log.set_last_values(shown.clone());
        if self.wants(StreamMode::Values) {
            self.push("values".to_owned(), Some(StreamMode::Values), &shown);
        }
        Ok(())
    }

    /// Follows a run to its end.
    pub(crate) async fn follow(mut self, mut events: EventStream) -> Self {
        while let Some(event) = events.next().await {
            let position = match (&event.kind, event.position) {
                (_, Some(position)) => position,
                // What was said to a model is in the log before it is asked.
                (EventKind::ModelStarted { .. }, None) => LogPosition::MAX,
                _ => 0,
            };
            if let Err(error) = self.catch_up(position).await {
                self.broken(&error);
                return self;
            }
            self.live(&event);
        }
        if let Err(error) = self.catch_up(LogPosition::MAX).await {
            self.broken(&error);
        }
        self
    }

    /// The log cannot be read on: what follows is not shown, and that is.
    fn broken(&mut self, error: &ApiError) {
        self.push("error".to_owned(), None, &json!({"error": "stream", "message": error.to_string()}));
    }

    /// Takes in the records before a position.
    async fn catch_up(&mut self, position: LogPosition) -> Result<()> {
        while self.replay.position() < position {
            let Some(entry) = self.replay.next().await? else { return Ok(()) };
            self.counts = (0, 0);
            match entry.record {
                Record::Child { path, entry } => self.record(&path, *entry)?,
                own => self.record(&[], own)?,
            }
        }
        Ok(())
    }

    fn record(&mut self, path: &[String], record: Record) -> Result<()> {
        match record {
            Record::AgentStarted { agent, .. } => self.view(path).name = Some(agent),
            Record::Update { update } | Record::StateUpdated { update } => {
                for answer in answers(&self.resolve(update)?) {
                    self.answered(path, &answer);
                }
            }
            Record::ToolStarted { call, .. } => self.tools_begin(path, call.turn),
            Record::ToolFinished { call, message, update } => {
                let update = self.resolve(update)?;
                self.tool_finished(path, &call.path, &message, &update)?;
            }
            Record::ToolsCommitted { calls } => {
                if let Some(call) = calls.first() {
                    self.task(path, "tools", call.turn, Some(json!([])));
                }
                self.view(path).tools_begun = false;
            }
            Record::Step { .. } => {
                self.view(path).step += 1;
                self.show_values(path)?;
                self.checkpoint(path)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn view(&mut self, path: &[String]) -> &mut AgentView {
        self.agents.entry(path.to_vec()).or_default()
    }

    fn resolve(&self, update: RecordUpdate) -> Result<Update> {
        Ok(update.resolve(self.replay.state().schema()).map_err(deepagents_core::error::Error::from)?)
    }

    /// The state of an agent; answers of sub-agents carry their name.
    fn values(&self, path: &[String]) -> Result<Option<Value>> {
        let Some(state) = self.replay.agent_state(path) else { return Ok(None) };
        let mut values = values(state)?;
        let name = self.agents.get(path).and_then(|view| view.name.as_deref()).filter(|_| !path.is_empty());
        if let (Some(name), Some(Value::Array(messages))) = (name, values.get_mut("messages")) {
            messages.iter_mut().for_each(|message| named(message, name));
        }
        Ok(Some(Value::Object(values)))
    }

    fn show_values(&mut self, path: &[String]) -> Result<()> {
        if !self.wants(StreamMode::Values) || !self.shows(path) {
            return Ok(());
        }
        let Some(values) = self.values(path)? else { return Ok(()) };
        let name = self.name("values", path);
        let view = self.view(path);
        if view.shown.as_ref() != Some(&values) {
            view.shown = Some(values.clone());
            self.push(name, Some(StreamMode::Values), &values);
        }
        Ok(())
    }

    fn update(&mut self, path: &[String], node: &str, delta: &Value) {
        if self.wants(StreamMode::Updates) && self.shows(path) {
            let name = self.name("updates", path);
            self.push(name, Some(StreamMode::Updates), &json!({node: delta}));
        }
    }

    /// An answer is part of the conversation.
    fn answered(&mut self, path: &[String], answer: &AssistantMessage) {
        let mut shown = message(&Message::Assistant(answer.clone()));
        if let Some(name) = self.agents.get(path).and_then(|view| view.name.clone()).filter(|_| !path.is_empty()) {
            named(&mut shown, &name);
        }
        if self.wants(StreamMode::MessagesTuple) && self.shows(path) {
            let view = self.view(path);
            let streamed = std::mem::take(&mut view.streamed) && view.answer == answer.id;
            let mut last = if streamed { chunk_text(&answer.id, "") } else { shown.clone() };
            if let Some(last) = last.as_object_mut() {
                last.insert("type".to_owned(), json!("AIMessageChunk"));
                last.insert("chunk_position".to_owned(), json!("last"));
                last.insert("usage_metadata".to_owned(), answer.usage.map_or(Value::Null, |spent| usage(&spent)));
                let calls = answer.tool_calls().enumerate().map(|(index, call)| {
                    json!({"type": "tool_call_chunk", "id": call.id, "name": call.name, "args": call.args.to_string(), "index": index})
                });
                let calls: Vec<Value> = if streamed { Vec::new() } else { calls.collect() };
                last.insert("tool_call_chunks".to_owned(), Value::Array(calls));
            }
            let (name, metadata) = (self.name("messages", path), self.message_metadata(path, "model"));
            self.push(name, Some(StreamMode::MessagesTuple), &json!([last, metadata]));
        }
        let turn = self.view(path).step;
        self.task(path, "model", u32::try_from(turn).unwrap_or(u32::MAX), Some(json!({"messages": [shown]})));
        self.update(path, "model", &json!({"messages": [shown]}));
    }

    fn tool_finished(
        &mut self,
        path: &[String],
        _of: &[String],
        result: &Arc<ToolMessage>,
        update: &Update,
    ) -> Result<()> {
        let shown = message(&Message::Tool((**result).clone()));
        if self.wants(StreamMode::MessagesTuple) && self.shows(path) {
            let (name, metadata) = (self.name("messages", path), self.message_metadata(path, "tools"));
            self.push(name, Some(StreamMode::MessagesTuple), &json!([shown, metadata]));
        }
        let mut delta = json!({"messages": [shown]});
        if let (Some(delta), Some(Value::Object(all))) = (delta.as_object_mut(), self.values(path)?) {
            for entry in update
                .entries()
                .iter()
                .filter(|entry| !entry.spec().is_private() && !entry.spec().is::<MessagesChannel>())
            {
                let name = entry.spec().name();
                delta.extend(all.get(name).map(|value| (name.to_owned(), value.clone())));
            }
        }
        self.update(path, "tools", &delta);
        Ok(())
    }

    fn tools_begin(&mut self, path: &[String], turn: u32) {
        if !std::mem::replace(&mut self.view(path).tools_begun, true) {
            self.task(path, "tools", turn, None);
        }
    }

    /// A node begins, or has a result.
    fn task(&mut self, path: &[String], node: &str, turn: u32, result: Option<Value>) {
        if !self.shows(path) || !(self.wants(StreamMode::Tasks) || self.wants(StreamMode::Debug)) {
            return;
        }
        let id = ids::derived(&[&self.run.id, &path.join("/"), node, &turn.to_string()]).to_string();
        let (kind, payload) = match result {
            None => (
                "task",
                json!({"id": id, "name": node, "input": {}, "triggers": [format!("branch:to:{node}")], "metadata": self.metadata}),
            ),
            Some(result) => {
                ("task_result", json!({"id": id, "name": node, "error": null, "result": result, "interrupts": []}))
            }
        };
        if self.wants(StreamMode::Tasks) {
            let name = self.name("tasks", path);
            self.push(name, Some(StreamMode::Tasks), &payload);
        }
        self.debug(path, kind, &payload);
    }

    fn debug(&mut self, path: &[String], kind: &str, payload: &Value) {
        if self.wants(StreamMode::Debug) {
            let step = self.view(path).step;
            let name = self.name("debug", path);
            let now = ids::now();
            self.push(
                name,
                Some(StreamMode::Debug),
                &json!({"step": step, "timestamp": now, "type": kind, "payload": payload}),
            );
        }
    }

    fn checkpoint(&mut self, path: &[String]) -> Result<()> {
        if !self.shows(path) || !(self.wants(StreamMode::Checkpoints) || self.wants(StreamMode::Debug)) {
            return Ok(());
        }
        let Some(values) = self.values(path)? else { return Ok(()) };
        let next = match path {
            [] => next_nodes(self.replay.state(), self.replay.machine()),
            _ => Vec::new(),
        };
        let id = crate::threads::Place::After(self.replay.position()).id();
        let checkpoint = json!({"thread_id": self.run.thread, "checkpoint_ns": "", "checkpoint_id": id});
        let step = self.view(path).step;
        let payload = json!({
            "values": values, "next": next, "tasks": [], "metadata": {"source": "loop", "step": step, "run_id": self.run.id},
            "config": {"configurable": checkpoint}, "parent_config": null, "checkpoint": checkpoint, "parent_checkpoint": null,
        });
        if self.wants(StreamMode::Checkpoints) {
            let name = self.name("checkpoints", path);
            self.push(name, Some(StreamMode::Checkpoints), &payload);
        }
        self.debug(path, "checkpoint", &payload);
        Ok(())
    }

    fn message_metadata(&mut self, path: &[String], node: &str) -> Value {
        let mut metadata = self.metadata.clone();
        let above: Vec<String> =
            (1..=path.len()).map(|depth| self.namespace(path.get(..depth).unwrap_or_default())).collect();
        let view = self.agents.entry(path.to_vec()).or_default();
        let own = format!("{node}:{}", ids::derived(&[&self.run.id, &path.join("/"), node, &view.step.to_string()]));
        let namespace = above.into_iter().chain([own]).collect::<Vec<_>>().join("|");
        let mut put = |key: &str, value: Value| metadata.insert(key.to_owned(), value);
        put("langgraph_node", json!(node));
        put("langgraph_step", json!(view.step));
        put("langgraph_triggers", json!([format!("branch:to:{node}")]));
        put("langgraph_checkpoint_ns", json!(namespace));
        if node == "model" {
            let (provider, model) = view.model.split_once(':').unwrap_or(("", &view.model));
            put("checkpoint_ns", json!(namespace));
            put("ls_provider", json!(provider));
            put("ls_model_name", json!(model));
            put("ls_model_type", json!("chat"));
        } else if !path.is_empty() {
            put("checkpoint_ns", json!(namespace));
        }
        if let Some(name) = view.name.as_ref().filter(|_| !path.is_empty()) {
            put("lc_agent_name", json!(name));
        }
        Value::Object(metadata)
    }

    /// What is not in the log: pieces of answers, and what tools tell.
    fn live(&mut self, event: &Event) {
        let path = &event.path;
        let piece = match &event.kind {
            EventKind::AgentStarted { name } => {
                self.view(path).name = Some(name.clone());
                return;
            }
            EventKind::ModelStarted { model, message, attempt, .. } => {
                let view = self.view(path);
                (view.model, view.answer, view.streamed) = (model.clone(), message.clone(), false);
                let turn = u32::try_from(view.step).unwrap_or(u32::MAX);
                if *attempt == 0 {
                    self.task(path, "model", turn, None);
                }
                return;
            }
            EventKind::TextDelta { text, .. } => chunk_text(&self.view(path).answer, text),
            EventKind::ToolCallDelta { block, id, name, args, .. } => {
                tool_call_chunk(&self.view(path).answer, id.as_deref(), name.as_deref(), args, *block)
            }
            EventKind::Custom { data, .. } => {
                if self.wants(StreamMode::Custom) && self.shows(path) {
                    let name = self.name("custom", path);
                    self.push_live(name, StreamMode::Custom, data);
                }
                return;
            }
            _ => return,
        };
        if self.wants(StreamMode::MessagesTuple) && self.shows(path) {
            self.view(path).streamed = true;
            let (name, metadata) = (self.name("messages", path), self.message_metadata(path, "model"));
            self.push_live(name, StreamMode::MessagesTuple, &json!([piece, metadata]));
        }
    }

    /// The run has ended: its last state, and the pauses where it waits.
    pub(crate) fn paused(mut self, outcome: &Outcome) -> Result<()> {
        let mut last = values(&outcome.state)?;
        let open = open_interrupts(&self.run.thread, &outcome.state);
        let by_agent: BTreeMap<Vec<String>, Vec<Value>> = open.iter().fold(BTreeMap::new(), |mut all, open| {
            all.entry(open.path.clone()).or_default().push(open.to_json());
            all
        });
        if self.subgraphs {
            for (path, asked) in by_agent.iter().filter(|(path, _)| !path.is_empty()) {
                self.update(path, "__interrupt__", &json!(asked));
            }
        }
        let asked: Vec<Value> = open.iter().map(|open| open.to_json()).collect();
        if !asked.is_empty() || outcome.stop == FinishReason::Suspended {
            self.update(&[], "__interrupt__", &json!(asked));
        }
        if !asked.is_empty() {
            last.insert("__interrupt__".to_owned(), json!(asked));
        }
        let last = Value::Object(last);
        self.run.log.set_last_values(last.clone());
        if self.wants(StreamMode::Values) && self.view(&[]).shown.as_ref() != Some(&last) {
            self.push("values".to_owned(), Some(StreamMode::Values), &last);
        }
        Ok(())
    }

    /// The run has failed.
    pub(crate) fn failed(mut self, kind: &str, text: &str) {
        let error = json!({"error": kind, "message": text});
        self.run.log.set_last_values(json!({"__error__": error}));
        self.push("error".to_owned(), None, &error);
    }
}

/// Gives an answer the name of its agent.
fn named(message: &mut Value, name: &str) {
    if message.get("type").is_some_and(|kind| kind == "ai")
        && let Some(own) = message.get_mut("name").filter(|own| own.is_null())
    {
        *own = json!(name);
    }
}

fn answers(update: &Update) -> Vec<AssistantMessage> {
    let put = update.get::<MessagesChannel>().flatten().filter_map(|op| match op {
        MessageOp::Put(message) => message.as_assistant().cloned(),
        _ => None,
    });
    put.collect()
}
