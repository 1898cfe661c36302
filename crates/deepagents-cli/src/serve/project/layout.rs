//! The layout of deployable agents: `agent.json`, `AGENTS.md`, `tools.json`, `skills`, `subagents`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use deepagents::InterruptPolicy;
use deepagents::mcp::{ServerConfig, ToolFilter, tool_name};
use deepagents::subagents::SubAgentSpec;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::file::ProjectError;

/// Name of the file that describes an agent.
pub(crate) const FILE: &str = "agent.json";
const PROMPT: &str = "AGENTS.md";
const TOOLS: &str = "tools.json";
/// What may define an agent in its directory.
const PARTS: [&str; 5] = [FILE, PROMPT, TOOLS, "skills", "subagents"];

/// An agent described by a directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) model: Option<String>,
    /// Whether it runs commands.
    pub(crate) runs_commands: bool,
    pub(crate) has_skills: bool,
    pub(crate) servers: Vec<(String, ServerConfig)>,
    pub(crate) interrupts: InterruptPolicy,
    pub(crate) sub_agents: Vec<SubAgentSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentFile {
    name: String,
    description: Option<String>,
    model: Option<ModelField>,
    #[serde(default)]
    runtime: Runtime,
    #[serde(default)]
    backend: Backend,
    /// Who may use it on the hosting platform; here, `auth` decides.
    #[serde(rename = "permissions")]
    _permissions: Option<Map<String, Value>>,
    #[serde(rename = "extras")]
    _extras: Option<Map<String, Value>>,
    /// Its ID on the hosting platform.
    #[serde(rename = "agent_id")]
    _agent_id: Option<String>,
    #[serde(rename = "$schema")]
    _schema: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runtime {
    model: Option<ModelField>,
}

/// A model name, alone or in an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum ModelField {
    Name(String),
    Object {
        #[serde(alias = "model")]
        model_id: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backend {
    #[serde(rename = "type", default)]
    kind: BackendKind,
    /// Sandbox settings of the hosting platform.
    #[serde(rename = "sandbox")]
    _sandbox: Option<Value>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BackendKind {
    #[default]
    #[serde(alias = "state")]
    Default,
    #[serde(alias = "thread_scoped_sandbox", alias = "agent_scoped_sandbox")]
    Sandbox,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubAgentFile {
    #[serde(rename = "name")]
    _name: Option<String>,
    description: String,
    #[serde(alias = "model")]
    model_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct ToolsFile {
    tools: Vec<ToolEntry>,
    #[serde(default)]
    interrupt_config: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct ToolEntry {
    name: String,
    mcp_server_url: String,
    mcp_server_name: Option<String>,
}

impl ModelField {
    fn name(self) -> String {
        match self {
            Self::Name(name) | Self::Object { model_id: name } => name,
        }
    }
}

impl ToolEntry {
    /// Returns the local name of its server.
    fn server(&self) -> String {
        let host = || self.mcp_server_url.split("//").nth(1).and_then(|rest| rest.split(['/', ':']).next());
        self.mcp_server_name.as_deref().or_else(host).unwrap_or("tools").to_owned()
    }

    fn offered_as(&self) -> String {
        tool_name(&self.server(), &self.name)
    }
}

impl Layout {
    /// Reads a directory.
    pub(crate) fn read(directory: &Path) -> Result<Self, ProjectError> {
        let file = directory.join(FILE);
        let agent: AgentFile = required(&file)?;
        if agent.name.trim().is_empty() {
            return Err(ProjectError::new(&file, "`name` is empty"));
        }
        prompt(directory)?;
        let tools: ToolsFile = read(&directory.join(TOOLS))?.unwrap_or_default();
        let model = agent.runtime.model.or(agent.model).map(ModelField::name);
        let (servers, interrupts) = (servers(directory, &tools)?, interrupts(directory, &tools)?);
        Ok(Self {
            name: agent.name,
            description: agent.description,
            model,
            runs_commands: agent.backend.kind == BackendKind::Sandbox,
            has_skills: directory.join("skills").is_dir(),
            servers,
            interrupts,
            sub_agents: sub_agents(directory, &tools)?,
            directory: directory.to_owned(),
        })
    }

    /// Returns the path of the system prompt.
    pub(crate) fn prompt(&self) -> PathBuf {
        self.directory.join(PROMPT)
    }

    /// Returns the files and directories that define the agent.
    pub(in crate::serve) fn parts(&self) -> impl Iterator<Item = PathBuf> {
        PARTS.iter().map(|part| self.directory.join(part))
    }
}

/// Reads a JSON file; `None` if it does not exist.
fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, ProjectError> {
    match fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| ProjectError::new(file, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ProjectError::new(file, error)),
    }
}

fn required<T: DeserializeOwned>(file: &Path) -> Result<T, ProjectError> {
    read(file)?.ok_or_else(|| ProjectError::new(file, "the file does not exist"))
}

fn prompt(directory: &Path) -> Result<String, ProjectError> {
    let file = directory.join(PROMPT);
    let text = fs::read_to_string(&file).map_err(|error| {
        ProjectError::new(&file, format!("{error}; this file holds the agent's instructions and must exist"))
    })?;
    if text.trim().is_empty() {
        return Err(ProjectError::new(&file, "it is empty; it must hold the agent's instructions"));
    }
    Ok(text)
}

/// Returns the MCP servers, each limited to the tools named.
fn servers(directory: &Path, tools: &ToolsFile) -> Result<Vec<(String, ServerConfig)>, ProjectError> {
    let mut by_name: BTreeMap<String, (&str, Vec<&str>)> = BTreeMap::new();
    let wrong = |why: String| ProjectError::new(&directory.join(TOOLS), why);
    for tool in &tools.tools {
        let url = tool.mcp_server_url.as_str();
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(wrong(format!("`{url}` of {} is not the address of a server", tool.name)));
        }
        let (known, names) = by_name.entry(tool.server()).or_insert_with(|| (url, Vec::new()));
        if *known != url {
            return Err(wrong(format!("the server {} has two addresses, {known} and {url}", tool.server())));
        }
        names.push(&tool.name);
    }
    let configured = by_name.into_iter().map(|(name, (url, names))| {
        let filter = ToolFilter::new(Some(&names), &[]).map_err(|error| wrong(error.to_string()))?;
        Ok((name, ServerConfig::http(url).tools(filter)))
    });
    configured.collect()
}

/// Returns the tools that are asked about. A key is a tool name, or `URL::TOOL::SERVER`.
fn interrupts(directory: &Path, tools: &ToolsFile) -> Result<InterruptPolicy, ProjectError> {
    let wanted = tools.interrupt_config.iter().map(|(key, wanted)| {
        let name = key.split("::").nth(1).unwrap_or(key);
        let tool = tools.tools.iter().find(|tool| tool.name == name);
        (tool.map_or_else(|| name.to_owned(), ToolEntry::offered_as), wanted.clone())
    });
    let wanted = Value::Object(wanted.collect());
    serde_json::from_value(wanted)
        .map_err(|error| ProjectError::new(&directory.join(TOOLS), format!("`interrupt_config`: {error}")))
}

fn sub_agents(directory: &Path, above: &ToolsFile) -> Result<Vec<SubAgentSpec>, ProjectError> {
    let folder = directory.join("subagents");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ProjectError::new(&folder, error)),
    };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    let named = folders.into_iter().filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)));
    named.filter(|(name, _)| !name.starts_with('.')).map(|(name, path)| sub_agent(&name, &path, above)).collect()
}

fn sub_agent(name: &str, directory: &Path, above: &ToolsFile) -> Result<SubAgentSpec, ProjectError> {
    let file = directory.join(FILE);
    let described: SubAgentFile = required(&file)?;
    let mut spec = SubAgentSpec::new(name, described.description).system_prompt(prompt(directory)?);
    if let Some(model) = described.model_id {
        let model = serde_json::from_value(json!(model));
        spec.model = Some(model.map_err(|error| ProjectError::new(&file, format!("its model: {error}")))?);
    }
    if directory.join("skills").is_dir() {
        spec.skills = vec![format!("/subagents/{name}/skills")];
    }
    let own: ToolsFile = read(&directory.join(TOOLS))?.unwrap_or_default();
    for tool in &own.tools {
        let known = above.tools.iter().any(|other| other.offered_as() == tool.offered_as());
        if !known {
            let why = format!("{} is not among the tools of the agent above; name it in its {TOOLS} too", tool.name);
            return Err(ProjectError::new(&directory.join(TOOLS), why));
        }
    }
    Ok(spec)
}
