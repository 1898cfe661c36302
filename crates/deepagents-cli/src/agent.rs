//! Putting the agent of the command line together.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::core::model::ChatModel;
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::fs::sandbox::{Network, SandboxPolicy, ToolChains};
use deepagents::fs::shell::{Confinement, LocalShell, SessionOptions, WithShell};
use deepagents::fs::{Backend, LocalBackend, LocalOptions, UndoStore};
use deepagents::mcp::PREFIX;
use deepagents::middleware::filesystem::{BackgroundCommands, FilesystemOptions};
use deepagents::middleware::subagents::AgentSource;
use deepagents::middleware::tool_search::ToolSearch;
use deepagents::middleware::web::{Tavily, Web};
use deepagents::subagents::RemoteAccess;
use deepagents::{
    DeepAgent, DeepAgentBuilder, Effect, InterruptOn, InterruptPolicy, Middleware, ModelSettings, ToolNext,
    ToolRequest, ToolResponse,
};
use serde::{Deserialize, Serialize};

use crate::args::{self, AgentArgs, Approve, CommandArgs, RedactedKind, SandboxMode};
use crate::exit::WrongUsage;
use crate::model_choice::{self, env};
use crate::own_files::OwnFiles;
use crate::protected;
use crate::proxy;
use crate::rules::Rules;
use crate::small_file::without_mark;
use crate::sources::{self, AGENTS, Carried, OWN, Outside, Sources};
use crate::threads::note;
use crate::trust::{Brought, Undecided};

/// The agent that the options describe, to be built and looked at.
pub(crate) async fn builder(args: &AgentArgs, model: Arc<dyn ChatModel>) -> Result<DeepAgentBuilder> {
    let files = open_beside(args, None).await?;
    let own = OwnFiles::inside(args.directory(), None, None)?;
    let brought = Brought::find(args, &files, Undecided::for_look(args)).await?;
    let (sources, outside) = sources::find(args, &brought)?;
    let shape = Shape { sources, ..Shape::from_args(args)? };
    shape.check()?;
    let workspace = workspace(args, files, &own, &outside)?;
    let builder = shape.builder(model).backend(workspace).definitions_from(outside.beside(brought.files.clone()));
    with_agents(builder, args)
}

/// What the agent sees: the directory without what is the program's own, commands in it where they are allowed, and what the
/// user has outside of it.
pub(crate) fn workspace(
    args: &AgentArgs,
    files: LocalBackend,
    own: &OwnFiles,
    outside: &Outside,
) -> Result<Arc<dyn Backend>> {
    let root =
        if args.commands.are_run() { with_commands(files, &args.commands, own)? } else { own.hide(Arc::new(files))? };
    Ok(outside.beside(root))
}

/// The agent with the models that sub-agents may name, and with the sub-agents that files define: the user's for all
/// directories, and those of the directory, which come before them.
pub(crate) fn with_agents(builder: DeepAgentBuilder, args: &AgentArgs) -> Result<DeepAgentBuilder> {
    let builder = builder.models(model_choice::registry(args, &env)?);
    // Files of the directory define something only where a person has agreed to exactly their bytes, servers included.
    let builder = builder.remote(RemoteAccess::new().from_files().variables(env));
    if args.no_agents {
        return Ok(builder);
    }
    let home = env("HOME").and_then(|home| LocalBackend::open(Path::new(&home).join(OWN)).ok());
    let of_user = home.map(|home| AgentSource::on(format!("/{AGENTS}"), home).shown_as(format!("~/{OWN}/{AGENTS}")));
    let sources = of_user.into_iter().chain([AgentSource::from(format!("/{OWN}/{AGENTS}"))]);
    Ok(builder.agents_from(sources))
}

