//! Builds an agent from a scenario, with the public builder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::channels::Files;
use deepagents::core::state::ChannelSpec;
use deepagents::core::store::MemoryStore;
use deepagents::core::tool::DynTool;
use deepagents::fs::permissions::Permissions;
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{Backend, CompositeBackend, Content, FileData, LocalBackend, StateBackend, StoreBackend};
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::loop_detection::LoopPolicy;
use deepagents::middleware::summarization::{CacheReuse, Size, SummarizationOptions, Trigger, TruncateArgs};
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::{ModelConfig, Registry};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, MemoryJournal, Middleware, ResponseFormat, ToolError, Update, json_tool};
use serde_json::Value;

use crate::scenario::{BackendSpec, Scenario, SummarizationSpec, ToolSpec};

/// An agent and the place of its files.
pub(crate) struct Built {
    pub(crate) agent: DeepAgent,
    /// The update with which the first run starts.
    pub(crate) initial: Update,
    /// The directory of backends on disk.
    pub(crate) root: tempfile::TempDir,
    /// Whether the trace lists the files of the directory.
    pub(crate) on_disk: bool,
    pub(crate) store: Arc<MemoryStore>,
}

pub(crate) async fn agent(scenario: &Scenario, url: &str, journal: Arc<MemoryJournal>) -> Result<Built> {
    let spec = &scenario.agent;
    if let Some(part) = spec.other.keys().next() {
        bail!("unsupported: agent.{part}");
    }
    let mut files = FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() };
    files.result_tokens = spec.evict.or(files.result_tokens);
    let mut builder = DeepAgent::builder()
        .journal(journal)
        .todos(TodoPolicy::off())
        .loop_detection(LoopPolicy::off())
        .summarization(summarization(spec.summarization.as_ref())?)
        .files(files);
    // The scenarios' model server implements Chat Completions.
    let (provider, model, base_url) = match scenario.provider.as_str() {
        "anthropic" => ("anthropic", "claude-sonnet-4-5", url.to_owned()),
        "openai" => ("openai-chat", "gpt-4.1", format!("{url}/v1")),
        other => bail!("unsupported: provider {other}"),
    };
    let config = ModelConfig { api_key: Some("any".into()), base_url: Some(base_url), ..ModelConfig::default() };
    let model_named = |name: &str| Registry::new().model_with(&format!("{provider}:{name}"), config.clone());
    builder = builder.model(model_named(spec.model.as_deref().unwrap_or(model))?);
    for entry in &spec.subagents {
        let described = Value::Object(entry.spec.clone());
        let mut sub: SubAgentSpec =
            serde_json::from_value(described).map_err(|error| anyhow!("unsupported: subagents: {error}"))?;
        if let Some(name) = &entry.model {
            // Names from another scenario format include the provider.
            sub = sub.model(model_named(name.split_once(':').map_or(name.as_str(), |(_, model)| model))?);
        }
        if let Some(names) = &entry.tools {
            let tools = spec.tools.iter().filter(|tool| names.contains(&tool.name));
            sub = sub.tools(tools.map(|tool| Arc::new(scripted_tool(tool.clone())) as Arc<dyn DynTool>));
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
        builder = builder.interrupt_on(asked.clone());
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
    builder = builder.permissions(Permissions::new(spec.permissions.clone())?);
    let root = tempfile::tempdir()?;
    let store = Arc::new(MemoryStore::default());
    let state = BackendSpec::state();
    let backend = spec.backend.as_ref().unwrap_or(&state);
    let mut initial = Update::none();
    if backend.is_on_disk() {
        for (path, text) in &scenario.files {
            let path: PathBuf = root.path().join(path.trim_start_matches('/'));
            path.parent().map(std::fs::create_dir_all).transpose()?;
            std::fs::write(path, text)?;
        }
    } else {
        let mut files = BTreeMap::new();
        for (path, text) in &scenario.files {
            let file = FileData::new(Content::from_bytes(text.as_bytes()));
            files.insert(path.parse()?, Some(Arc::new(file)));
        }
        if !files.is_empty() {
            initial = Update::new::<Files>(files);
            if !backend.has_state() {
                builder = builder.middleware(StateFiles);
            }
        }
    }
    builder = builder.backend(make_backend(backend, root.path(), &store)?);
    Ok(Built { agent: builder.build()?, initial, root, on_disk: backend.is_on_disk(), store })
}

/// Adds the files channel for an agent whose backend keeps no files in the state.
struct StateFiles;

impl Middleware for StateFiles {
    fn name(&self) -> &str {
        "StateFiles"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Files>()]
    }
}

