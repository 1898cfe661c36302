//! The services that the screens need from the program.

mod connect;
mod servers;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use deepagents::RunError;
use deepagents::core::journal::{Journal, ThreadInfo};
use deepagents::core::model::ChatModel;
use deepagents::fs::UndoStore;
use deepagents::middleware::hooks::HookRunner;
use deepagents::remembered::{RememberedRule, RuleScope};
use deepagents::trust::TrustItem;
use deepagents_persist::Sqlite;
use deepagents_tui::{Connection, Effort, Host, Mode, Offered, Page, Policy, Servers};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::{choices, detached, pages, trust};
use crate::args::{self, AgentArgs, Approve, Database, InteractiveArgs};
use crate::config::{self, Config};
use crate::model_choice::{self, catalogue, env};
use crate::threads::{Noted, database, fresh, note, undo};
use crate::tracing::Tracing;
use crate::trust::remember;
use crate::{agent, auth, effort, mcp, permissions, run};
use servers::{CONNECT_TIMEOUT, ServerSet};

/// Shown in place of a model's name.
pub(super) const NO_MODEL: &str = "no model";

/// The program as a host of the screens.
pub(super) struct ProgramHost {
    /// The options as they were given, without the settings.
    given: InteractiveArgs,
    loaded: Mutex<Arc<Loaded>>,
    database: Database,
    threads: OnceCell<Arc<Sqlite>>,
    tracing: Tracing,
    /// Whether the agent may start sub-agents in the background.
    background: bool,
    chosen: Mutex<Chosen>,
}

/// What was read from the settings last.
struct Loaded {
    /// The options of the agent, completed from the settings.
    args: AgentArgs,
    /// The settings, one per line.
    settings: String,
    editor: Option<String>,
}

impl Loaded {
    fn new(options: &AgentArgs, config: &Config) -> Arc<Self> {
        Arc::new(Self {
            // Every conversation can run commands; the mode decides what they may do.
            args: AgentArgs { commands: options.commands.run_in(true), ..options.clone() },
            settings: config.listed(),
            editor: config.text("editor").map(str::to_owned),
        })
    }
}

/// State that changes while the screens are shown.
#[derive(Default)]
struct Chosen {
    in_use: ModelInUse,
    /// The reasoning effort.
    effort: Option<args::Effort>,
    /// Items agreed to for this session only.
    agreed: Vec<TrustItem>,
    /// The agent's MCP servers.
    servers: ServerSet,
    /// Those of the next agent, if they were shown before it was built.
    next_servers: Option<ServerSet>,
    /// The agent's hooks.
    hooks: Option<HookRunner>,
}

/// What is known about the model in use.
#[derive(Clone, Default)]
struct ModelInUse {
    /// Its name, if another than the first was chosen.
    chosen: Option<String>,
    key_variable: Option<&'static str>,
    /// The name that threads note, if it can be used.
    noted: Option<String>,
    provider: String,
    /// The model for MCP servers that may use sampling.
    sampling: Option<Arc<dyn ChatModel>>,
}

impl ProgramHost {
    /// Hosts screens that were started with `given`. The agent has these options, completed from the settings.
    pub(super) fn new(options: &AgentArgs, given: &InteractiveArgs, config: &Config, tracing: Tracing) -> Self {
        Self {
            given: given.clone(),
            loaded: Mutex::new(Loaded::new(options, config)),
            database: given.database.clone(),
            threads: OnceCell::new(),
            tracing,
            // Nobody would wait for sub-agents that a process without a terminal starts.
            background: given.background && given.worker.is_none(),
            chosen: Mutex::default(),
        }
    }

    fn loaded(&self) -> Arc<Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the model that was chosen or named, if any, with the address given with it.
    fn named_model(&self) -> (Option<String>, Option<String>) {
        let loaded = self.loaded();
        let model = self.with(|chosen| chosen.in_use.chosen.clone()).or_else(|| loaded.args.model.clone());
        (model, loaded.args.base_url.clone())
    }

