//! The agents of a plan, built with the library.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use deepagents::fs::{Backend, LocalBackend, StateBackend, StoreBackend};
use deepagents::middleware::summarization::{CacheReuse, Size, SummarizationOptions, Trigger};
use deepagents::subagents::{AgentSubAgent, SubAgentSpec};
use deepagents::{
    Context, DeepAgent, DeepAgentBuilder, Effect, HookOutput, InterruptOn, InterruptPolicy, JumpTo, Message,
    Middleware, ModelRequest, Preset, Tool, ToolContext, ToolError, ToolOutput, Usage,
};
use deepagents_core::agent::BackgroundError;
use deepagents_core::journal::Journal;
use deepagents_core::store::Store;
use deepagents_models::scripted::{ScriptedModel, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::moments::Moments;
use super::notes::{Note, Notes};
use super::plan::{FilesIn, MAIN, Operation, Plan};
use super::script::{Piece, Tag, View, report, task};

/// The usage of each request.
pub(crate) const USAGE: Usage =
    Usage { input: 100, output: 10, cache_read: 0, cache_write: 0, cache_write_hour: 0, reasoning: 0 };

/// What agents are built from.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) plan: Arc<Plan>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) moments: Arc<Moments>,
}

/// Returns the backend for the files of a thread.
pub(crate) fn backend(files: FilesIn, folder: &Path, thread: &str, store: Arc<dyn Store>) -> Result<Arc<dyn Backend>> {
    Ok(match files {
        FilesIn::State => Arc::new(StateBackend::new()),
        FilesIn::Disk => {
            let root = folder.join(format!("{thread}.files"));
            std::fs::create_dir_all(&root)?;
            Arc::new(LocalBackend::open(root)?)
        }
        FilesIn::Store => Arc::new(StoreBackend::new(store, vec![thread.to_owned()])),
    })
}

impl Parts {
    /// Builds the main agent with all agents below it.
    pub(crate) fn main(&self) -> Result<DeepAgent> {
        Ok(self.builder(MAIN)?.journal(self.journal.clone()).build()?)
    }

    fn builder(&self, kind: &str) -> Result<DeepAgentBuilder> {
        let mut builder = DeepAgent::builder()
            .preset(Preset::Lean)
            .name(kind)
            .model(self.model())
            .backend(self.backend.clone())
            .general_purpose(false)
            .background_agents(kind == MAIN && self.plan.has_background());
        if kind == MAIN && self.plan.has_background() {
            builder = builder.middleware(WaitsForTasks);
        }
        for operation in [Operation::Send, Operation::Put, Operation::Look, Operation::Pay, Operation::Steal] {
            builder = builder.tool(NotedTool { operation, parts: self.clone() });
        }
        if self.plan.compacts {
            let options = SummarizationOptions::default().trigger(Trigger::messages(8)).keep(Size::Messages(4));
            builder = builder.summarization(options.prefix(CacheReuse::Never));
        }
        let below = self.plan.kinds_below(kind);
        let waits = self.plan.agents.iter().flat_map(|agent| agent.turns.iter().flatten());
        if kind == MAIN && waits.clone().any(|operation| matches!(operation, Operation::Pay | Operation::Steal)) {
            let policy = InterruptPolicy::new().before("pay", InterruptOn::any()).before("steal", InterruptOn::any());
            builder = builder.interrupt_on(policy);
        }
        for kind in below {
            let description = format!("Does the part of a {kind}.");
            builder = if self.plan.kinds_below(kind).is_empty() {
                builder.sub_agent(SubAgentSpec::new(kind, description).system_prompt(format!("You are a {kind}.")))
            } else {
                builder.sub_agent(AgentSubAgent::new(kind, description, &*self.builder(kind)?.build()?))
            };
        }
        Ok(builder)
    }

    fn model(&self) -> ScriptedModel {
        let parts = self.clone();
        ScriptedModel::rules().always(Turn::with(move |request| parts.answer(request).usage(USAGE))).build()
    }

