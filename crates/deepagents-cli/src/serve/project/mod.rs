//! What is served: agents described by the command line, a `deepagents.toml` or a directory.

#[cfg(test)]
mod damaged;
mod file;
mod layout;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use deepagents::fs::sandbox::HostPattern;
use deepagents::mcp::{ConfigFile, ServerConfig};
use serde_json::{Map, Value, json};

use crate::args::{AgentArgs, Approve, CommandArgs, SandboxMode, ServeArgs, variable};
use crate::exit::WrongUsage;
use crate::model_choice::env;
use crate::rules::Rules;

use file::{AgentSection, Source};
pub(super) use file::{JwtSection, LimitsSection, ProjectFile, StoreSection};
pub(super) use layout::Layout;

/// Name of the file that describes several agents.
const FILE: &str = "deepagents.toml";

/// An agent to serve.
#[derive(Clone, Debug)]
pub(super) struct AgentPlan {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) options: AgentArgs,
    pub(super) approve: Approve,
    /// Whether it may ask its user questions.
    pub(super) questions: bool,
    /// Rules that replace those of a file.
    pub(super) rules: Option<Rules>,
    /// MCP servers in addition to those of files.
    pub(super) servers: Vec<(String, ServerConfig)>,
    pub(super) layout: Option<Layout>,
}

/// The agents to serve, and the server's settings.
#[derive(Clone, Debug)]
pub(super) struct Project {
    pub(super) agents: Vec<AgentPlan>,
    /// The file's settings other than the agents; paths are relative to the working directory of the program.
    pub(super) settings: ProjectFile,
    /// Files and directories that describe the agents.
    pub(super) described_by: Vec<PathBuf>,
}

impl Project {
    /// Reads the description that the command line names.
    pub(super) fn read(args: &ServeArgs) -> Result<Self> {
        if let Some(name) = args.name.as_deref().filter(|name| !is_name(name)) {
            bail!(WrongUsage(format!("--name cannot be `{name}`: {NAMES}")));
        }
        let Some(place) = &args.project else { return Ok(Self::of_options(args)) };
        let (toml, json) = (place.join(FILE), place.join(layout::FILE));
        if place.is_dir() && toml.is_file() {
            Self::of_file(args, &toml)
        } else if place.is_dir() && json.is_file() {
            Self::of_layout(args, place)
        } else if place.file_name().is_some_and(|name| name == layout::FILE) {
            Self::of_layout(args, place.parent().unwrap_or(Path::new("")))
        } else if place.is_file() {
            Self::of_file(args, place)
        } else if place.is_dir() {
            bail!(WrongUsage(format!("{} has neither a {FILE} nor an {}", place.display(), layout::FILE)))
        } else {
            bail!(WrongUsage(format!("there is no `{}`; name a directory, or a {FILE}", place.display())))
        }
    }

    fn of_options(args: &ServeArgs) -> Self {
        let agent = AgentPlan {
            name: args.name.clone().unwrap_or_else(|| "agent".to_owned()),
            description: None,
            options: args.agent.clone(),
            approve: args.approve.unwrap_or(Approve::Ask),
            questions: asks(args.approve.unwrap_or(Approve::Ask)),
            rules: None,
            servers: Vec::new(),
            layout: None,
        };
        Self { agents: vec![agent], settings: ProjectFile::default(), described_by: Vec::new() }
    }

    fn of_layout(args: &ServeArgs, directory: &Path) -> Result<Self> {
        let mut agent = laid_out(&args.agent, args.approve, directory)?;
        agent.name = args.name.clone().unwrap_or(agent.name);
        Ok(Self { agents: vec![agent], settings: ProjectFile::default(), described_by: vec![directory.to_owned()] })
    }

