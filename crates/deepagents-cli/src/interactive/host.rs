//! What the screens need of the program.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use deepagents::core::journal::{Journal, ThreadInfo};
use deepagents::core::model::{ChatModel, NoModel};
use deepagents::fs::sandbox::{Level, Sandbox};
use deepagents::fs::{Backend, LocalBackend, UndoStore};
use deepagents::mcp::{ServerState, ServerStatus};
use deepagents::middleware::AskUser;
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::hooks::HookRunner;
use deepagents::remembered::{CommandReach, RememberedRule, RuleScope};
use deepagents::trust::{Consent, FoundItem, TrustItem};
use deepagents::{DeepAgentBuilder, RunError};
use deepagents_persist::Sqlite;
use deepagents_tui::{Connection, Effort, Host, Mode, Offered, Page, Policy, Servers};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::trust::{self, Definitions};
use super::{choices, detached, pages};
use crate::args::{AgentArgs, Database, SandboxMode};
use crate::config::Config;
use crate::hooks::{self, FoundHooks};
use crate::model_choice::{self, WithoutKey, env};
use crate::own_files::OwnFiles;
use crate::threads::{Noted, database, fresh, undo};
use crate::tracing::Tracing;
use crate::{agent, auth, effort, mcp, permissions, run, sources};

/// What stands where a model's name would.
pub(super) const NO_MODEL: &str = "no model";
/// So long servers are waited for before their state is shown.
const CONNECT: Duration = Duration::from_secs(3);

/// The program as the screens see it.
pub(super) struct ProgramHost {
    args: AgentArgs,
    database: Database,
    threads: OnceCell<Arc<Sqlite>>,
    /// The settings as lines.
    settings: String,
    editor: Option<String>,
    tracing: Tracing,
    /// Whether the agent may start sub-agents that it does not wait for.
    background: bool,
    chosen: Mutex<Chosen>,
}

/// What changes while the screens are shown.
#[derive(Default)]
struct Chosen {
    /// The model, where another one than the first was chosen.
    model: Option<String>,
    key_variable: Option<&'static str>,
    /// The model that threads note, where it can be used.
    noted: Option<String>,
    /// How much the model is to think.
    effort: Option<crate::args::Effort>,
    /// The provider of the model.
    provider: String,
    /// What was agreed to for this session alone.
    agreed: Vec<TrustItem>,
    /// The model that servers may use which are allowed to.
    sampling: Option<Arc<dyn ChatModel>>,
    /// The servers of tools that the agent has.
    servers: Option<mcp::Servers>,
    /// What is wrong with others.
    server_problems: Vec<String>,
    /// The hooks that the agent has.
    hooks: Option<HookRunner>,
}

impl ProgramHost {
    pub(super) fn new(options: &AgentArgs, database: &Database, config: &Config, tracing: Tracing) -> Self {
        let database = Database { db: database.db.clone() };
        // Commands are a part of every conversation; what they may do is up to the mode.
        let args = AgentArgs { commands: options.commands.run_in(true), ..options.clone() };
        let (settings, editor) = (config.listed(), config.text("editor").map(str::to_owned));
        let (threads, chosen) = (OnceCell::new(), Mutex::default());
        Self { args, database, threads, settings, editor, tracing, background: false, chosen }
    }

