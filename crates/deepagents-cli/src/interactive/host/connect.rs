//! Building the agent for the screens, with the current choices and consents.

use std::sync::Arc;

use anyhow::{Result, bail};
use deepagents::DeepAgentBuilder;
use deepagents::core::journal::Journal;
use deepagents::core::model::{ChatModel, NoModel};
use deepagents::fs::sandbox::{Level, Sandbox};
use deepagents::fs::{Backend, LocalBackend};
use deepagents::middleware::AskUser;
use deepagents::middleware::hooks::HookRunner;
use deepagents::remembered::{CommandReach, RememberedRule, RuleScope};
use deepagents_tui::{Connection, Mode, Policy};

use super::{NO_MODEL, ProgramHost};
use crate::args::{AgentArgs, SandboxMode};
use crate::hooks::{self, FoundHooks};
use crate::interactive::trust::{self, Definitions};
use crate::model_choice::{self, catalogue, env};
use crate::own_files::OwnFiles;
use crate::run::ThisProcess;
use crate::threads::artifacts::remove_leftovers_rarely;
use crate::threads::{Artifacts, database, undo, with_artifacts};
use crate::{agent, context_files, permissions};

/// The model in use.
struct UsedModel {
    name: String,
    model: Arc<dyn ChatModel>,
    /// Why there is no model, if there is none.
    missing: Option<String>,
}

