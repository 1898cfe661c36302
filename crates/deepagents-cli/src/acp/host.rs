//! The agents for an editor's sessions.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Result, bail};
use deepagents::DeepAgentBuilder;
use deepagents::core::journal::{Journal, ThreadInfo};
use deepagents::core::model::ChatModel;
use deepagents::fs::sandbox::{Level, Sandbox};
use deepagents::fs::{LocalBackend, UndoStore};
use deepagents::middleware::hooks::HookRunner;
use deepagents::remembered::RuleScope;
use deepagents_acp::{AgentHost, HostError, McpSupport, Mode, ModelOption, OwnShell, SessionAgent, SessionSetup};
use serde_json::{Map, Value};

use super::convert::{approve, config_of, permission_mode};
use super::{commands, models};
use crate::args::{AcpArgs, AgentArgs, Approve, Database, Effort, SandboxMode};
use crate::model_choice::{catalogue, env};
use crate::own_files::OwnFiles;
use crate::run::ThisProcess;
use crate::threads::artifacts::remove_leftovers_rarely;
use crate::threads::note::{self, mode_of};
use crate::threads::{Artifacts, Noted, database, fresh, in_use, model_of, undo, with_artifacts};
use crate::tracing::Tracing;
use crate::trust::{Brought, Undecided};
use crate::{agent, config, context_files, hooks, mcp, model_choice, output, permissions, slash};

/// What sessions are built from: the options of the command line, and the common thread database.
#[derive(Clone)]
pub(super) struct Host(Arc<Parts>);

struct Parts {
    /// The options as given, then the same with the user's settings.
    given: AgentArgs,
    options: AgentArgs,
    database: Database,
    journal: Arc<dyn Journal>,
    artifacts: Option<Artifacts>,
    tracing: Tracing,
    models: Vec<ModelOption>,
    /// Whether commands run in a sandbox, once it has been probed.
    sandboxed: OnceLock<bool>,
    /// By [`SessionSetup::instance_id`].
    sessions: Mutex<HashMap<u64, OpenSession>>,
}

/// What an open session keeps when it chooses another model.
#[derive(Default)]
struct OpenSession {
    servers: Option<mcp::Servers>,
    hooks: Option<HookRunner>,
}

impl Host {
    /// Opens the database. `options` are those of the command line with the user's settings applied.
    pub(super) async fn open(args: &AcpArgs, options: &AgentArgs, model: &str, tracing: Tracing) -> Result<Self> {
        let artifacts = Artifacts::beside(&args.database)?;
        let database: Arc<dyn Journal> = Arc::new(database::open(&args.database).await?);
        remove_leftovers_rarely(artifacts.clone(), database.clone());
        Ok(Self(Arc::new(Parts {
            given: args.agent.clone(),
            options: options.clone(),
            database: args.database.clone(),
            journal: with_artifacts(database, artifacts.as_ref()),
            artifacts,
            tracing,
            models: models::to_choose_from(model, options.base_url.is_some(), &catalogue()?, &env),
            sandboxed: OnceLock::new(),
            sessions: Mutex::default(),
        })))
    }

    /// Kills the remaining MCP servers, which their sessions had no time to close.
    pub(super) fn kill(&self) {
        self.0
            .sessions()
            .values()
            .filter_map(|session| session.servers.as_ref())
            .for_each(|servers| servers.all.kill());
    }
}

impl AgentHost for Host {
    fn journal(&self) -> Arc<dyn Journal> {
        self.0.journal.clone()
    }

    fn models(&self) -> Vec<ModelOption> {
        self.0.models.clone()
    }

    async fn new_thread(&self) -> Result<String, HostError> {
        fresh(&*self.0.journal).await.map_err(HostError::failed)
    }

    async fn build(&self, setup: &SessionSetup) -> Result<SessionAgent, HostError> {
        self.0.build(setup).await.map_err(HostError::invalid)
    }

    fn metadata(&self, setup: &SessionSetup) -> Map<String, Value> {
        let model = Some((setup.model(), self.0.options.base_url.as_deref()));
        // The session itself notes its directory.
        Noted { root: None, model, approve: approve(setup.mode()), redact: &self.0.options.redact }.metadata()
    }