fn make_backend(spec: &BackendSpec, root: &Path, store: &Arc<MemoryStore>) -> Result<Arc<dyn Backend>> {
    Ok(match spec.kind.as_str() {
        "state" => Arc::new(StateBackend::new()),
        "filesystem" => Arc::new(LocalBackend::open(root)?),
        "local_shell" => {
            let shell = LocalShell::open(root, Confinement::Unconfined)?;
            Arc::new(WithShell::new(LocalBackend::open(root)?, shell))
        }
        "store" => {
            let namespace = spec.namespace.clone().unwrap_or_else(|| vec!["filesystem".to_owned()]);
            Arc::new(StoreBackend::new(store.clone(), namespace))
        }
        "composite" => {
            let state = BackendSpec::state();
            let default = make_backend(spec.default.as_deref().unwrap_or(&state), root, store)?;
            let mut composite = CompositeBackend::new(default);
            for (path, route) in &spec.routes {
                composite = composite.route(path.parse()?, make_backend(route, root, store)?);
            }
            Arc::new(composite)
        }
        other => bail!("unsupported: backend {other}"),
    })
}

fn shape(schema: &Value) -> ResponseFormat {
    ResponseFormat::json(schema.get("title").and_then(Value::as_str).unwrap_or("response"), schema.clone())
}

/// Returns when and how far the conversation is compacted. A scenario that configures this specifies everything:
/// omitted fields do not fall back to the model's window, as they do without a configuration.
fn summarization(spec: Option<&SummarizationSpec>) -> Result<SummarizationOptions> {
    let size = |size: &Option<(String, Value)>| size.as_ref().map(|(kind, n)| Size::parse(kind, n)).transpose();
    let keep = |given: &Option<(String, Value)>| Ok::<_, anyhow::Error>(size(given)?.unwrap_or(Size::Messages(20)));
    let options = SummarizationOptions::default().prefix(CacheReuse::Never);
    let Some(spec) = spec else { return Ok(options) };
    let trigger = size(&spec.trigger)?.map_or_else(Trigger::never, Trigger::at);
    let options = options.trigger(trigger).keep(keep(&spec.keep)?);
    // Without a trigger of their own, arguments are not truncated.
    let args = spec.truncate_args.as_ref().filter(|args| args.trigger.is_some());
    let Some(args) = args else { return Ok(options.truncate_args(None)) };
    let usual = TruncateArgs::default();
    Ok(options.truncate_args(TruncateArgs {
        trigger: size(&args.trigger)?.map(Trigger::at),
        keep: Some(keep(&args.keep)?),
        max_length: args.max_length.unwrap_or(usual.max_length),
        text: args.truncation_text.as_deref().map_or(usual.text, Into::into),
    }))
}

/// Builds a tool that answers as its scenario says.
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

/// Replaces argument names in braces by the arguments.
fn fill(text: &str, args: &Value) -> String {
    let mut out = text.to_owned();
    for (name, value) in args.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        out = out.replace(&format!("{{{name}}}"), &value);
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail where something is missing")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_compaction_options_of_a_scenario_ignore_the_models_window() {
        let told = |spec: Value| {
            let spec: SummarizationSpec = serde_json::from_value(spec).unwrap();
            format!("{:?}", summarization(Some(&spec)).unwrap())
        };
        let usual = |given: SummarizationOptions| format!("{:?}", given.prefix(CacheReuse::Never));
        let twenty = || SummarizationOptions::default().keep(Size::Messages(20));
        let whole = |trigger| usual(twenty().trigger(trigger).truncate_args(None));
        assert_eq!(told(json!({"trigger": ["messages", 30]})), whole(Trigger::messages(30)));
        assert_eq!(told(json!({"truncate_args": {"max_length": 5}})), whole(Trigger::never()));
        let args = TruncateArgs {
            trigger: Some(Trigger::tokens(9)),
            keep: Some(Size::Messages(20)),
            ..TruncateArgs::default()
        };
        let cut = twenty().trigger(Trigger::never()).truncate_args(args);
        assert_eq!(told(json!({"truncate_args": {"trigger": ["tokens", 9]}})), usual(cut));
    }
}
