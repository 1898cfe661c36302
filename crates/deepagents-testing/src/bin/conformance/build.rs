//! From a scenario to an agent, through the public builder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use deepagents::channels::Files;
use deepagents::core::tool::DynTool;
use deepagents::fs::{Content, FileData, LocalBackend, StateBackend};
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::subagents::SubAgentSpec;
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::{ModelConfig, Registry};
use deepagents::{Approvals, AskBefore, DecisionKind, DeepAgent, MemoryJournal, ResponseFormat, ToolError, Update, json_tool};
use serde_json::Value;

use crate::scenario::{Scenario, ToolSpec};

/// An agent and where its files are.
pub(crate) struct Built {
    pub(crate) agent: DeepAgent,
    /// What the first run begins with.
    pub(crate) initial: Update,
    /// The directory of a backend on disk.
    pub(crate) root: Option<tempfile::TempDir>,
}

pub(crate) async fn agent(scenario: &Scenario, url: &str, journal: Arc<MemoryJournal>) -> Result<Built> {
    let spec = &scenario.agent;
    if let Some(part) = spec.other.keys().next() {
        bail!("unsupported: agent.{part}");
    }
    let mut builder = DeepAgent::builder()
        .dyn_journal(journal)
        .todos(TodoPolicy::off())
        .files(FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() });
    let (model, base_url) = match scenario.provider.as_str() {
        "anthropic" => ("claude-sonnet-4-5", url.to_owned()),
        "openai" => ("gpt-4.1", format!("{url}/v1")),
        other => bail!("unsupported: provider {other}"),
    };
    let config = ModelConfig {
        api_key: Some("any".to_owned()),
        base_url: Some(base_url),
        ..ModelConfig::default()
    };
    let model_named = |name: &str| {
        Registry::new().model_with(&format!("{}:{name}", scenario.provider), config.clone())
    };
    builder = builder.model(model_named(spec.model.as_deref().unwrap_or(model))?);
    for entry in &spec.subagents {
        if let Some(part) = entry.other.keys().next() {
            bail!("unsupported: subagents.{part}");
        }
        let mut sub = SubAgentSpec::new(&entry.name, &entry.description).skills(entry.skills.clone());
        if let Some(text) = &entry.system_prompt {
            sub = sub.system_prompt(text.as_str());
        }
        if let Some(name) = &entry.model {
            // Names of another scenario format carry their provider.
            sub = sub.model(model_named(name.split_once(':').map_or(name.as_str(), |(_, model)| model))?);
        }
        if let Some(names) = &entry.tools {
            let tools = spec.tools.iter().filter(|tool| names.contains(&tool.name));
            sub = sub.tools(tools.map(|tool| Arc::new(scripted_tool(tool.clone())) as Arc<dyn DynTool>));
        }
        if let Some(asked) = &entry.interrupt_on {
            sub = sub.interrupt_on(approvals(asked)?);
        }
        if let Some(schema) = &entry.response_format {
            sub = sub.response_format(shape(schema));
        }
        builder = builder.sub_agent(sub);
    }
    if let Some(text) = &spec.system_prompt {
        builder = builder.system_prompt(text.as_str());
    }
    if let Some(asked) = &spec.interrupt_on {
        builder = builder.interrupt_on(approvals(asked)?);
    }
    if let Some(limit) = spec.recursion_limit {
        builder = builder.max_model_calls(limit);
    }
    if !spec.todo {
        builder = builder.without("TodoList");
    }
    if let Some(schema) = &spec.response_format {
        builder = builder.response_format(shape(schema));
    }
    for tool in spec.tools.iter().filter(|tool| !tool.subagent_only) {
        builder = builder.tool(scripted_tool(tool.clone()));
    }
    if let Some(paths) = &spec.memory {
        builder = builder.memory(paths.clone());
    }
    if let Some(sources) = &spec.skills {
        builder = builder.skills(sources.clone());
    }
    let (mut initial, mut root) = (Update::none(), None);
    match spec.backend.as_ref().map_or("state", |backend| backend.kind.as_str()) {
        "state" => {
            let mut files = BTreeMap::new();
            for (path, text) in &scenario.files {
                let file = FileData::new(Content::of(text.as_bytes()));
                files.insert(path.parse()?, Some(Arc::new(file)));
            }
            initial = Update::of::<Files>(files);
            builder = builder.backend(StateBackend::new());
        }
        "filesystem" => {
            let dir = tempfile::tempdir()?;
            for (path, text) in &scenario.files {
                let path: PathBuf = dir.path().join(path.trim_start_matches('/'));
                path.parent().map(std::fs::create_dir_all).transpose()?;
                std::fs::write(path, text)?;
            }
            builder = builder.backend(LocalBackend::open(dir.path())?);
            root = Some(dir);
        }
        other => bail!("unsupported: backend {other}"),
    }
    Ok(Built { agent: builder.build()?, initial, root })
}

/// `true` for any decision, `false` for no question, or the decisions that are allowed.
fn approvals(asked: &BTreeMap<String, Value>) -> Result<Approvals> {
    let mut out = Approvals::new();
    for (tool, rule) in asked {
        match rule {
            Value::Bool(false) => {}
            Value::Bool(true) => out = out.before(tool, AskBefore::any()),
            rule => {
                let allowed: Vec<DecisionKind> = serde_json::from_value(rule["allowed_decisions"].clone())?;
                out = out.before(tool, AskBefore::only(allowed));
            }
        }
    }
    Ok(out)
}

fn shape(schema: &Value) -> ResponseFormat {
    ResponseFormat::json(schema.get("title").and_then(Value::as_str).unwrap_or("response"), schema.clone())
}

/// A tool that answers as its scenario says.
fn scripted_tool(spec: ToolSpec) -> impl DynTool {
    let ToolSpec { name, description, parameters, returns, raises, repeat, .. } = spec;
    json_tool(name, description, parameters, move |args, _cx| {
        let result = match &raises {
            Some(error) => Err(ToolError::model(format!("Error: {error}"))),
            None => Ok(fill(&returns, &args).repeat(repeat.unwrap_or(1))),
        };
        std::future::ready(result)
    })
}

/// Puts arguments into a text where it names them in braces.
fn fill(text: &str, args: &Value) -> String {
    let mut out = text.to_owned();
    for (name, value) in args.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        out = out.replace(&format!("{{{name}}}"), &value);
    }
    out
}