    fn answer(&self, request: &ModelRequest) -> Turn {
        let view = View::new(request.messages.iter().flat_map(|message| pieces(message)));
        let results = view.calls.iter().map(|(tag, (_, text))| (tag.to_string(), text.clone())).collect();
        let (after, summary) = (view.last.as_ref().map(|tag| tag.answer), request.tools.is_empty());
        let note = Note::Model { agent: view.agent.clone(), after, results, summary };
        if let Err(error) = self.notes.add(&note) {
            return Turn::error(deepagents::ModelError::invalid(error.to_string()));
        }
        self.moments.pass();
        if summary {
            let last = view.last.as_ref().map(Tag::to_string).unwrap_or_default();
            return Turn::text(format!("agent={}; The last call was {last}", view.agent));
        }
        let calls = view.next(&self.plan);
        if calls.is_empty() {
            return Turn::text(report(&view.agent));
        }
        Turn::calls(calls.into_iter().map(|(tag, operation)| {
            let (tool, args) = call(&self.plan, &operation, &tag);
            (tag.to_string(), tool, args)
        }))
    }
}

/// Returns the tool call for an operation.
fn call(plan: &Plan, operation: &Operation, tag: &Tag) -> (&'static str, Value) {
    let args = match operation {
        Operation::Write { path, text } => json!({"file_path": path, "content": text}),
        Operation::Edit { path, old, new } => json!({"file_path": path, "old_string": old, "new_string": new}),
        Operation::Read { path } => json!({"file_path": path}),
        Operation::Delegate(name) | Operation::Start(name) => {
            let kind = plan.find(name).map_or("", |agent| agent.kind);
            json!({"description": task(name), "subagent_type": kind})
        }
        _ => json!({"tag": tag.to_string()}),
    };
    (tool_name(operation), args)
}

pub(crate) fn tool_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Send => "send",
        Operation::Put => "put",
        Operation::Look => "look",
        Operation::Pay => "pay",
        Operation::Steal => "steal",
        Operation::Write { .. } => "write_file",
        Operation::Edit { .. } => "edit_file",
        Operation::Read { .. } => "read_file",
        Operation::Delegate(_) => "task",
        Operation::Start(_) => "start_async_task",
    }
}

fn pieces(message: &Message) -> Vec<Piece> {
    match message {
        Message::User(_) => vec![Piece::User(message.text())],
        Message::Assistant(answer) => {
            let calls = answer.tool_calls();
            calls.map(|call| Piece::Call { id: call.id.clone(), tool: call.name.clone() }).collect()
        }
        Message::Tool(result) => vec![Piece::Outcome { id: result.call_id.clone(), text: message.text() }],
        _ => Vec::new(),
    }
}

/// Keeps the main agent running until its background agents have ended, so that nothing is left when it ends.
struct WaitsForTasks;

impl Middleware for WaitsForTasks {
    fn name(&self) -> &str {
        "WaitsForTasks"
    }

    async fn after_agent(&self, cx: &Context) -> deepagents::Result<HookOutput> {
        let mut left = false;
        for task in cx.background().list().await? {
            // The library's own hooks, which run after this one, report finished tasks. In a run that starts behind the
            // last answer, the tasks left by an earlier process have not been resumed yet.
            left |= matches!(task.outcome().await, Err(BackgroundError::NotRunning { .. }));
        }
        Ok(if left { HookOutput::go(JumpTo::Model) } else { HookOutput::next() })
    }
}

/// A tool that records each of its calls as a note, under the tag in the arguments.
struct NotedTool {
    operation: Operation,
    parts: Parts,
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The call.
    tag: String,
}

impl Tool for NotedTool {
    type Args = Args;

    fn name(&self) -> &str {
        tool_name(&self.operation)
    }

    fn description(&self) -> &str {
        "Takes effect outside."
    }

    fn effect(&self, _: &Args) -> Effect {
        if self.operation == Operation::Look { Effect::Read } else { Effect::External }
    }

    fn idempotent(&self, _: &Args) -> bool {
        self.operation == Operation::Put
    }

    async fn call(&self, Args { tag }: Args, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let parts = &self.parts;
        parts.moments.pass();
        parts.notes.add_synced(&Note::Effect { tag: tag.clone(), key: cx.key() }).map_err(ToolError::fatal)?;
        parts.moments.pass();
        Ok(format!("done {tag}").into())
    }
}