/// What makes an agent what it is, apart from its model and its files; it is part of recordings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Shape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    no_todos: bool,
    pub(crate) execute: bool,
    /// Whether commands may go on in the background.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    background_commands: bool,
    /// Whether commands share a shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shell_session: bool,
    /// Whether files may be edited that were not read before.
    #[serde(skip)]
    pub(crate) edits_unread: bool,
    /// For how long commands in the background go on; those of a recording end with it.
    #[serde(skip)]
    background: BackgroundCommands,
    /// Why calls that change something are refused, where they are.
    #[serde(skip)]
    pub(crate) refuses: Option<&'static str>,
    /// What is hidden from the model and the thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    redact: Vec<RedactedKind>,
    /// Whether it fetches pages of the web.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    web: bool,
    /// Whether it searches the web.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    web_search: bool,
    /// Whether tools of servers are looked for before they are offered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tool_search: bool,
    /// Whether calls that change something wait for a decision.
    pub(crate) asks: ModeAsks,
    /// What files may be read and changed, and commands run.
    #[serde(default, skip_serializing_if = "Rules::is_empty")]
    rules: Rules,
    /// The limit of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_turns: Option<u32>,
    /// Memory and skills.
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub(crate) sources: Sources,
    /// What their files held, in a recording.
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub(crate) carried: Carried,
}

/// Whether the mode has calls asked about that change something. Recordings, which have no hooks, say no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub(crate) enum ModeAsks {
    Never,
    /// A hook may answer in the person's place.
    UnlessHooksAllow,
    /// The answer is the mode's own, which no hook can give in its place.
    Always,
}

impl From<bool> for ModeAsks {
    fn from(asks: bool) -> Self {
        if asks { Self::UnlessHooksAllow } else { Self::Never }
    }
}

impl From<ModeAsks> for bool {
    fn from(asks: ModeAsks) -> Self {
        asks != ModeAsks::Never
    }
}

impl ModeAsks {
    /// What a mode of `run` does.
    pub(crate) fn of(mode: Approve) -> Self {
        match mode {
            Approve::Auto => Self::Never,
            Approve::Ask => Self::UnlessHooksAllow,
            Approve::Deny | Approve::AllowList => Self::Always,
        }
    }
}

/// The rule by which calls are asked about because of the mode.
pub(crate) const MODE_ASKS: &str = "--approve: what changes something is asked about";

/// Calls that change something outside of the conversation, or tell somebody there.
const GATED: [&str; 7] = ["write_file", "edit_file", "apply_patch", "delete", "execute", "fetch_url", "web_search"];

impl Shape {
    /// The shape that the options describe; what lies in files is not looked for.
    pub(crate) fn from_args(args: &AgentArgs) -> Result<Self> {
        let rules = args.rules.as_deref().map(Rules::read).transpose()?.unwrap_or_default();
        Ok(Self {
            rules,
            system: args.system.as_deref().map(system).transpose()?,
            max_tokens: args.max_answer_tokens,
            no_todos: args.no_todos,
            execute: args.commands.are_run(),
            background_commands: args.commands.are_run(),
            shell_session: args.commands.session().is_some(),
            edits_unread: false,
            background: args.commands.background(),
            refuses: None,
            redact: args.redact.clone(),
            web: args.web,
            web_search: args.web && env(TAVILY_KEY).is_some(),
            tool_search: args.tool_search,
            asks: ModeAsks::Never,
            max_turns: None,
            sources: Sources::default(),
            carried: Carried::new(),
        })
    }

    /// What is hidden.
    pub(crate) fn redact(&self) -> &[RedactedKind] {
        &self.redact
    }

    /// Hides what was hidden in the thread before, where no option says what is. Gives what to tell of it.
    pub(crate) fn keep_redaction(&mut self, named: &[RedactedKind], noted: &[RedactedKind]) -> Option<String> {
        note::keep_redaction(&mut self.redact, named, noted)
    }

    /// Takes these rules in the place of those of a file.
    pub(crate) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Decides as a mode does where nobody answers at a terminal: questions are for whoever uses the client.
    ///
    /// # Errors
    /// When the mode is none for that.
    pub(crate) fn decide_for_clients(&mut self, mode: Approve) -> Result<()> {
        match mode {
            Approve::Ask => self.asks = ModeAsks::UnlessHooksAllow,
            Approve::Auto => {}
            Approve::Deny => self.refuses = Some("--approve deny"),
            Approve::AllowList => bail!(
                "--approve allow-list is for `deepagents run`, where rules are remembered; here there are ask, auto and deny"
            ),
        }
        Ok(())
    }

