//! What the command line asks for, and the agent that it describes.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use deepagents::DeepAgentBuilder;
use deepagents::core::model::ChatModel;
use deepagents::fs::Backend;
use deepagents::middleware::hooks::HookRunner;

use super::approvals;
use super::given::{answer_format, task};
use super::piped::Piped;
use super::session::{self, Found};
use super::stdin::Task;
use crate::agent::{self, ModeAsks, Shape};
use crate::args::{AgentArgs, Approve, InputFormat, RunArgs};
use crate::exit::WrongUsage;
use crate::model_choice::Choice;
use crate::own_files::{self, OwnFiles};
use crate::runtime::RunThread;
use crate::threads::{Artifacts, note, undo, with_model_of};
use crate::trust::Undecided;
use crate::{config, mcp, model_choice, output, permissions, slash};

/// What the command line asks for, together with the thread that it continues.
pub(super) struct Request<'a> {
    pub(super) args: &'a RunArgs,
    /// The agent's options, completed by the settings and the thread.
    pub(super) options: AgentArgs,
    pub(super) shape: Shape,
    pub(super) task: Task,
    /// Text that is piped in beside the task.
    pub(super) beside: Option<Piped>,
    /// The thread that it continues.
    pub(super) found: Option<Found>,
    pub(super) mode: Approve,
    /// Where the mode comes from, for the text of refusals.
    pub(super) mode_source: &'static str,
    pub(super) is_person_there: bool,
    undecided: Undecided,
    pub(super) runtime: RunThread,
}

impl<'a> Request<'a> {
    /// Reads the command line and finds the thread. Reports errors in the command line before anything takes time.
    pub(super) fn read(args: &'a RunArgs) -> Result<Self> {
        let mut options = config::completed(&args.agent)?;
        let task = task(args)?;
        own_files::check_root(options.root.as_deref())?;
        let mut shape = Shape::from_args(&options)?;
        shape.check()?;
        let runtime = RunThread::start()?;
        let found = runtime.block_on(Found::open(args))?;
        if let Some(agent) = found.as_ref().and_then(|found| with_model_of(&args.agent, &found.info)) {
            (options, _) = config::for_agent(&agent)?;
        }
        let hidden_before = found.as_ref().map_or(&[][..], |found| &found.redact);
        if let Some(remark) = note::keep_redaction(&mut shape.redact, &args.agent.redact, hidden_before)
            && !args.quiet
        {
            output::remark(&remark);
        }
        // With --json, stdin is for a program's answers; it may also hold the task.
        let reads_stdin = args.json || matches!(task, Task::OnStdin);
        let is_person_there = !reads_stdin && io::stdin().is_terminal() && io::stderr().is_terminal();
        let mode = session::mode(args, found.as_ref(), is_person_there)?;
        let is_kept = args.approve.is_none() && found.as_ref().is_some_and(|found| found.mode.is_some());
        // They would be read at the first call that changes something, after the first answer was paid for.
        if matches!(mode, Approve::Ask | Approve::AllowList) {
            permissions::check()?;
        }
        if mode == Approve::Ask && matches!(task, Task::OnStdin) {
            bail!(WrongUsage::new("with --approve ask, stdin is for your answers: give the task on the command line"));
        }
        // Text piped in beside a task belongs to it, unless stdin is for answers or messages.
        let is_free = matches!(task, Task::Given(_)) && args.input_format == InputFormat::Text && mode != Approve::Ask;
        // With --json, stdin belongs to the program and is read only if --stdin is given.
        let beside = if is_free && (args.stdin || !args.json) { Piped::begin() } else { None };
        (shape.asks, shape.max_turns) = (ModeAsks::of(mode), args.max_turns);
        Ok(Self {
            args,
            shape,
            task,
            beside,
            found,
            mode,
            mode_source: approvals::mode_source(mode, args.screens, is_kept),
            is_person_there,
            undecided: Undecided::for_run(&options, reads_stdin),
            options,
            runtime,
        })
    }

