//! Building the agent of the command line.

mod shape;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::DeepAgentBuilder;
use deepagents::core::model::ChatModel;
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::fs::sandbox::{Network, SandboxPolicy, ToolChains};
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{Backend, LocalBackend, LocalOptions, UndoStore};
use deepagents::middleware::subagents::AgentSource;
use deepagents::subagents::RemoteAccess;

use crate::args::{AgentArgs, CommandArgs, SandboxMode};
use crate::exit::WrongUsage;
use crate::model_choice::{self, env};
use crate::own_files::OwnFiles;
use crate::protected;
use crate::sources::{self, AGENTS, OWN, Outside};
use crate::trust::{Brought, Undecided};

pub(crate) use shape::{MODE_ASKS, ModeAsks, Shape};

/// Returns a builder for the agent that the options describe, for a look at it.
pub(crate) async fn builder(args: &AgentArgs, model: Arc<dyn ChatModel>) -> Result<DeepAgentBuilder> {
    let files = open_async(args, None).await?;
    let own = OwnFiles::inside(args.directory(), None, None)?;
    let brought = Brought::find(args, &files, Undecided::for_inspection(args)).await?;
    let (sources, outside) = sources::find(args, &brought)?;
    let mut shape = Shape::from_args(args)?;
    shape.sources = sources;
    shape.check()?;
    let workspace = workspace(args, files, &own, &outside)?;
    let builder = shape.builder(model).backend(workspace).definitions_from(outside.add_to(brought.files.clone()));
    with_agents(builder, args)
}

/// Returns what the agent sees: the directory without the program's own files, commands in it if they are allowed, and
/// the user's files outside it.
pub(crate) fn workspace(
    args: &AgentArgs,
    files: LocalBackend,
    own: &OwnFiles,
    outside: &Outside,
) -> Result<Arc<dyn Backend>> {
    let root =
        if args.commands.are_run() { with_commands(files, &args.commands, own)? } else { own.hide(Arc::new(files))? };
    Ok(outside.add_to(root))
}

/// Adds the models that sub-agents may name, and the sub-agents that files define: the user's and those of the
/// directory, which take precedence.
pub(crate) fn with_agents(builder: DeepAgentBuilder, args: &AgentArgs) -> Result<DeepAgentBuilder> {
    let builder = builder.models(model_choice::registry(args, &env)?);
    // The directory's files define sub-agents only if the user has agreed to exactly their bytes, servers included.
    let builder = builder.remote(RemoteAccess::new().from_files().variables(env));
    if args.no_agents {
        return Ok(builder);
    }
    let home = env("HOME").and_then(|home| LocalBackend::open(Path::new(&home).join(OWN)).ok());
    let of_user = home.map(|home| AgentSource::on(format!("/{AGENTS}"), home).shown_as(format!("~/{OWN}/{AGENTS}")));
    let sources = of_user.into_iter().chain([AgentSource::from(format!("/{OWN}/{AGENTS}"))]);
    Ok(builder.agents_from(sources))
}

/// Returns the directory without the program's own files, with commands in it.
pub(crate) fn with_commands(files: LocalBackend, args: &CommandArgs, own: &OwnFiles) -> Result<Arc<dyn Backend>> {
    let shell = shell(&files, args, own)?;
    Ok(Arc::new(WithShell::new(own.hide(Arc::new(files))?, shell)))
}

/// Returns a shell for the directory, confined as the options say.
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
    let shell = shell.map_err(|error| anyhow!("commands cannot be run in this directory: {error}"))?;
    Ok(variables.into_iter().fold(shell, |shell, (name, value)| shell.env(name, value)))
}

/// Returns the policy for every command in a directory: protected places and the program's own files are out of reach.
fn confined(files: &LocalBackend, own: &OwnFiles) -> SandboxPolicy {
    SandboxPolicy {
        hidden: own.paths().to_vec(),
        hidden_host: own.host_paths(),
        protected_places: files.protected_places().clone(),
        ..SandboxPolicy::default()
    }
}

/// Opens the directory as a workspace.
pub(crate) fn open(args: &AgentArgs) -> Result<LocalBackend> {
    open_recorded(args, None)
}

/// Opens the directory as a workspace, recording its changes if a store is given.
pub(crate) fn open_recorded(args: &AgentArgs, store: Option<UndoStore>) -> Result<LocalBackend> {
    let (root, records) = (args.directory(), store.is_some());
    let protected = protected::places(root, args.mcp.mcp_config.as_deref());
    let options = LocalOptions { undo: store, protected, ..LocalOptions::default() };
    LocalBackend::open_with(root, options).map_err(|error| {
        if records && LocalBackend::open(root).is_ok() {
            return anyhow!(
                "the undo history of files cannot be stored beside the database: {}; choose another place with --db",
                error.source
            );
        }
        unusable(root, &error.source)
    })
}

/// Like [`open_recorded`], without blocking the runtime while files are read for the protected places.
pub(crate) async fn open_async(args: &AgentArgs, store: Option<UndoStore>) -> Result<LocalBackend> {
    let args = args.clone();
    tokio::task::spawn_blocking(move || open_recorded(&args, store)).await?
}

/// Opens a directory on its own as a workspace.
pub(crate) fn open_at(root: &Path) -> Result<LocalBackend> {
    open(&AgentArgs { root: Some(root.to_owned()), ..AgentArgs::default() })
}

/// Returns an error if the path is not a directory to work in, before anything in it is opened.
pub(crate) fn check_root(root: &Path) -> Result<()> {
    match fs::metadata(root) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => Err(unusable(root, &ErrorKind::NotADirectory.into())),
        Err(error) => Err(unusable(root, &error)),
    }
}

fn unusable(root: &Path, error: &io::Error) -> anyhow::Error {
    let root = root.display();
    match error.kind() {
        ErrorKind::NotFound => {
            WrongUsage(format!("the directory `{root}` does not exist; create it or give --root another")).into()
        }
        ErrorKind::NotADirectory => WrongUsage(format!("`{root}` is not a directory; give one with --root")).into(),
        _ => anyhow!("the directory `{root}` cannot be used: {error}"),
    }
}