    /// Stores which tools of the MCP servers the user has agreed to, and ends the servers unless runs still use them.
    pub(super) async fn close(&self, are_used: bool) {
        match self.with(|chosen| chosen.servers.servers.take()) {
            Some(servers) if are_used => servers.save().await,
            Some(servers) => servers.close().await,
            None => {}
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Chosen) -> T) -> T {
        change(&mut self.chosen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Does what blocks on files.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}

/// Converts an error to its message.
fn error_to_text<T>(result: Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns work whose errors are messages.
fn boxed<'a, T: 'a>(work: impl Future<Output = Result<T>> + Send + 'a) -> BoxFuture<'a, Result<T, String>> {
    work.map(error_to_text).boxed()
}

impl Host for ProgramHost {
    fn connect<'a>(&'a self, model: Option<&'a str>, policy: &'a Policy) -> BoxFuture<'a, Result<Connection, String>> {
        boxed(async move {
            let before = self.with(|chosen| chosen.in_use.clone());
            let made = self.make(model, policy).await;
            if made.is_err() {
                // The screens go on with the agent that they have.
                self.with(|chosen| chosen.in_use = before);
            }
            made
        })
    }

    fn reload(&self) -> BoxFuture<'_, Result<Vec<String>, String>> {
        boxed(async move {
            let given = self.given.clone();
            // What is wrong is found before anything changes, so that the agent in use stays.
            let read = move || {
                let read = config::for_screens(&given)?;
                agent::Shape::from_args(&read.agent)?;
                catalogue()?;
                Ok(read)
            };
            let config::Screens { agent, config, .. } = blocking(read).await?;
            let before = self.loaded();
            // These belong to the conversation.
            let AgentArgs { model, base_url, redact, .. } = before.args.clone();
            let loaded = Loaded::new(&AgentArgs { model, base_url, redact, ..agent }, &config);
            *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = loaded;
            Ok(config.problems)
        })
    }

    fn models(&self) -> BoxFuture<'_, Vec<(String, String)>> {
        async move {
            let loaded = self.loaded();
            if loaded.args.base_url.is_none() {
                return choices::models().await;
            }
            choices::at_address(self.named_model().0.as_deref(), &loaded.args).await
        }
        .boxed()
    }

    fn set_effort(&self, effort: Option<Effort>) -> Result<(), String> {
        let effort = effort.and_then(|effort| args::Effort::from_word(effort.as_str()));
        let provider = self.with(|chosen| chosen.in_use.provider.clone());
        if let Some(effort) = effort {
            error_to_text(effort::fields(&provider, effort))?;
        }
        self.with(|chosen| chosen.effort = effort);
        Ok(())
    }