impl ProgramHost {
    pub(super) async fn make(&self, model: Option<&str>, policy: &Policy) -> Result<Connection> {
        let named = self.named(model);
        let args = self.loaded().args.clone();
        let args = &AgentArgs { effort: self.with(|chosen| chosen.effort).or(args.effort), ..args };
        let threads = self.threads.get_or_try_init(|| async { database::open(&self.database).await.map(Arc::new) });
        let artifacts = Artifacts::beside(&self.database)?;
        let journal: Arc<dyn Journal> = with_artifacts(threads.await?.clone(), artifacts.as_ref());
        remove_leftovers_rarely(artifacts.clone(), journal.clone());
        let (store, unrecorded) = undo::store_for(&self.database, args.directory())?;
        let files = agent::open_async(args, store).await?;
        let UsedModel { name, model, missing } = self.use_model(named, model.is_some(), args)?;
        let profile = model.profile();
        let agreed = self.with(|chosen| chosen.agreed.clone());
        let Definitions { brought, commands, offered, problems } = trust::definitions(args, &files, &agreed).await?;
        let (context_files, outside) = context_files::find(args, &brought)?;
        let mut shape = agent::Shape::from_args(args)?;
        shape.context_files = context_files;
        // An edit contains the text it replaces, the user sees the change, and /rewind undoes it.
        shape.edits_unread = true;
        let own = OwnFiles::inside(args.directory(), self.database.db.as_deref(), None)?;
        let (workspace, sandbox, reach) = self.workspace(files.clone(), &own).await?;
        policy.set_confined(!reach.unconfined);
        let definitions = outside.add_to(brought.files.clone());
        let builder = shape.builder(model).backend(outside.add_to(workspace)).definitions_from(definitions);
        let builder =
            agent::with_agents(builder, args)?.journal(journal.clone()).process(ThisProcess).middleware(AskUser);
        let builder = builder.background_agents(self.background);
        let builder = artifacts.iter().fold(builder, |builder, artifacts| artifacts.give(builder, args.directory()));
        let FoundHooks { runner, problems: hook_problems } =
            hooks::find_quietly(args, &brought, shape.confinement(&files, &own)).await?;
        let hooks = runner.map(|hooks| self.going_on(hooks, policy));
        let builder = hooks.iter().cloned().fold(builder, DeepAgentBuilder::hooks);
        let used = self.usable_servers()?;
        let builder = used.servers.iter().fold(builder, |builder, servers| builder.mcp(&servers.all));
        let builder = policy.bind(builder, &["mcp__*", "fetch_url", "web_search"].map(str::to_owned));
        let agent = self.tracing.watch_runs(builder).build()?;
        let mut notes: Vec<String> =
            problems.into_iter().chain(hook_problems).chain(unrecorded.map(str::to_owned)).collect();
        if sandbox.is_none() {
            notes.push("commands do not run in a sandbox: each one needs your approval".to_owned());
        }
        let remembered = self.remembered(&reach).unwrap_or_else(|error| {
            notes.push(error.to_string());
            Vec::new()
        });
        let catalogue = catalogue()?;
        // Only now that nothing can fail: otherwise the agent before it goes on with its own.
        self.adopt_servers(used).await;
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
            shares_shell: args.commands.shell_session,
            remembered,
            sandbox: sandbox.unwrap_or_else(|| "not in a sandbox".to_owned()),
            commands,
            offered,
            notes,
        })
    }

    /// Returns the name of the model to use: the one chosen now, else the one chosen before.
    fn named(&self, model: Option<&str>) -> Option<String> {
        match model {
            Some(model) => {
                self.with(|chosen| chosen.in_use.chosen = Some(model.to_owned()));
                Some(model.to_owned())
            }
            None => self.named_model().0,
        }
    }

    /// Creates the model, and stores what the screens and threads note about it. Returns an error if the user has just
    /// chosen it and it cannot be used.
    fn use_model(&self, named: Option<String>, is_just_chosen: bool, args: &AgentArgs) -> Result<UsedModel> {
        let choice = model_choice::choose(named.as_deref(), args.base_url.as_deref(), &env);
        let made = choice.and_then(|choice| Ok((model_choice::make(&choice, args)?, choice)));
        // Without a model, the conversation is still shown.
        let (model, missing): (Arc<dyn ChatModel>, _) = match &made {
            Ok((model, _)) => (model.clone(), None),
            Err(problem) if is_just_chosen => bail!("{problem}"),
            Err(problem) => (Arc::new(NoModel), Some(problem.to_string())),
        };
        let named = named.or_else(|| Some(made.as_ref().ok()?.1.name.clone()));
        let name = named.unwrap_or_else(|| NO_MODEL.to_owned());
        self.with(|chosen| {
            let in_use = &mut chosen.in_use;
            in_use.key_variable = made.as_ref().ok().and_then(|(_, choice)| choice.key_variable());
            in_use.provider = made.as_ref().map(|(_, choice)| choice.provider().to_owned()).unwrap_or_default();
            in_use.sampling = made.as_ref().ok().map(|(model, _)| model.clone());
            in_use.noted = missing.is_none().then(|| name.clone());
        });
        Ok(UsedModel { name, model, missing })
    }

    /// Returns the rules that the user has always allowed in the directory and that still hold.
    fn remembered(&self, reach: &CommandReach) -> Result<Vec<RememberedRule>> {
        let Some(store) = permissions::store() else { return Ok(Vec::new()) };
        let loaded = self.loaded();
        let scope = RuleScope::project(loaded.args.directory())?;
        let records = store.records()?.into_iter().filter(|record| record.scope == scope);
        // In a shared shell, the meaning of a command depends on the commands before it.
        let shared = loaded.args.commands.shell_session;
        let holds = |rule: &RememberedRule| rule.holds_within(reach) && !(shared && rule.is_about_commands());
        Ok(records.map(|record| record.rule).filter(holds).collect())
    }

    /// Lets the hooks continue from the state of the previous agent's hooks.
    fn going_on(&self, hooks: HookRunner, policy: &Policy) -> HookRunner {
        let policy = policy.clone();
        let hooks = hooks.permission_mode(move || match policy.mode() {
            Mode::Ask => "default".to_owned(),
            mode => mode.as_str().to_owned(),
        });
        self.with(|chosen| {
            let hooks = match &chosen.hooks {
                Some(earlier) => hooks.succeeding(earlier),
                None => hooks,
            };
            chosen.hooks = Some(hooks.clone());
            hooks
        })
    }

    /// Returns the directory with commands in it, a description of the sandbox if there is one, and what commands can
    /// reach.
    async fn workspace(
        &self,
        files: LocalBackend,
        own: &OwnFiles,
    ) -> Result<(Arc<dyn Backend>, Option<String>, CommandReach)> {
        let report = tokio::task::spawn_blocking(|| Sandbox::new().probe()).await?;
        let args = self.loaded().args.commands.run_in(report.level != Level::None);
        let confined = match args.mode() {
            SandboxMode::Unconfined => None,
            SandboxMode::ReadOnly => Some("in a read-only sandbox"),
            SandboxMode::Workspace if args.allow_hosts.is_empty() => Some("in a sandbox, no network"),
            SandboxMode::Workspace => Some("in a sandbox, listed hosts only"),
        };
        Ok((agent::with_commands(files, &args, own)?, confined.map(str::to_owned), args.reach()))
    }
}
