//! Builds agents from a description, with the public builder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use deepagents::core::tool::DynTool;
use deepagents::middleware::Rubric;
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::loop_detection::LoopPolicy;
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::{ModelConfig, Registry};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, InterruptPolicy, MemoryJournal, ToolError, json_tool};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
pub(crate) struct Rig {
    model: ModelSpec,
    pub(crate) agents: BTreeMap<String, AgentSpec>,
    #[serde(default)]
    pub(crate) webhooks: WebhookSpec,
}

#[derive(Default, Deserialize)]
pub(crate) struct WebhookSpec {
    #[serde(default)]
    pub(crate) allow_loopback: bool,
}

#[derive(Deserialize)]
struct ModelSpec {
    provider: String,
    base_url: String,
    api_key: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct AgentSpec {
    pub(crate) description: Option<String>,
    model: String,
    system_prompt: Option<String>,
    #[serde(default)]
    todo: bool,
    /// Whether its work can be judged by a goal.
    #[serde(default)]
    goals: bool,
    #[serde(default)]
    tools: Vec<ToolSpec>,
    interrupt_on: Option<InterruptPolicy>,
    #[serde(default)]
    subagents: Vec<SubAgentEntry>,
}

#[derive(Clone, Deserialize)]
struct ToolSpec {
    name: String,
    #[serde(default)]
    description: String,
    parameters: Value,
    #[serde(default)]
    returns: String,
    raises: Option<String>,
    delay_ms: Option<Value>,
    #[serde(default)]
    emits: Vec<Value>,
    #[serde(default)]
    subagent_only: bool,
}

#[derive(Deserialize)]
struct SubAgentEntry {
    /// Names of the agent's tools.
    tools: Option<Vec<String>>,
    #[serde(flatten)]
    spec: Map<String, Value>,
}

/// Expands the environment variables in a text.
pub(crate) fn expand(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').context("a `${` without its `}`")?;
        out.push_str(before);
        out.push_str(&std::env::var(name).with_context(|| format!("the environment variable {name}"))?);
        rest = after;
    }
    Ok(out + rest)
}

pub(crate) fn agent(rig: &Rig, spec: &AgentSpec, journal: Arc<MemoryJournal>) -> Result<DeepAgent> {
    let base_url = format!("{}/v1", rig.model.base_url);
    let config = ModelConfig {
        api_key: rig.model.api_key.clone().map(Into::into),
        base_url: Some(base_url),
        ..ModelConfig::default()
    };
    // In these files, `openai` means Chat Completions.
    let provider = match rig.model.provider.as_str() {
        "openai" => "openai-chat",
        other => other,
    };
    let model = Registry::new().model_with(&format!("{provider}:{}", spec.model), config)?;
    let files = FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() };
    let mut builder = DeepAgent::builder()
        .journal(journal)
        .model(model)
        .todos(TodoPolicy::off())
        .loop_detection(LoopPolicy::off())
        .files(files)
        .without("Summarization");
    for entry in &spec.subagents {
        let mut sub: SubAgentSpec = serde_json::from_value(Value::Object(entry.spec.clone()))?;
        if let Some(names) = &entry.tools {
            let tools = spec.tools.iter().filter(|tool| names.contains(&tool.name));
            sub = sub.tools(tools.map(|tool| Arc::new(scripted_tool(tool.clone())) as Arc<dyn DynTool>));
        }
        builder = builder.sub_agent(sub);
    }
    if let Some(text) = &spec.system_prompt {
        builder = builder.system_prompt(text.as_str());
    }
    if let Some(asked) = &spec.interrupt_on {
        builder = builder.interrupt_on(asked.clone());
    }
    if spec.goals {
        builder = builder.middleware(Rubric::default());
    }
    if !spec.todo {
        builder = builder.without("TodoList");
    }
    for tool in spec.tools.iter().filter(|tool| !tool.subagent_only) {
        builder = builder.tool(scripted_tool(tool.clone()));
    }
    builder.build().map_err(|error| anyhow!("{error}"))
}

/// Builds a tool that answers as its description says.
fn scripted_tool(spec: ToolSpec) -> impl DynTool {
    let ToolSpec { name, description, parameters, returns, raises, delay_ms, emits, .. } = spec;
    json_tool(name, description, parameters, move |args: Value, cx| {
        let (returns, raises, delay, emits) = (returns.clone(), raises.clone(), delay_ms.clone(), emits.clone());
        async move {
            let delay = match delay {
                Some(Value::String(text)) => fill(&text, &args).parse().unwrap_or(0),
                Some(delay) => delay.as_u64().unwrap_or(0),
                None => 0,
            };
            for value in emits {
                cx.custom("custom", value);
            }
            tokio::time::sleep(Duration::from_millis(delay)).await;
            match raises {
                Some(error) => Err(ToolError::model(fill(&error, &args))),
                None => Ok(fill(&returns, &args)),
            }
        }
    })
}

/// Replaces argument names in braces by the arguments.
fn fill(text: &str, args: &Value) -> String {
    let mut out = text.to_owned();
    for (name, value) in args.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        out = out.replace(&format!("{{{name}}}"), &value);
    }
    out
}