    fn page(&self, page: Page) -> BoxFuture<'_, Result<String, String>> {
        boxed(async move {
            let (model, base_url) = self.named_model();
            let model = (model.as_deref(), base_url.as_deref());
            match page {
                Page::Config => Ok(self.loaded().settings.clone()),
                Page::Doctor => pages::machine(model).await,
                Page::Permissions => pages::remembered(self.loaded().args.directory()),
                Page::Bug => pages::bug(model).await,
            }
        })
    }

    fn providers(&self) -> Vec<(String, String)> {
        let providers = model_choice::ordered_providers();
        let with_key = providers.iter().filter(|provider| model_choice::default_model(provider.name).is_some());
        with_key
            .filter_map(|provider| Some((provider.name.to_owned(), format!("or set {}", provider.key_variable?))))
            .collect()
    }

    fn save_key<'a>(&'a self, provider: &'a str, key: &'a str) -> BoxFuture<'a, Result<String, String>> {
        boxed(async move {
            let (of, key) = (provider.to_owned(), key.to_owned());
            blocking(move || auth::set(&of, &key)).await?;
            let model = model_choice::default_model(provider)
                .ok_or_else(|| anyhow!("no model of {provider} is known to this program"))?;
            Ok(format!("{provider}:{model}"))
        })
    }

    fn adopt<'a>(&'a self, connection: &'a Connection, thread: &'a str) -> BoxFuture<'a, Result<(), String>> {
        boxed(async move {
            let store = undo::file(&self.database)?.map(UndoStore::at);
            undo::adopt(store.as_ref(), &connection.agent.threads()?, thread).await
        })
    }

    fn new_thread<'a>(&'a self, journal: &'a dyn Journal) -> BoxFuture<'a, Result<String, String>> {
        boxed(fresh(journal))
    }

    fn find_thread<'a>(
        &'a self,
        journal: &'a dyn Journal,
        given: &'a str,
    ) -> BoxFuture<'a, Result<ThreadInfo, String>> {
        boxed(database::find(journal, given))
    }

    fn metadata(&self, mode: Mode) -> Map<String, Value> {
        let (model, loaded) = (self.with(|chosen| chosen.in_use.noted.clone()), self.loaded());
        let args = &loaded.args;
        let model = model.as_deref().map(|model| (model, args.base_url.as_deref()));
        Noted { root: Some(args.directory()), model, approve: mode.into(), redact: &args.redact }.metadata()
    }

    fn mode_of(&self, thread: &ThreadInfo) -> Option<Mode> {
        Some(match note::mode_of(thread)? {
            Approve::Deny => Mode::Plan,
            Approve::Auto => Mode::Auto,
            Approve::Ask | Approve::AllowList => Mode::Ask,
        })
    }

    fn detach(&self, thread: &str, mode: Mode) -> Result<(), String> {
        let (model, loaded) = (self.with(|chosen| chosen.in_use.chosen.clone()), self.loaded());
        let model = model.as_deref().map(|model| (model, loaded.args.base_url.as_deref()));
        error_to_text(detached::start(thread, "", mode, model))
    }

    fn is_gone(&self, thread: &ThreadInfo) -> bool {
        run::is_gone(thread)
    }

    fn explain_failure(&self, error: &RunError) -> String {
        match error.error.as_model() {
            Some(model) => run::model_failure(model, self.with(|chosen| chosen.in_use.key_variable)),
            None => run::other_failure(&error.error),
        }
    }

    fn editor(&self) -> String {
        self.loaded().editor.clone().or_else(|| env("EDITOR")).unwrap_or_else(|| "vi".to_owned())
    }

    fn offered(&self) -> BoxFuture<'_, Result<Vec<Offered>, String>> {
        boxed(async move {
            let loaded = self.loaded();
            let files = agent::open_async(&loaded.args, None).await?;
            let agreed = self.with(|chosen| chosen.agreed.clone());
            Ok(trust::definitions(&loaded.args, &files, &agreed).await?.offered)
        })
    }

    fn agree<'a>(&'a self, names: Option<&'a [String]>) -> BoxFuture<'a, Result<(), String>> {
        boxed(async move {
            let loaded = self.loaded();
            let files = agent::open_async(&loaded.args, None).await?;
            let open = trust::undecided(&loaded.args, &files).await?;
            let Some(names) = names else { return remember(loaded.args.directory(), open) };
            // Consent by name holds for this session only.
            let items = open.into_iter().map(|found| found.item).filter(|item| names.contains(&item.name));
            self.with(|chosen| chosen.agreed.extend(items));
            Ok(())
        })
    }

    fn servers(&self) -> BoxFuture<'_, Servers> {
        self.show_servers().map(|shown| shown.unwrap_or_else(|error| Servers::Listed(error.to_string()))).boxed()
    }

    fn server_tools(&self) -> BoxFuture<'_, Vec<(String, String)>> {
        async move {
            let Ok(ServerSet { servers: Some(servers), .. }) = self.usable_servers() else { return Vec::new() };
            let _ = tokio::time::timeout(CONNECT_TIMEOUT, servers.all.connect()).await;
            let tools = servers.all.tools();
            tools.specs().iter().map(|tool| (tool.name.clone(), tool.description.clone())).collect()
        }
        .boxed()
    }

    fn remember<'a>(&'a self, rule: &'a RememberedRule) -> BoxFuture<'a, Result<(), String>> {
        let (rule, directory) = (rule.clone(), self.loaded().args.directory().to_owned());
        let add = move || {
            let store = permissions::store().ok_or_else(|| anyhow!("HOME is not set"))?;
            Ok(store.add(&RuleScope::project(&directory)?, &rule)?)
        };
        boxed(blocking(add))
    }

    fn trust_servers(&self, trusted: bool) -> BoxFuture<'_, Result<(), String>> {
        boxed(async move {
            if !trusted {
                return Ok(());
            }
            let untrusted = self.find_servers()?.untrusted;
            let servers = self.usable_servers()?.servers;
            let changed = servers.as_ref().map(mcp::Servers::changed).unwrap_or_default();
            remember(self.loaded().args.directory(), untrusted.into_iter().chain(changed.clone()))?;
            if let Some(servers) = servers {
                servers.accept(changed);
            }
            Ok(())
        })
    }
}
