//! Building the agent of the command line.

mod shape;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::DeepAgentBuilder;
use deepagents::core::model::ChatModel;
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::fs::sandbox::{Network, SandboxPolicy, ToolChains};
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{Backend, LocalBackend, LocalOptions, UndoStore};
use deepagents::middleware::hooks::HookRunner;
use deepagents::middleware::subagents::AgentSource;
use deepagents::subagents::RemoteAccess;

use crate::args::{AgentArgs, CommandArgs, SandboxMode};
use crate::context_files::{self, AGENTS};
use crate::exit::WrongUsage;
use crate::model_choice::{self, env};
use crate::own_files::{OWN, OwnFiles, user_directory};
use crate::trust::{Brought, Undecided};
use crate::{hooks, protected};

pub(crate) use shape::{MODE_ASKS, ModeAsks, Shape};

/// Returns a builder for the agent that the options describe, for a look at it.
pub(crate) async fn builder(args: &AgentArgs, model: Arc<dyn ChatModel>) -> Result<DeepAgentBuilder> {
    let files = open_async(args, None).await?;
    let own = OwnFiles::inside(args.directory(), None, None)?;
    let mut shape = Shape::from_args(args)?;
    shape.check()?;
    let surroundings = shape.enter(args, files, &own, Undecided::for_inspection(args)).await?;
    // As in a run, which keeps what is too long elsewhere.
    with_agents(surroundings.give(shape.builder(model)).artifact_files(|_| None), args)
}

/// What an agent finds in its directory and in the user's files.
pub(crate) struct Surroundings {
    /// What the agent sees: the directory without the program's own files, commands in it if they are allowed, and the
    /// user's files outside it.
    pub(crate) workspace: Arc<dyn Backend>,
    /// The files that define the agent: the directory's as the user agreed to them, and the user's own.
    pub(crate) definitions: Arc<dyn Backend>,
    brought: Brought,
    confinement: Confinement,
}

impl Shape {
    /// Obtains the user's consent to what the directory brings, and adds memory and skills as far as they may be used.
    pub(crate) async fn enter(
        &mut self,
        args: &AgentArgs,
        files: LocalBackend,
        own: &OwnFiles,
        undecided: Undecided,
    ) -> Result<Surroundings> {
        let brought = Brought::find(args, &files, undecided).await?;
        let (context_files, outside) = context_files::find(args, &brought)?;
        self.context_files = context_files;
        let confinement = self.confinement(&files, own);
        let root = if args.commands.are_run() {
            with_commands(files, &args.commands, own)?
        } else {
            own.hide(Arc::new(files))?
        };
        let (workspace, definitions) = (outside.add_to(root), outside.add_to(brought.files.clone()));
        Ok(Surroundings { workspace, definitions, brought, confinement })
    }
}

impl Surroundings {
    /// Adds the files to an agent.
    pub(crate) fn give(&self, builder: DeepAgentBuilder) -> DeepAgentBuilder {
        builder.backend(self.workspace.clone()).definitions_from(self.definitions.clone())
    }

    /// Finds the hooks for runs there.
    pub(crate) async fn hooks(&self, args: &AgentArgs) -> Result<Option<HookRunner>> {
        hooks::find(args, &self.brought, self.confinement.clone()).await
    }
}

/// Adds the models that sub-agents may name, and the sub-agents that files define: the user's and those of the
/// directory, which take precedence.
pub(crate) fn with_agents(builder: DeepAgentBuilder, args: &AgentArgs) -> Result<DeepAgentBuilder> {
    let builder = builder.models(model_choice::registry(args)?);
    // The directory's files define sub-agents only if the user has agreed to exactly their bytes, servers included.
    let builder = builder.remote(RemoteAccess::new().from_files().variables(env));
    if args.no_agents {
        return Ok(builder);
    }
    let own = user_directory().and_then(|own| LocalBackend::open(own).ok());
    let of_user = own.map(|own| AgentSource::on(format!("/{AGENTS}"), own).shown_as(format!("~/{OWN}/{AGENTS}")));
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
    let given = args.env.iter().map(|(name, value)| match value.clone().or_else(|| env(name)) {
        Some(value) => Ok((name.clone(), value)),
        None => bail!(WrongUsage::new(format!(
            "the variable {name} given with --env is not set; set it, or give --env {name}=VALUE"
        ))),
    });
    let mut variables = given.collect::<Result<Vec<_>>>()?;
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

/// Opens the directory as a workspace, recording its changes if a store is given.
pub(crate) fn open(args: &AgentArgs, store: Option<UndoStore>) -> Result<LocalBackend> {
    let (root, records) = (args.directory(), store.is_some());
    let options = LocalOptions { undo: store, protected: protected::places(args), ..LocalOptions::default() };
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

/// Like [`open`], without blocking the runtime while files are read for the protected places.
pub(crate) async fn open_async(args: &AgentArgs, store: Option<UndoStore>) -> Result<LocalBackend> {
    let args = args.clone();
    tokio::task::spawn_blocking(move || open(&args, store)).await?
}

/// Opens a directory on its own as a workspace.
pub(crate) fn open_at(root: &Path) -> Result<LocalBackend> {
    open(&AgentArgs::at(root), None)
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
            WrongUsage::new(format!("the directory `{root}` does not exist; create it or give --root another")).into()
        }
        ErrorKind::NotADirectory => {
            WrongUsage::new(format!("`{root}` is not a directory; give one with --root")).into()
        }
        _ => anyhow!("the directory `{root}` cannot be used: {error}"),
    }
}