    /// Whether the agent may start sub-agents that it does not wait for.
    pub(super) fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    fn with<T>(&self, change: impl FnOnce(&mut Chosen) -> T) -> T {
        change(&mut self.chosen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn make(&self, model: Option<&str>, policy: &Policy) -> Result<Connection> {
        let named = match model {
            Some(model) => {
                self.with(|chosen| chosen.model = Some(model.to_owned()));
                Some(model.to_owned())
            }
            None => self.with(|chosen| chosen.model.clone()).or_else(|| self.args.model.clone()),
        };
        let args = &AgentArgs { effort: self.with(|chosen| chosen.effort).or(self.args.effort), ..self.args.clone() };
        let threads = self.threads.get_or_try_init(|| async { database::open(&self.database).await.map(Arc::new) });
        let journal: Arc<dyn Journal> = threads.await?.clone();
        let undo_file = undo::file(&self.database)?;
        let inside = undo_file.as_ref().is_some_and(|file| undo::is_inside(file, args.directory()));
        let store = undo_file.filter(|_| !inside).map(UndoStore::at);
        let files = agent::open_recorded(args.directory(), store)?;
        let choice = model_choice::choose(named.as_deref(), args.base_url.as_deref(), &env);
        let made = choice.and_then(|choice| Ok((model_choice::make(&choice, args, &env, WithoutKey::Refuse)?, choice)));
        // What was said is shown without a model, too.
        let (model, missing): (Arc<dyn ChatModel>, _) = match &made {
            Ok((model, _)) => (model.clone(), None),
            Err(problem) => (Arc::new(NoModel), Some(problem.to_string())),
        };
        let profile = model.profile();
        let named = named.or_else(|| Some(made.as_ref().ok()?.1.name.clone()));
        let name = named.unwrap_or_else(|| NO_MODEL.to_owned());
        self.with(|chosen| {
            chosen.key_variable = made.as_ref().ok().and_then(|(_, choice)| choice.key_variable());
            chosen.provider = made.as_ref().map(|(_, choice)| choice.provider().to_owned()).unwrap_or_default();
            chosen.sampling = made.as_ref().ok().map(|(model, _)| model.clone());
            chosen.noted = missing.is_none().then(|| name.clone());
        });
        let agreed = self.with(|chosen| chosen.agreed.clone());
        let Definitions { brought, commands, offered, problems } = trust::definitions(args, &files, &agreed).await?;
        let (sources, outside) = sources::find(args, &brought)?;
        let mut shape = agent::Shape::from_args(args)?;
        shape.sources = sources;
        let own = OwnFiles::inside(args.directory(), self.database.db.as_deref(), None)?;
        let (workspace, sandbox, reach) = self.workspace(files.clone(), &own).await?;
        policy.set_confined(!reach.unconfined);
        let definitions = outside.beside(brought.files.clone());
        let builder = shape.builder(model).backend(outside.beside(workspace)).definitions_from(definitions);
        let builder = agent::with_agents(builder, args)?.journal(journal.clone()).middleware(AskUser);
        let builder = builder.background_agents(self.background);
        // An edit names the text that it replaces, the person sees what changes, and /rewind takes it back.
        let background_commands = args.commands.background();
        let builder = builder.files(FilesystemOptions {
            read_before_edit: false,
            background_commands,
            shell_session: args.commands.session(),
            ..FilesystemOptions::default()
        });
        let FoundHooks { runner, problems: hook_problems } = hooks::find_quietly(args, &brought).await?;
        let hooks = runner.map(|hooks| self.going_on(hooks, policy));
        let builder = hooks.iter().cloned().fold(builder, DeepAgentBuilder::hooks);
        let servers = self.use_servers().await?;
        let builder = servers.iter().fold(builder, |builder, servers| builder.mcp(&servers.all));
        let builder = policy.bind(builder, &["mcp__*", "fetch_url", "web_search"].map(str::to_owned));
        let agent = self.tracing.watch_runs(builder).build().map_err(|error| anyhow!("{error}"))?;
        let catalogue = sources::catalogue(&env)?;
        let mut notes = problems;
        notes.extend(hook_problems);
        if inside {
            notes.push(
                "files cannot be put back later: the database is inside of the directory; name one with --db"
                    .to_owned(),
            );
        }
        if sandbox.is_none() {
            notes.push("commands are not in a sandbox: every one is asked about".to_owned());
        }
        let remembered = match self.remembered(&reach) {
            Ok(rules) => rules,
            Err(error) => {
                notes.push(error.to_string());
                Vec::new()
            }
        };
        Ok(Connection {
            agent,
            journal,
            files,
            hooks,
            model: name,
            missing,
            window: profile.context_window,
            price: profile.price,
            catalogue,
            reach,
            shares_shell: args.commands.session().is_some(),
            remembered,
            sandbox: sandbox.unwrap_or_else(|| "not in a sandbox".to_owned()),
            commands,
            offered,
            notes,
        })
    }

    /// What was always allowed in the directory, as far as it holds here.
    fn remembered(&self, reach: &CommandReach) -> Result<Vec<RememberedRule>> {
        let Some(store) = permissions::store() else { return Ok(Vec::new()) };
        let scope = RuleScope::project(self.args.directory())?;
        let records = store.records()?.into_iter().filter(|record| record.scope == scope);
        // What a command means in a shell that others were run in depends on those.
        let shared = self.args.commands.session().is_some();
        let holds = |rule: &RememberedRule| rule.holds_within(reach) && !(shared && rule.is_about_commands());
        Ok(records.map(|record| record.rule).filter(holds).collect())
    }

    /// Hooks that know what those of the agent before did.
    fn going_on(&self, hooks: HookRunner, policy: &Policy) -> HookRunner {
        let policy = policy.clone();
        let mode = move || match policy.mode() {
            Mode::Ask => "default",
            Mode::Auto => "auto",
            Mode::Plan => "plan",
        };
        let hooks = hooks.permission_mode(move || mode().to_owned());
        self.with(|chosen| {
            let hooks = match &chosen.hooks {
                Some(earlier) => hooks.succeeding(earlier),
                None => hooks,
            };
            chosen.hooks = Some(hooks.clone());
            hooks
        })
    }

    /// The directory with commands in it: in a sandbox where there is one, which is said then.
    async fn workspace(
        &self,
        files: LocalBackend,
        own: &OwnFiles,
    ) -> Result<(Arc<dyn Backend>, Option<String>, CommandReach)> {
        let report = tokio::task::spawn_blocking(|| Sandbox::new().probe()).await?;
        let args = self.args.commands.run_in(report.level != Level::None);
        let confined = match args.mode() {
            SandboxMode::Unconfined => None,
            SandboxMode::ReadOnly => Some("in a sandbox that changes nothing"),
            SandboxMode::Workspace if args.allow_hosts.is_empty() => Some("in a sandbox, no network"),
            SandboxMode::Workspace => Some("in a sandbox, listed hosts alone"),
        };
        Ok((agent::with_commands(files, &args, own)?, confined.map(str::to_owned), args.reach()))
    }
}

fn args_effort(effort: Effort) -> crate::args::Effort {
    match effort {
        Effort::Low => crate::args::Effort::Low,
        Effort::Medium => crate::args::Effort::Medium,
        Effort::High => crate::args::Effort::High,
    }
}

/// An error as a sentence.
fn told<T>(result: Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

impl Host for ProgramHost {
    fn connect<'a>(&'a self, model: Option<&'a str>, policy: &'a Policy) -> BoxFuture<'a, Result<Connection, String>> {
        async move { told(self.make(model, policy).await) }.boxed()
    }

    fn models(&self) -> BoxFuture<'_, Vec<(String, String)>> {
        async move {
            if self.args.base_url.is_none() {
                return choices::models().await;
            }
            let present = self.with(|chosen| chosen.model.clone()).or_else(|| self.args.model.clone());
            choices::at_address(present.as_deref(), &self.args).await
        }
        .boxed()
    }