    fn mcp(&self) -> McpSupport {
        McpSupport { stdio: true, http: true, sse: true }
    }

    fn model_of(&self, thread: &ThreadInfo) -> Option<String> {
        model_of(thread, self.0.options.base_url.as_deref())
    }

    fn mode_of(&self, thread: &ThreadInfo) -> Option<Mode> {
        (mode_of(thread)? == Approve::Deny).then_some(Mode::Plan)
    }

    async fn closed(&self, setup: &SessionSetup) {
        let servers = self.0.sessions().get(&setup.instance_id()).and_then(|session| session.servers.clone());
        if let Some(servers) = servers {
            servers.close().await;
        }
        // Only now that its servers have ended: until then, `kill` must still find them.
        self.0.sessions().remove(&setup.instance_id());
    }

    async fn delete(&self, thread: &str) -> Result<(), HostError> {
        let journal = self.0.journal.clone();
        if let Some(info) = journal.threads().get(thread).await.map_err(HostError::failed)?
            && let Some(reason) = in_use(&*journal, &info).await.map_err(HostError::failed)?
        {
            return Err(HostError::Invalid(reason));
        }
        journal.threads().delete(thread).await.map_err(HostError::failed)?;
        let store = undo::file(&self.0.database).map_err(HostError::failed)?;
        let store = store.filter(|file| file.exists()).map(UndoStore::at);
        undo::gc(store.as_ref(), journal).await.map_err(HostError::failed)
    }
}

