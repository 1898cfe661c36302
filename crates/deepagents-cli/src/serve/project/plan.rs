//! Plans of agents from the command line, a section of a `deepagents.toml`, or a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use deepagents::fs::sandbox::HostPattern;
use deepagents::mcp::{ConfigFile, ServerConfig};
use serde_json::{Map, Value, json};

use super::file::{AgentSection, Source};
use super::layout::{self, Layout};
use crate::args::{AgentArgs, Approve, CommandArgs, SandboxMode, ServeArgs, variable};
use crate::model_choice::env;
use crate::rules::Rules;

/// An agent to serve.
#[derive(Clone, Debug)]
pub(in crate::serve) struct AgentPlan {
    pub(in crate::serve) name: String,
    pub(in crate::serve) description: Option<String>,
    pub(in crate::serve) options: AgentArgs,
    pub(in crate::serve) approve: Approve,
    /// Whether it may ask its user questions.
    pub(in crate::serve) questions: bool,
    /// Rules that replace those of a file.
    pub(in crate::serve) rules: Option<Rules>,
    /// MCP servers in addition to those of files.
    pub(in crate::serve) servers: Vec<(String, ServerConfig)>,
    pub(in crate::serve) layout: Option<Layout>,
}

impl AgentPlan {
    fn new(name: String, options: AgentArgs, approve: Approve) -> Self {
        // The client of an agent that asks about calls can answer its questions too.
        let questions = approve == Approve::Ask;
        Self { name, description: None, options, approve, questions, rules: None, servers: Vec::new(), layout: None }
    }
}

impl AgentPlan {
    /// Returns the files that define the agent and are read on the host.
    pub(in crate::serve) fn files(&self) -> Vec<PathBuf> {
        let parts = self.layout.iter().flat_map(Layout::parts);
        self.options.steering_files().into_iter().chain(parts).collect()
    }
}

/// Plans the agent that the command line describes.
pub(super) fn of_options(args: &ServeArgs) -> AgentPlan {
    let name = args.name.clone().unwrap_or_else(|| "agent".to_owned());
    AgentPlan::new(name, args.agent.clone(), args.approve.unwrap_or(Approve::Ask))
}

/// Plans an agent of a directory with an `agent.json`.
pub(super) fn laid_out(cli: &AgentArgs, approve: Option<Approve>, directory: &Path) -> Result<AgentPlan> {
    let layout = Layout::read(directory)?;
    if layout.runs_commands && cli.root.is_none() {
        bail!(
            "{}: it runs commands in a sandbox; choose the directory with --root, and the kind with --sandbox",
            directory.join(layout::FILE).display()
        );
    }
    let commands = if layout.runs_commands && !cli.commands.are_run() {
        CommandArgs::in_mode(SandboxMode::Workspace, Vec::new())
    } else {
        cli.commands.clone()
    };
    // The directory describes the agent completely.
    let options = AgentArgs {
        system: Some(format!("@{}", layout.prompt().display())),
        model: cli.model.clone().or_else(|| layout.model.clone()),
        commands,
        no_memory: true,
        no_skills: true,
        no_agents: true,
        no_hooks: true,
        no_mcp: true,
        ..cli.clone()
    };
    // Its `tools.json` says what to ask about.
    let plan = AgentPlan::new(layout.name.clone(), options, approve.unwrap_or(Approve::Auto));
    let (description, servers) = (layout.description.clone(), layout.servers.clone());
    Ok(AgentPlan { description, servers, layout: Some(layout), ..plan })
}

/// Plans an agent of a `deepagents.toml`.
pub(super) fn described(args: &ServeArgs, source: &Source, name: &str, section: &AgentSection) -> Result<AgentPlan> {
    let keys = |key: &'static str| ["agents", name, key];
    let root = source.place(section.root.as_deref().unwrap_or(Path::new("")));
    let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
    let approve = args.approve.or(section.approve);
    if approve == Some(Approve::AllowList) {
        return Err(source.wrong(&keys("approve"), "it must be ask, auto or deny").into());
    }
    let commands = commands(source, name, section)?;
    if let Some(directory) = &section.layout {
        return with_layout(args, source, (name, section), (approve, root, commands), directory);
    }
    let rules = match section.permissions.as_slice() {
        [] => None,
        given => Some(
            Rules::from_values(&format!("agents.{name}.permissions"), given.to_vec())
                .map_err(|error| source.wrong(&keys("permissions"), error))?,
        ),
    };
    let mut options = options(&args.agent, section, root, system(source, name, section)?);
    if section.commands.is_some() {
        options.commands = commands;
    }
    options.mcp.mcp_config = section.mcp_config.as_ref().map(|file| source.place(file)).or(options.mcp.mcp_config);
    let plan = AgentPlan::new(name.to_owned(), options, approve.unwrap_or(Approve::Ask));
    Ok(AgentPlan {
        description: section.description.clone(),
        questions: section.questions.unwrap_or(plan.questions),
        rules,
        servers: servers(source, name, &section.mcp_servers)?,
        ..plan
    })
}

