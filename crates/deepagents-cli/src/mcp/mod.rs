//! MCP servers: those that agents use, and `deepagents mcp`.

mod consent;
mod discover;
mod edit;
mod login;
mod pins;
mod serve;
mod show;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use deepagents::core::model::ChatModel;
use deepagents::mcp::{McpOptions, McpServers, SAFE_VARIABLES, SamplingModel, ServerConfig, ToolReview};
use deepagents::trust::{FoundItem, TrustItem};

use crate::args::{AgentArgs, McpArgs, McpCommand, McpSources};
use crate::exit::Exit;
use crate::output;
use crate::own_files::{of_user, user_directory};
use crate::render::escaped;
use crate::trust::{self, Consents, Undecided};

pub(crate) use consent::{commands_run, programs_run};
use discover::Found;
pub(crate) use discover::brought;
use pins::Pins;
pub(crate) use show::{KnownServer, cost, known, number};

/// How long a message in the screens or in an editor waits for servers that are starting.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers of a run, and the tools agreed to, which are stored when it ends.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// The servers.
    pub(crate) all: McpServers,
    pins: Arc<Pins>,
}

impl Servers {
    /// Ends the servers, and stores which tools the user has agreed to.
    pub(crate) async fn close(&self) {
        self.all.close().await;
        self.save().await;
    }

    /// Stores which tools the user has agreed to.
    pub(crate) async fn save(&self) {
        let pins = self.pins.clone();
        // The trust store is a file.
        let saved = tokio::task::spawn_blocking(move || pins.save()).await;
        if let Ok(Err(error)) = saved {
            output::remark(&format!("warning: your consent to these tools could not be stored: {error}"));
        }
    }

    /// Starts the project's servers, and asks about tools that have changed since the user agreed to them. Waits for
    /// the servers here instead of in the first request.
    pub(crate) async fn ask_again(&self, root: &Path, undecided: Undecided) -> Result<()> {
        if undecided != Undecided::Ask || !self.pins.covers_any() {
            return Ok(());
        }
        self.all.ready().await;
        // Building the tool set reviews the tools.
        drop(self.all.tools());
        let (changed, root) = (self.pins.changed(), root.to_owned());
        if !changed.is_empty() {
            // Asking blocks on the user, and the trust store is a file.
            let admitted = tokio::task::spawn_blocking(move || trust::admit(&root, changed, undecided)).await??;
            self.accept(admitted);
        }
        Ok(())
    }

    /// Returns the tools that are left out because they have changed since the user agreed to them.
    pub(crate) fn changed(&self) -> Vec<FoundItem> {
        self.pins.changed()
    }

    /// Offers changed tools from now on.
    pub(crate) fn accept(&self, agreed: Vec<FoundItem>) {
        self.pins.accept(agreed.into_iter().map(|found| found.item).collect());
        self.all.review_again();
    }
}

/// Returns the servers of an agent, if there are any, and reports those that cannot be used. Those that the agent's own
/// description has are `described`.
pub(crate) fn servers(
    args: &AgentArgs,
    undecided: Undecided,
    can_ask: bool,
    described: Vec<(String, ServerConfig)>,
    model: &Arc<dyn ChatModel>,
) -> Result<Option<Servers>> {
    let options = McpOptions { elicitation: can_ask, ..with_model(args, model) };
    let servers = with_others(args, undecided, described, options)?;
    Ok(Some(servers).filter(|servers| !servers.all.is_empty()))
}

/// Returns the servers of files, and others, which replace those of files with the same names.
fn with_others(
    args: &AgentArgs,
    undecided: Undecided,
    others: Vec<(String, ServerConfig)>,
    options: McpOptions,
) -> Result<Servers> {
    let mut found = match args.no_mcp {
        true => Found::default(),
        false => discover::find(&args.mcp, args.directory(), undecided)?,
    };
    found.servers.retain(|server| !others.iter().any(|(name, _)| *name == server.name));
    let configs = usable(&found).into_iter().chain(others).collect();
    pinned(args, &found, configs, undecided, options)
}

/// Returns servers whose tools are compared with what the user has agreed to.
fn pinned(
    args: &AgentArgs,
    found: &Found,
    configs: Vec<(String, ServerConfig)>,
    undecided: Undecided,
    options: McpOptions,
) -> Result<Servers> {
    let pins = Arc::new(Pins::open(args.directory(), found, undecided, args.mcp.trust_project_mcp)?);
    let reviewed = pins.clone();
    let review = ToolReview::new(move |server, tool| reviewed.check(server, tool));
    Ok(Servers { all: McpServers::new(configs, McpOptions { review: Some(review), ..options }), pins })
}