impl Parts {
    fn sessions(&self) -> MutexGuard<'_, HashMap<u64, OpenSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn build(self: &Arc<Self>, setup: &SessionSetup) -> Result<SessionAgent> {
        let mut options = self.with_settings(setup).await?;
        if let Some(thread) = self.journal.threads().get(setup.thread()).await? {
            let noted = note::redaction_of(&thread);
            if let Some(remark) = note::keep_redaction(&mut options.redact, &self.given.redact, &noted) {
                output::remark(&remark);
            }
        }
        let (parts, setup) = (self.clone(), setup.clone());
        let (files, confinement) = {
            let (parts, options) = (parts.clone(), options.clone());
            let opened = tokio::task::spawn_blocking(move || {
                let files = parts.files(&options)?;
                let own = OwnFiles::inside(options.directory(), parts.database.db.as_deref(), None)?;
                let confinement = agent::Shape::from_args(&options)?.confinement(&files, &own);
                Ok::<_, anyhow::Error>((files, confinement))
            });
            opened.await??
        };
        // There is no terminal to ask at.
        let undecided = Undecided::for_run(&options, true);
        let brought = Brought::find(&options, &files, undecided).await?;
        let commands = slash::Commands::find(&options, &files, undecided).await?.usable;
        let mode = setup.clone();
        let hooks = hooks::find(&options, &brought, confinement).await?;
        let hooks = hooks.map(|hooks| hooks.permission_mode(move || permission_mode(mode.mode()).to_owned()));
        let hooks = hooks.map(|hooks| hooks.map_shells(|shell| setup.exclusive(shell)));
        let hooks = hooks.map(|hooks| parts.going_on(&setup, hooks));
        // Blocking: it looks for files and probes the sandbox.
        let assemble = move || parts.assemble(&options, &setup, files, &brought, hooks);
        let mut made = tokio::task::spawn_blocking(assemble).await??;
        made.commands = commands::all(commands, slash::skills(&made.agent).await?);
        Ok(made)
    }

    /// Applies the settings of the session's directory and its choices to the options. The address stays, as it was
    /// fixed with the list of models. `deepagents config get` reports problems with the settings files.
    async fn with_settings(&self, setup: &SessionSetup) -> Result<AgentArgs> {
        let given = AgentArgs { root: Some(setup.cwd().to_owned()), ..self.given.clone() };
        let (with, _) = tokio::task::spawn_blocking(move || config::for_agent(&given)).await??;
        Ok(AgentArgs {
            model: Some(setup.model().to_owned()),
            effort: setup.effort().and_then(Effort::from_word).or(with.effort),
            base_url: self.options.base_url.clone(),
            ..with
        })
    }

    /// Lets the hooks continue from the state of the session's previous agent.
    fn going_on(&self, setup: &SessionSetup, hooks: HookRunner) -> HookRunner {
        let mut sessions = self.sessions();
        let known = &mut sessions.entry(setup.instance_id()).or_default().hooks;
        let hooks = match known {
            Some(earlier) => hooks.succeeding(earlier),
            None => hooks,
        };
        *known = Some(hooks.clone());
        hooks
    }

    /// Opens a session's directory, recording its changes if possible.
    fn files(&self, options: &AgentArgs) -> Result<LocalBackend> {
        let directory = options.directory();
        let (store, _) = undo::store_for(&self.database, directory)?;
        match directory.metadata() {
            Ok(about) if !about.is_dir() => bail!("`{}` is not a directory", directory.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("the directory `{}` does not exist", directory.display())
            }
            Ok(_) | Err(_) => agent::open(options, store),
        }
    }

    fn assemble(
        &self,
        options: &AgentArgs,
        setup: &SessionSetup,
        files: LocalBackend,
        brought: &Brought,
        hooks: Option<HookRunner>,
    ) -> Result<SessionAgent> {
        let mut shape = agent::Shape::from_args(options)?;
        let (context_files, outside) = context_files::find(options, brought)?;
        shape.context_files = context_files;
        let (_, model) = model_choice::chosen(options)?;
        let (window, price) = (model.profile().context_window, model.profile().price);
        let own = OwnFiles::inside(options.directory(), self.database.db.as_deref(), None)?;
        let shell = self.shell(&files, options, &own)?;
        let workspace = outside.add_to(setup.workspace(own.hide(Arc::new(files))?, Some(shell)));
        let definitions = outside.add_to(brought.files.clone());
        let servers = self.servers(options, setup, &model)?;
        let builder = shape.builder(model).backend(workspace.clone()).definitions_from(definitions);
        let builder = hooks.iter().cloned().fold(builder, DeepAgentBuilder::hooks);
        let builder = agent::with_agents(builder, options)?.mcp(&servers.all).process(ThisProcess);
        let builder =
            self.artifacts.iter().fold(builder, |builder, artifacts| artifacts.give(builder, options.directory()));
        let builder = setup.equip(builder, self.journal.clone(), ["mcp__*", "fetch_url", "web_search"]);
        let agent = self.tracing.watch_runs(builder).build()?;
        let scope = RuleScope::project(options.directory()).ok();
        let rules = permissions::store().zip(scope);
        let mut made = SessionAgent::new(agent, workspace);
        (made.hooks, made.rules) = (hooks, rules);
        (made.context_window, made.price, made.catalogue) = (window, price, Some(Arc::new(catalogue()?)));
        (made.reach, made.shares_shell) = (options.commands.reach(), options.commands.shell_session);
        Ok(made)
    }

    /// Returns the MCP servers of a session. They stay when the session chooses another model.
    fn servers(&self, options: &AgentArgs, setup: &SessionSetup, model: &Arc<dyn ChatModel>) -> Result<mcp::Servers> {
        if let Some(known) = self.sessions().get(&setup.instance_id()).and_then(|session| session.servers.clone()) {
            return Ok(known);
        }
        let brought = setup.mcp_servers().iter().filter_map(|server| Some((server.name.clone(), config_of(server)?)));
        // Not while `sessions` is locked: files are read, which may take long, and other sessions go on meanwhile.
        let servers = mcp::session_servers(options, setup.has_forms(), brought.collect(), model)?;
        self.sessions().entry(setup.instance_id()).or_default().servers = Some(servers.clone());
        // Start the servers now, so that the first prompt does not wait for them.
        let starting = servers.all.clone();
        tokio::spawn(async move { starting.start().await });
        Ok(servers)
    }

    /// Returns a shell in the directory. Commands run in a sandbox, and are refused if there is none.
    fn shell(&self, files: &LocalBackend, options: &AgentArgs, own: &OwnFiles) -> Result<OwnShell> {
        let shell = agent::shell(files, &options.commands, own)?;
        let sandboxed = options.commands.mode() != SandboxMode::Unconfined
            && *self.sandboxed.get_or_init(|| Sandbox::new().probe().level > Level::None);
        Ok(OwnShell { shell: Arc::new(shell), sandboxed })
    }
}