    fn set_effort(&self, effort: Option<Effort>) -> Result<(), String> {
        let effort = effort.map(args_effort);
        let provider = self.with(|chosen| chosen.provider.clone());
        if let Some(effort) = effort {
            told(effort::fields(&provider, effort))?;
        }
        self.with(|chosen| chosen.effort = effort);
        Ok(())
    }

    fn page(&self, page: Page) -> BoxFuture<'_, Result<String, String>> {
        async move {
            match page {
                Page::Config => Ok(self.settings.clone()),
                page => {
                    let model = self.with(|chosen| chosen.model.clone()).or_else(|| self.args.model.clone());
                    let model = (model.as_deref(), self.args.base_url.as_deref());
                    told(pages::page(page, self.args.directory(), model).await)
                }
            }
        }
        .boxed()
    }

    fn providers(&self) -> Vec<(String, String)> {
        let providers = model_choice::ordered_providers();
        let with_key = providers.iter().filter(|provider| model_choice::default_model(provider.name).is_some());
        with_key
            .filter_map(|provider| Some((provider.name.to_owned(), format!("or set {}", provider.key_variable?))))
            .collect()
    }

    fn save_key<'a>(&'a self, provider: &'a str, key: &'a str) -> BoxFuture<'a, Result<String, String>> {
        async move {
            let (of, key) = (provider.to_owned(), key.to_owned());
            let kept = tokio::task::spawn_blocking(move || auth::set(&of, &key)).await;
            told(kept.map_err(|error| anyhow!("{error}")).and_then(|kept| kept))?;
            let model =
                model_choice::default_model(provider).ok_or_else(|| format!("no model of {provider} is known"))?;
            Ok(format!("{provider}:{model}"))
        }
        .boxed()
    }

    fn adopt<'a>(&'a self, connection: &'a Connection, thread: &'a str) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let store = told(undo::file(&self.database))?.map(UndoStore::at);
            let access = connection.agent.threads().map_err(|error| error.to_string())?;
            told(undo::adopt(store.as_ref(), &access, thread).await)
        }
        .boxed()
    }

    fn new_thread<'a>(&'a self, journal: &'a dyn Journal) -> BoxFuture<'a, Result<String, String>> {
        async move { told(fresh(journal).await) }.boxed()
    }

    fn find_thread<'a>(
        &'a self,
        journal: &'a dyn Journal,
        given: &'a str,
    ) -> BoxFuture<'a, Result<ThreadInfo, String>> {
        async move { told(database::find(journal, given).await) }.boxed()
    }

    fn metadata(&self, mode: Mode) -> Map<String, Value> {
        let model = self.with(|chosen| chosen.noted.clone());
        let model = model.as_deref().map(|model| (model, self.args.base_url.as_deref()));
        Noted { root: Some(self.args.directory()), model, approve: mode.into() }.metadata()
    }

    fn detach(&self, thread: &str, mode: Mode) -> Result<(), String> {
        let model = self.with(|chosen| chosen.model.clone());
        let model = model.as_deref().map(|model| (model, self.args.base_url.as_deref()));
        told(detached::start(thread, "", mode, model))
    }

    fn is_gone(&self, thread: &ThreadInfo) -> bool {
        run::is_gone(thread)
    }

    fn explain_failure(&self, error: &RunError) -> String {
        match error.error.as_model() {
            Some(model) => run::model_failure(model, self.with(|chosen| chosen.key_variable)),
            None => run::other_failure(error),
        }
    }

    fn editor(&self) -> String {
        self.editor.clone().or_else(|| env("EDITOR")).unwrap_or_else(|| "vi".to_owned())
    }

    fn offered(&self) -> BoxFuture<'_, Result<Vec<Offered>, String>> {
        async move { told(self.offered_now().await) }.boxed()
    }

    fn agree<'a>(&'a self, names: Option<&'a [String]>) -> BoxFuture<'a, Result<(), String>> {
        async move { told(self.agree_to(names).await) }.boxed()
    }

    fn servers(&self) -> BoxFuture<'_, Servers> {
        async move {
            match self.show_servers().await {
                Ok(servers) => servers,
                Err(error) => Servers::Listed(error.to_string()),
            }
        }
        .boxed()
    }

    fn server_tools(&self) -> BoxFuture<'_, Vec<(String, String)>> {
        async move {
            let Ok(Some(servers)) = self.use_servers().await else { return Vec::new() };
            let _ = tokio::time::timeout(CONNECT, servers.all.connect()).await;
            let tools = servers.all.tools();
            tools.specs().iter().map(|tool| (tool.name.clone(), tool.description.clone())).collect()
        }
        .boxed()
    }

    fn remember<'a>(&'a self, rule: &'a RememberedRule) -> BoxFuture<'a, Result<(), String>> {
        let (rule, directory) = (rule.clone(), self.args.directory().to_owned());
        async move {
            let kept = tokio::task::spawn_blocking(move || {
                let store = permissions::store().ok_or_else(|| anyhow!("HOME is not set"))?;
                Ok(store.add(&RuleScope::project(&directory)?, &rule)?)
            });
            told(kept.await.map_err(|error| anyhow!("{error}")).and_then(|kept| kept))
        }
        .boxed()
    }

    fn trust_servers(&self, trusted: bool) -> BoxFuture<'_, Result<(), String>> {
        async move {
            if !trusted {
                return Ok(());
            }
            let untrusted = told(self.find_servers())?.untrusted;
            let servers = self.with(|chosen| chosen.servers.clone());
            let changed = servers.as_ref().map(mcp::Servers::changed).unwrap_or_default();
            told(trust::remember(self.args.directory(), untrusted.into_iter().chain(changed.clone()).collect()))?;
            if let Some(servers) = servers {
                servers.accept(&changed);
            }
            Ok(())
        }
        .boxed()
    }
}