/// The servers of the screens, which must not print.
#[derive(Debug, Default)]
pub(crate) struct ScreenServers {
    /// Those that may be used, if there are any, and how they are defined.
    pub(crate) usable: Option<Servers>,
    pub(crate) items: Vec<TrustItem>,
    /// Those of the project that the user has not agreed to.
    pub(crate) untrusted: Vec<FoundItem>,
    /// Problems with other servers.
    pub(crate) problems: Vec<String>,
}

/// Returns the servers of the screens. The project's servers are usable only if they were agreed to.
pub(crate) fn for_screens(args: &AgentArgs, model: Option<&Arc<dyn ChatModel>>) -> Result<ScreenServers> {
    if args.no_mcp {
        return Ok(ScreenServers::default());
    }
    let root = args.directory();
    let known = Consents::of_root(root)?;
    let (found, problems) = discover::find_quietly(&args.mcp, root, |item| args.trust || known.has(item))?;
    let (configs, unusable) = configs(&found);
    let sampling = model.cloned().map(SamplingModel::new);
    let options = McpOptions { elicitation: true, sampling, ready_timeout: Some(START_TIMEOUT), ..options(root) };
    let servers = pinned(args, &found, configs, Undecided::for_run(args, true), options)?;
    Ok(ScreenServers {
        usable: Some(servers).filter(|servers| !servers.all.is_empty()),
        items: found.servers.iter().map(|server| server.item(root).item).collect(),
        untrusted: found.untrusted.iter().map(|server| server.item(root)).collect(),
        problems: problems.into_iter().chain(unusable).collect(),
    })
}

/// Returns the servers of an editor's session: the editor's, and those of files that the user has agreed to. What the
/// editor's servers say about their tools is not trusted.
pub(crate) fn session_servers(
    args: &AgentArgs,
    can_ask: bool,
    brought: Vec<(String, ServerConfig)>,
    model: &Arc<dyn ChatModel>,
) -> Result<Servers> {
    let options = McpOptions { elicitation: can_ask, ready_timeout: Some(START_TIMEOUT), ..with_model(args, model) };
    with_others(args, Undecided::for_run(args, true), brought, options)
}

/// Returns the servers that can be used, and reports the others.
fn usable(found: &Found) -> Vec<(String, ServerConfig)> {
    let (configs, problems) = configs(found);
    output::remarks(problems.iter().map(|problem| format!("warning: {problem}")));
    configs
}

/// Returns the servers that can be used, and the problems with the others.
fn configs(found: &Found) -> (Vec<(String, ServerConfig)>, Vec<String>) {
    let (mut configs, mut problems) = (Vec::new(), Vec::new());
    for server in found.servers.iter().filter(|server| !server.is_disabled()) {
        match server.config() {
            Ok(config) => configs.push((server.name.clone(), config)),
            Err(error) => {
                let (name, file) = (escaped(&server.name), server.file.display());
                problems.push(format!("MCP server {name} of {file} was left out: {error}"));
            }
        }
    }
    (configs, problems)
}

/// Returns the problems with the servers of a directory, also of those that the user has not agreed to.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let (found, mut problems) = discover::find_quietly(&McpSources::default(), root, |_| true)?;
    problems.extend(configs(&found).1);
    Ok(problems)
}

/// Returns the options with the model for servers that may use sampling.
fn with_model(args: &AgentArgs, model: &Arc<dyn ChatModel>) -> McpOptions {
    McpOptions { sampling: Some(SamplingModel::new(model.clone())), ..options(args.directory()) }
}

/// Returns what servers are told, and where their logs, caches and logins are stored.
fn options(root: &Path) -> McpOptions {
    let variables = SAFE_VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let own = user_directory();
    McpOptions {
        env: variables.collect(),
        root: root.canonicalize().ok(),
        log_dir: own.as_ref().map(|own| own.join("logs").join("mcp")),
        cache_dir: own.as_ref().map(|own| own.join("cache").join("mcp")),
        token_dir: token_folder(),
        ..McpOptions::default()
    }
}

/// Returns the directory for logins.
fn token_folder() -> Option<PathBuf> {
    of_user(".state/mcp-tokens")
}

/// `deepagents mcp`.
pub(crate) fn mcp(args: &McpArgs) -> Result<Exit> {
    match &args.command {
        McpCommand::List { json, sources } => show::list(sources, *json),
        McpCommand::Get(server) => show::get(server),
        McpCommand::Test(server) => show::test(server),
        McpCommand::Add(add) => edit::add(add),
        McpCommand::Remove { name, scope } => edit::remove(name, *scope),
        McpCommand::Login(server) => login::login(server),
        McpCommand::Logout(server) => login::logout(server),
        McpCommand::Serve(args) => serve::serve(args),
    }
}
