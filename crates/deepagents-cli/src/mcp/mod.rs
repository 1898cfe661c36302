//! MCP servers: those that an agent uses, and `deepagents mcp`.

mod discover;
mod edit;
mod login;
mod pins;
mod serve;
mod show;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use deepagents::mcp::{McpOptions, McpServers, SAFE_VARIABLES, ServerConfig, ToolReview};
use deepagents::trust::{FoundItem, TrustItem};

use crate::args::{AgentArgs, McpArgs, McpCommand};
use crate::exit::Exit;
use crate::model_choice::env;
use crate::output;
use crate::trust::Undecided;

pub(crate) use discover::brought;
use pins::Pins;
pub(crate) use show::{KnownServer, known};

/// The servers of a run, and what is remembered of them when it is over.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// The servers.
    pub(crate) all: McpServers,
    pins: Arc<Pins>,
}

impl Servers {
    /// Ends them, and remembers what tools somebody has agreed to.
    pub(crate) async fn close(&self) {
        self.all.close().await;
        let pins = self.pins.clone();
        // The record is a file.
        let saved = tokio::task::spawn_blocking(move || pins.save()).await;
        if let Ok(Err(error)) = saved {
            output::remark(&format!("warning: which tools you have agreed to is not remembered: {error}"));
        }
    }
}

/// The servers of an agent, if there are any; what cannot be used is told of.
pub(crate) fn servers(args: &AgentArgs, undecided: Undecided, can_ask: bool, records: bool) -> Result<Option<Servers>> {
    if args.no_mcp {
        return Ok(None);
    }
    let found = discover::find(&args.mcp, args.directory(), undecided)?;
    if records && !found.servers.is_empty() {
        output::remark("MCP servers take no part in a run that is recorded");
        return Ok(None);
    }
    let configs = usable(&found);
    if configs.is_empty() {
        return Ok(None);
    }
    let pins = Arc::new(Pins::open(args.directory(), &found, undecided, args.mcp.trust_project_mcp)?);
    let reviewed = pins.clone();
    let review = ToolReview::new(move |server, tool| reviewed.check(server, tool));
    let options = McpOptions { elicitation: can_ask, review: Some(review), ..options(args.directory()) };
    Ok(Some(Servers { all: McpServers::new(configs, options), pins }))
}

/// The servers of the screens, where nothing may be printed.
#[derive(Debug)]
pub(crate) struct ScreenServers {
    /// Those that may be used, if there are any.
    pub(crate) usable: Option<Servers>,
    /// Those of the project that nobody has agreed to.
    pub(crate) untrusted: Vec<FoundItem>,
    /// What is wrong with others.
    pub(crate) problems: Vec<String>,
}

/// The servers of the screens. Of those of the project these count that were agreed to.
pub(crate) fn for_screens(args: &AgentArgs, is_agreed: impl Fn(&TrustItem) -> bool) -> Result<ScreenServers> {
    let root = args.directory();
    let mut out = ScreenServers { usable: None, untrusted: Vec::new(), problems: Vec::new() };
    if args.no_mcp {
        return Ok(out);
    }
    let (found, problems) = discover::find_quietly(&args.mcp, root, is_agreed)?;
    let (configs, unusable) = configs(&found);
    out.problems = problems.into_iter().chain(unusable).collect();
    out.untrusted = found.untrusted.iter().map(|server| server.item(root)).collect();
    if !configs.is_empty() {
        let pins = Arc::new(Pins::open(root, &found, Undecided::LeaveOut, args.mcp.trust_project_mcp)?);
        let reviewed = pins.clone();
        let review = ToolReview::new(move |server, tool| reviewed.check(server, tool));
        let options = McpOptions { elicitation: true, review: Some(review), ..options(root) };
        out.usable = Some(Servers { all: McpServers::new(configs, options), pins });
    }
    Ok(out)
}

/// The servers of an editor's session: those that the editor brings, and the user's own. The tools of the editor's count as
/// those of strangers.
pub(crate) fn session_servers(args: &AgentArgs, brought: Vec<(String, ServerConfig)>) -> Result<McpServers> {
    let own = if args.no_mcp {
        Vec::new()
    } else {
        usable(&discover::find(&args.mcp, args.directory(), Undecided::LeaveOut)?)
    };
    let taken: Vec<String> = brought.iter().map(|(name, _)| name.clone()).collect();
    let all = own.into_iter().filter(|(name, _)| !taken.contains(name)).chain(brought);
    Ok(McpServers::new(all.collect::<Vec<_>>(), options(args.directory())))
}

/// The servers that can be used; of the others it is said why they cannot.
fn usable(found: &discover::Found) -> Vec<(String, ServerConfig)> {
    let (configs, problems) = configs(found);
    problems.iter().for_each(|problem| output::remark(&format!("warning: {problem}")));
    configs
}

/// The servers that can be used, and why the others cannot.
fn configs(found: &discover::Found) -> (Vec<(String, ServerConfig)>, Vec<String>) {
    let (mut configs, mut problems) = (Vec::new(), Vec::new());
    for server in found.servers.iter().filter(|server| !server.is_disabled()) {
        match server.config() {
            Ok(config) => configs.push((server.name.clone(), config)),
            Err(error) => {
                let (name, file) = (&server.name, server.file.display());
                problems.push(format!("MCP server {name} of {file} was left out: {error}"));
            }
        }
    }
    (configs, problems)
}

/// What servers are told, and where traces of them go.
fn options(root: &Path) -> McpOptions {
    let variables = SAFE_VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let own = own_folder();
    McpOptions {
        env: variables.collect(),
        root: root.canonicalize().ok(),
        log_dir: own.as_ref().map(|own| own.join("logs").join("mcp")),
        cache_dir: own.as_ref().map(|own| own.join("cache").join("mcp")),
        token_dir: token_folder(),
        ..McpOptions::default()
    }
}

fn own_folder() -> Option<PathBuf> {
    env("HOME").map(|home| Path::new(&home).join(".deepagents"))
}

/// Where logins are kept.
fn token_folder() -> Option<PathBuf> {
    own_folder().map(|own| own.join(".state").join("mcp-tokens"))
}

/// `deepagents mcp`.
pub(crate) fn mcp(args: &McpArgs) -> Result<Exit> {
    let here = Path::new(".");
    match &args.command {
        McpCommand::List { json, sources } => show::list(sources, here, *json),
        McpCommand::Get { name, sources } => show::get(sources, here, name),
        McpCommand::Test { name, sources } => show::test(sources, here, name),
        McpCommand::Add(add) => edit::add(add, here),
        McpCommand::Remove { name, scope } => edit::remove(name, *scope, here),
        McpCommand::Login { name, sources } => login::login(sources, here, name),
        McpCommand::Logout { name, sources } => login::logout(sources, here, name),
        McpCommand::Serve(args) => serve::serve(args),
    }
}