    /// What hooks of the directory are kept from, which are commands like the agent's own.
    pub(crate) fn confinement(&self, files: &LocalBackend, own: &OwnFiles) -> Confinement {
        Confinement::Sandboxed(SandboxPolicy { rules: vec![self.rules.permissions()], ..confined(files, own) })
    }

    /// Refuses what would say nothing: rules about commands where none are run.
    pub(crate) fn check(&self) -> Result<()> {
        self.rules.check_commands(self.execute)
    }

    /// An agent of this shape, which lacks its files.
    pub(crate) fn builder(&self, model: impl ChatModel) -> DeepAgentBuilder {
        let mut settings = ModelSettings::default();
        settings.max_tokens = self.max_tokens;
        let mut builder = DeepAgent::builder().model(model).settings(settings);
        if let Some(text) = &self.system {
            builder = builder.system_prompt(text.as_str());
        }
        if self.no_todos {
            builder = builder.without("TodoList");
        }
        let mut files = FilesystemOptions::default();
        files.read_before_edit &= !self.edits_unread;
        if self.background_commands {
            files.background_commands = match self.background {
                BackgroundCommands::Off => BackgroundCommands::EndWithRun,
                chosen => chosen,
            };
            files.shell_session = self.shell_session.then(SessionOptions::default);
        }
        builder = builder.files(files);
        if let Some(redaction) = args::redaction(&self.redact) {
            builder = builder.redaction(redaction);
        }
        if self.web {
            builder = builder.shared_middleware(web(self.web_search));
        }
        if self.tool_search {
            builder = builder.shared_middleware(ToolSearch::default());
        }
        if let Some(why) = self.refuses {
            builder = builder.shared_middleware(RefuseChanges(why));
        }
        if self.asks != ModeAsks::Never {
            let ask = InterruptOn::any().rule(MODE_ASKS);
            let ask = if self.asks == ModeAsks::Always { ask.required() } else { ask };
            let approvals = GATED.iter().fold(InterruptPolicy::new(), |all, tool| all.before(*tool, ask.clone()));
            // What a tool of a server does nobody here knows, unless the server's owner vouches that it only reads.
            let changes =
                ask.when(|call, cx| cx.tool(&call.name).is_some_and(|tool| tool.effect(&call.args) != Effect::Read));
            builder = builder.interrupt_on(approvals.before(format!("{PREFIX}*"), changes));
        }
        self.sources.give(builder.permissions(self.rules.permissions()))
    }
}