impl ProgramHost {
    fn find_servers(&self) -> Result<mcp::ScreenServers> {
        let known = trust::standing(self.args.directory())?;
        let trusted = |item: &TrustItem| {
            self.args.trust || known.iter().any(|(known, consent)| known == item && *consent == Consent::Trusted)
        };
        let model = self.with(|chosen| chosen.sampling.clone());
        mcp::for_screens(&self.args, trusted, model.as_ref())
    }

    /// The servers that may be used now: those that there are already, where they are the same.
    async fn use_servers(&self) -> Result<Option<mcp::Servers>> {
        let mcp::ScreenServers { usable, problems, .. } = self.find_servers()?;
        let names = |servers: &Option<mcp::Servers>| -> Vec<String> {
            servers.iter().flat_map(|servers| servers.all.names()).map(str::to_owned).collect()
        };
        let (used, before) = self.with(|chosen| {
            chosen.server_problems = problems;
            let before = if names(&chosen.servers) == names(&usable) {
                None
            } else {
                std::mem::replace(&mut chosen.servers, usable)
            };
            (chosen.servers.clone(), before)
        });
        if let Some(before) = before {
            before.close().await;
        }
        Ok(used)
    }

    /// The servers with how they are; of those that nobody has agreed to, what they would start.
    async fn show_servers(&self) -> Result<Servers> {
        let untrusted = self.find_servers()?.untrusted;
        if !untrusted.is_empty() {
            let line = |found: &FoundItem| format!("{}: {}", found.item.name, found.asks_for.join(", "));
            return Ok(Servers::Untrusted(untrusted.iter().map(line).collect::<Vec<_>>().join("\n")));
        }
        let servers = self.use_servers().await?;
        let changed = servers.as_ref().map(mcp::Servers::changed).unwrap_or_default();
        if !changed.is_empty() {
            let line = |found: &FoundItem| format!("the tool {}, {}", found.item.name, found.asks_for.join(", "));
            return Ok(Servers::Changed(changed.iter().map(line).collect::<Vec<_>>().join("\n")));
        }
        let mut lines = self.with(|chosen| chosen.server_problems.clone());
        if let Some(servers) = servers {
            // One that does not answer soon is shown as it is.
            let _ = tokio::time::timeout(CONNECT, servers.all.connect()).await;
            lines.extend(servers.all.status().iter().map(server_line));
        }
        if lines.is_empty() {
            lines.push("there are no servers of tools; see `deepagents mcp add --help`".to_owned());
        }
        Ok(Servers::Listed(lines.join("\n")))
    }
}