    /// Opens the directory and the model, and finds what belongs to the agent.
    pub(super) fn parts(&mut self) -> Result<Parts> {
        let Self { args, options, shape, runtime, .. } = self;
        let (args, mode, undecided) = (*args, self.mode, self.undecided);
        let (store, unrecorded) =
            if args.no_save { (None, None) } else { undo::store_for(&args.database, options.directory())? };
        let files = agent::open(options, store)?;
        let (choice, model) = model_choice::chosen(options)?;
        check_price(args, &choice, &*model)?;
        let (model, unknown_window) = runtime.block_on(model_choice::with_window(model, &choice, options))?;
        // A recorded run has no sub-agents from files.
        let wanted = AgentArgs { no_agents: options.no_agents || args.record.is_some(), ..options.clone() };
        let artifacts = if args.no_save { Some(Artifacts::temporary()?) } else { Artifacts::beside(&args.database)? };
        let scratch = artifacts.as_ref().and_then(Artifacts::scratch).map(Path::to_owned);
        let own = OwnFiles::inside(options.directory(), args.database.db.as_deref(), args.record.as_deref())?;
        let own = own.and(options.directory(), scratch.as_slice())?;
        let surroundings = runtime.block_on(shape.enter(&wanted, files.clone(), &own, undecided))?;
        let typing = runtime.block_on(slash::Commands::find(options, &files, undecided))?;
        let mut servers = mcp::servers(options, undecided, mode == Approve::Ask, Vec::new(), &model)?;
        if args.record.is_some() && servers.take().is_some() {
            output::remark("MCP servers are not used in a recorded run");
        }
        let mut builder = surroundings.give(shape.builder(model));
        if let Some(artifacts) = &artifacts {
            builder = artifacts.give(builder, options.directory());
        }
        if let Some(servers) = &servers {
            runtime.block_on(servers.ask_again(options.directory(), undecided))?;
            builder = builder.mcp(&servers.all);
        }
        // A recording is replayed where those files and models do not exist.
        if args.record.is_none() {
            builder = agent::with_agents(builder, options)?;
        }
        if let Some(file) = &args.json_schema {
            builder = builder.response_format(answer_format(file)?);
        }
        let hooks = runtime.block_on(surroundings.hooks(options))?;
        if hooks.is_some() && args.record.is_some() {
            bail!(WrongUsage::new("hooks cannot be part of a recording: give --no-hooks to record without them"));
        }
        let permissions = if mode == Approve::Auto { "bypassPermissions" } else { "default" };
        let hooks = hooks.map(|hooks| hooks.permission_mode(move || permissions.to_owned()));
        if let Some(hooks) = &hooks {
            builder = builder.hooks(hooks.clone());
        }
        let warnings = unknown_window.into_iter().chain(unrecorded.map(str::to_owned)).collect();
        let definitions = surroundings.definitions;
        Ok(Parts { builder, choice, typing, servers, hooks, definitions, artifacts, warnings })
    }
}

/// What the agent of a run is made of.
pub(super) struct Parts {
    pub(super) builder: DeepAgentBuilder,
    pub(super) choice: Choice,
    /// The commands that a task may begin with.
    pub(super) typing: slash::Commands,
    pub(super) servers: Option<mcp::Servers>,
    pub(super) hooks: Option<HookRunner>,
    /// The files that define the agent.
    pub(super) definitions: Arc<dyn Backend>,
    /// Where what is too long for the conversation is kept.
    pub(super) artifacts: Option<Artifacts>,
    /// What the user should know about the model and the directory.
    pub(super) warnings: Vec<String>,
}

/// Returns an error if a limit on the cost could not be enforced.
fn check_price(args: &RunArgs, choice: &Choice, model: &dyn ChatModel) -> Result<()> {
    if args.max_cost.is_some() && model.profile().price.is_none() {
        bail!(WrongUsage::new(format!(
            "the price of {} is not known, so --max-cost cannot be enforced; use --max-tokens instead",
            choice.name
        )));
    }
    Ok(())
}