/// Refuses calls that change something: nobody is there to decide about them.
#[derive(Debug)]
struct RefuseChanges(&'static str);

impl Middleware for RefuseChanges {
    fn name(&self) -> &str {
        "RefuseChanges"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> deepagents::Result<ToolResponse> {
        let (name, args) = (&request.call.name, &request.call.args);
        let reads = || request.tool.as_ref().is_some_and(|tool| tool.effect(args) == Effect::Read);
        if GATED.contains(&name.as_str()) || (name.starts_with(PREFIX) && !reads()) {
            let text = format!("Error: {name} was not called: nothing may be changed or run here ({})", self.0);
            return Ok(ToolResponse::error(&text).denied_by(self.0, text));
        }
        next.run(request).await
    }
}

/// The key of Tavily.
const TAVILY_KEY: &str = "TAVILY_API_KEY";

/// Pages of the web. A played recording has no key and needs none.
fn web(searches: bool) -> Web {
    if !searches {
        return Web::default();
    }
    let tavily = Tavily::new(env(TAVILY_KEY).unwrap_or_default());
    Web::default().search(tavily.proxy(proxy::for_address("https://api.tavily.com", &env)))
}

/// The directory without what is the program's own, and commands in it.
pub(crate) fn with_commands(files: LocalBackend, args: &CommandArgs, own: &OwnFiles) -> Result<Arc<dyn Backend>> {
    let shell = shell(&files, args, own)?;
    Ok(Arc::new(WithShell::new(own.hide(Arc::new(files))?, shell)))
}

/// Commands in a directory, as far as they may go.
pub(crate) fn shell(files: &LocalBackend, args: &CommandArgs, own: &OwnFiles) -> Result<LocalShell> {
    let mut variables = Vec::new();
    for (name, value) in &args.env {
        let value = value.clone().or_else(|| env(name));
        let value = value.ok_or_else(|| {
            anyhow!("the variable {name} given with --env is not set; set it, or give --env {name}=VALUE")
        })?;
        variables.push((name.clone(), value));
    }
    let tools = ToolChains::find(env);
    let confinement = if args.mode() == SandboxMode::Unconfined {
        variables.splice(0..0, tools.env);
        Confinement::Unconfined
    } else {
        let network = match args.allow_hosts.as_slice() {
            [] => Network::None,
            hosts => Network::AllowList(hosts.to_vec()),
        };
        let tools = if args.share_caches { tools.shared_caches() } else { tools };
        let mut policy = SandboxPolicy { network, tools, ..confined(files, own) };
        if args.mode() == SandboxMode::ReadOnly {
            let nothing = Rule::new(AccessMode::Deny, ["/**"]).only([Operation::Write]);
            policy.rules.push(Permissions::new([nothing])?);
        }
        Confinement::Sandboxed(policy)
    };
    let shell = LocalShell::open(files.host_path(), confinement);
    let shell = shell.map_err(|error| anyhow!("commands cannot be run there: {error}"))?;
    Ok(variables.into_iter().fold(shell, |shell, (name, value)| shell.env(name, value)))
}

/// What every command in a directory is kept from: what nobody changes on the side, and what is the program's own.
fn confined(files: &LocalBackend, own: &OwnFiles) -> SandboxPolicy {
    SandboxPolicy {
        hidden: own.paths().to_vec(),
        hidden_host: own.host_paths(),
        protected_places: files.protected_places().clone(),
        ..SandboxPolicy::default()
    }
}

/// The directory as a workspace.
pub(crate) fn open(args: &AgentArgs) -> Result<LocalBackend> {
    open_recorded(args, None)
}

/// The directory as a workspace whose changes may be recorded.
pub(crate) fn open_recorded(args: &AgentArgs, store: Option<UndoStore>) -> Result<LocalBackend> {
    let (root, records) = (args.directory(), store.is_some());
    let protected = protected::places(root, args.mcp.mcp_config.as_deref());
    let options = LocalOptions { undo: store, protected, ..LocalOptions::default() };
    LocalBackend::open_with(root, options).map_err(|error| {
        if records && LocalBackend::open(root).is_ok() {
            return anyhow!(
                "what is changed cannot be kept beside the database: {}; name another place with --db",
                error.source
            );
        }
        let root = root.display();
        match error.source.kind() {
            ErrorKind::NotFound => {
                WrongUsage(format!("the directory `{root}` does not exist; create it or give --root another")).into()
            }
            ErrorKind::NotADirectory => WrongUsage(format!("`{root}` is not a directory; give --root one")).into(),
            _ => anyhow!("the directory `{root}` cannot be used: {}", error.source),
        }
    })
}

/// The same among other work: what is protected in a directory is read from its files.
pub(crate) async fn open_beside(args: &AgentArgs, store: Option<UndoStore>) -> Result<LocalBackend> {
    let args = args.clone();
    tokio::task::spawn_blocking(move || open_recorded(&args, store)).await?
}

/// A directory by itself as a workspace.
pub(crate) fn open_at(root: &Path) -> Result<LocalBackend> {
    open(&AgentArgs { root: Some(root.to_owned()), ..AgentArgs::default() })
}

/// A system prompt as given: a text, or `@` and a file that holds it.
fn system(text: &str) -> Result<String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    match fs::read_to_string(file) {
        Ok(text) if without_mark(&text).trim().is_empty() => {
            bail!(WrongUsage(format!("the file `{file}` given with --system is empty")))
        }
        Ok(text) => Ok(without_mark(&text).trim_end().to_owned()),
        Err(error) => bail!(WrongUsage(format!("the file `{file}` given with --system cannot be read: {error}"))),
    }
}