/// A server with how it is.
fn server_line(status: &ServerStatus) -> String {
    let state = match &status.state {
        ServerState::Connected => "connected".to_owned(),
        ServerState::Idle => "not started yet".to_owned(),
        ServerState::Starting => "starting".to_owned(),
        ServerState::Ended => "ended, started again by the next call".to_owned(),
        ServerState::Failed { problem } => format!("failed: {problem}"),
        _ => "unknown".to_owned(),
    };
    let tools = if status.tools.is_empty() { String::new() } else { format!(", {}", mcp::cost(status)) };
    format!("{}: {state}{tools}", status.name)
}

impl ProgramHost {
    async fn offered_now(&self) -> Result<Vec<Offered>> {
        let files = agent::open(self.args.directory())?;
        let agreed = self.with(|chosen| chosen.agreed.clone());
        Ok(trust::definitions(&self.args, &files, &agreed).await?.offered)
    }

    async fn agree_to(&self, names: Option<&[String]>) -> Result<()> {
        let files = agent::open(self.args.directory())?;
        let open = trust::undecided(&self.args, &files).await?;
        match names {
            // For this session: what was asked for by its name.
            Some(names) => {
                let items = open.into_iter().map(|found| found.item).filter(|item| names.contains(&item.name));
                self.with(|chosen| chosen.agreed.extend(items));
            }
            None => trust::remember(self.args.directory(), open)?,
        }
        Ok(())
    }
}