    fn of_file(args: &ServeArgs, path: &Path) -> Result<Self> {
        if args.name.is_some() {
            bail!(WrongUsage(format!(
                "--name works for a single agent only; {} names its agents itself",
                path.display()
            )));
        }
        let (source, mut settings) = Source::read(path)?;
        if settings.agents.is_empty() {
            bail!("{}: it defines no agents; add a table [agents.NAME]", path.display());
        }
        let (mut agents, mut described_by) = (Vec::new(), vec![path.to_owned()]);
        for (name, section) in &settings.agents {
            if !is_name(name) {
                return Err(source.wrong(&["agents", name], NAMES).into());
            }
            let agent = described(args, &source, name, section)?;
            described_by.extend(agent.layout.iter().map(|layout| layout.directory.clone()));
            agents.push(agent);
        }
        if settings.store.sqlite.is_some() && settings.store.postgres_env.is_some() {
            return Err(source.wrong(&["store", "postgres_env"], "`sqlite` is also given; remove one").into());
        }
        if settings.server.tls_cert.is_some() != settings.server.tls_key.is_some() {
            return Err(source.wrong(&["server"], "`tls_cert` and `tls_key` must be given together").into());
        }
        if settings.auth.jwt.as_ref().is_some_and(|jwt| jwt.audience.is_empty()) {
            return Err(source.wrong(&["auth", "jwt", "audience"], "it must name an audience").into());
        }
        let server = &mut settings.server;
        for place in [
            &mut server.audit,
            &mut server.tls_cert,
            &mut server.tls_key,
            &mut settings.store.sqlite,
            &mut settings.auth.tokens,
        ] {
            *place = place.take().map(|path| source.place(&path));
        }
        Ok(Self { agents, settings, described_by })
    }
}

/// The rule for agent names.
const NAMES: &str = "a name may only have letters, digits, `-`, `_` and `.`, because it is part of addresses";

/// Whether this is a valid agent name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether a client answers the questions of an agent in this mode.
fn asks(approve: Approve) -> bool {
    approve == Approve::Ask
}

/// Plans an agent of a directory with an `agent.json`.
fn laid_out(cli: &AgentArgs, approve: Option<Approve>, directory: &Path) -> Result<AgentPlan> {
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
    Ok(AgentPlan {
        name: layout.name.clone(),
        description: layout.description.clone(),
        options,
        // Its `tools.json` says what to ask about.
        approve: approve.unwrap_or(Approve::Auto),
        questions: asks(approve.unwrap_or(Approve::Auto)),
        rules: None,
        servers: layout.servers.clone(),
        layout: Some(layout),
    })
}

/// Plans an agent of a `deepagents.toml`.
fn described(args: &ServeArgs, source: &Source, name: &str, section: &AgentSection) -> Result<AgentPlan> {
    let keys = |key: &'static str| ["agents", name, key];
    let root = section.root.as_deref().map_or_else(|| source.place(Path::new("")), |root| source.place(root));
    let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
    let approve = args.approve.or(section.approve);
    if approve == Some(Approve::AllowList) {
        return Err(source.wrong(&keys("approve"), "it must be ask, auto or deny").into());
    }
    let commands = commands(source, name, section)?;
    if let Some(directory) = &section.layout {
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
        if format!("{own:?}") != format!("{:?}", AgentSection::default()) {
            let why = "its agent.json defines it; only description, model, root, approve, questions and commands may be set here";
            return Err(source.wrong(&keys("layout"), why).into());
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
        return Ok(plan);
    }
    let system = match (&section.system_prompt, &section.system_prompt_file) {
        (Some(_), Some(_)) => {
            return Err(source.wrong(&keys("system_prompt_file"), "`system_prompt` is also given; remove one").into());
        }
        (Some(text), None) if text.starts_with('@') => {
            return Err(source.wrong(&keys("system_prompt"), "use `system_prompt_file` to name a file").into());
        }
        (Some(text), None) => Some(text.clone()),
        (None, Some(file)) => Some(format!("@{}", source.place(file).display())),
        (None, None) => None,
    };
    let rules = match section.permissions.as_slice() {
        [] => None,
        given => Some(
            Rules::from_values(&format!("agents.{name}.permissions"), given.to_vec())
                .map_err(|error| source.wrong(&keys("permissions"), error))?,
        ),
    };
    let off = |switch: Option<bool>| switch == Some(false);
    let cli = &args.agent;
    let mut options = AgentArgs {
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
        no_memory: cli.no_memory || off(section.memory),
        no_skills: cli.no_skills || off(section.skills),
        no_agents: cli.no_agents || off(section.sub_agents),
        no_hooks: cli.no_hooks || off(section.hooks),
        no_todos: cli.no_todos || off(section.todos),
        ..cli.clone()
    };
    if section.commands.is_some() {
        options.commands = commands;
    }
    options.mcp.mcp_config = section.mcp_config.as_ref().map(|file| source.place(file)).or(options.mcp.mcp_config);
    Ok(AgentPlan {
        name: name.to_owned(),
        description: section.description.clone(),
        options,
        approve: approve.unwrap_or(Approve::Ask),
        questions: section.questions.unwrap_or_else(|| asks(approve.unwrap_or(Approve::Ask))),
        rules,
        servers: servers(source, name, &section.mcp_servers)?,
        layout: None,
    })
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