/// Describes an agent that a directory defines. The section may set little beside it.
fn with_layout(
    args: &ServeArgs,
    source: &Source,
    (name, section): (&str, &AgentSection),
    (approve, root, commands): (Option<Approve>, PathBuf, CommandArgs),
    directory: &Path,
) -> Result<AgentPlan> {
    let own = AgentSection {
        description: None,
        layout: None,
        model: None,
        root: None,
        approve: None,
        questions: None,
        commands: None,
        ..section.clone()
    };
    if own != AgentSection::default() {
        let why =
            "its agent.json defines it; only description, model, root, approve, questions and commands may be set here";
        return Err(source.wrong(&["agents", name, "layout"], why).into());
    }
    let mut options = args.agent.clone();
    options.model = options.model.or_else(|| section.model.clone());
    options.root = options.root.or_else(|| section.root.as_ref().map(|_| root));
    if section.commands.is_some() {
        options.commands = commands;
    }
    let mut plan = laid_out(&options, approve, &source.place(directory))?;
    name.clone_into(&mut plan.name);
    plan.description = section.description.clone().or(plan.description);
    plan.questions = section.questions.unwrap_or(plan.questions);
    Ok(plan)
}

/// Returns the system prompt of a section, or the file that has it as `@FILE`.
fn system(source: &Source, name: &str, section: &AgentSection) -> Result<Option<String>> {
    let wrong = |key: &str, why: &str| source.wrong(&["agents", name, key], why);
    Ok(match (&section.system_prompt, &section.system_prompt_file) {
        (Some(_), Some(_)) => {
            return Err(wrong("system_prompt_file", "`system_prompt` is also given; remove one").into());
        }
        (Some(text), None) if text.starts_with('@') => {
            return Err(wrong("system_prompt", "use `system_prompt_file` to name a file").into());
        }
        (Some(text), None) => Some(text.clone()),
        (None, Some(file)) => Some(format!("@{}", source.place(file).display())),
        (None, None) => None,
    })
}

/// Returns the options of an agent. Those of the command line take precedence over its section.
fn options(cli: &AgentArgs, section: &AgentSection, root: PathBuf, system: Option<String>) -> AgentArgs {
    let off = |switch: Option<bool>| switch == Some(false);
    AgentArgs {
        model: cli.model.clone().or_else(|| section.model.clone()),
        effort: cli.effort.or(section.effort),
        base_url: cli.base_url.clone().or_else(|| section.base_url.clone()),
        headers: section.headers.clone().into_iter().chain(cli.headers.clone()).collect(),
        context_window: cli.context_window.or(section.context_window),
        max_answer_tokens: cli.max_answer_tokens.or(section.max_answer_tokens),
        text_tool_calls: cli.text_tool_calls || section.text_tool_calls,
        system: system.or_else(|| cli.system.clone()),
        root: Some(root),
        trust: cli.trust || section.trust,
        no_mcp: cli.no_mcp || off(section.mcp),
        tool_search: cli.tool_search || section.tool_search,
        edit_tool: cli.edit_tool.or(section.edit_tool),
        no_memory: cli.no_memory || off(section.memory),
        no_skills: cli.no_skills || off(section.skills),
        no_agents: cli.no_agents || off(section.sub_agents),
        no_hooks: cli.no_hooks || off(section.hooks),
        no_todos: cli.no_todos || off(section.todos),
        ..cli.clone()
    }
}

fn commands(source: &Source, name: &str, section: &AgentSection) -> Result<CommandArgs> {
    let Some(given) = &section.commands else { return Ok(CommandArgs::default()) };
    let wrong = |key: &str, why: String| source.wrong(&["agents", name, "commands", key], why);
    let mode = given.sandbox.unwrap_or_default();
    if mode == SandboxMode::Unconfined && !given.allow_hosts.is_empty() {
        return Err(wrong("allow_hosts", "commands without a sandbox can reach the whole network".to_owned()).into());
    }
    let hosts = given.allow_hosts.iter().map(|host| host.parse::<HostPattern>());
    let hosts = hosts.collect::<Result<Vec<_>, _>>();
    let hosts = hosts.map_err(|error| wrong("allow_hosts", error.to_string()))?;
    let mut commands = CommandArgs::in_mode(mode, hosts);
    let variables = given.env.iter().map(|text| variable(text)).collect::<Result<Vec<_>, _>>();
    commands.env = variables.map_err(|why| wrong("env", why))?;
    Ok(commands)
}

/// Returns the MCP servers that the file itself describes.
fn servers(source: &Source, agent: &str, given: &BTreeMap<String, Value>) -> Result<Vec<(String, ServerConfig)>> {
    let wrong = |name: &str, why: String| source.wrong(&["agents", agent, "mcp_servers", name], why);
    let mut out = Vec::new();
    for (name, entry) in given {
        let one = Map::from_iter([(name.clone(), entry.clone())]);
        let parsed = ConfigFile::parse(&json!({"mcpServers": one}).to_string());
        for (name, entry) in parsed.map_err(|error| wrong(name, error.to_string()))?.servers {
            let config = entry.and_then(|entry| entry.config(&env)).map_err(|error| wrong(&name, error.to_string()))?;
            out.push((name, config));
        }
    }
    Ok(out)
}
