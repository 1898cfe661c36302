//! `deepagents run`.

mod approvals;
mod background;
mod exit_status;
mod fields;
mod interrupt;
mod live;
mod own_tools;
mod piped;
mod process;
mod prompt;
mod question;
mod recording;
mod session;
mod stdin;
mod stream;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::core::structured::ResponseFormat;
use deepagents::core::tool::SchemaCheck;
use deepagents::fs::UndoStore;
use deepagents::middleware::rubric::RubricText;
use deepagents::middleware::{AskUser, Rubric};
use deepagents::recording::Replay;
use deepagents::remembered::RuleScope;
use deepagents::{DeepAgent, RunInput, Update};
use serde_json::Value;

use crate::agent::ModeAsks;
use crate::args::{AgentArgs, Approve, InputFormat, RunArgs};
use crate::exit::{Exit, WrongUsage};
use crate::model_choice::{self, WithoutKey};
use crate::own_files::{self, OwnFiles};
use crate::render::{AnswerOnly, JsonLines, Live, Renderer};
use crate::runtime::RunThread;
use crate::small_file::without_mark;
use crate::threads::undo;
use crate::tracing::Tracing;
use crate::trust::{Brought, Undecided};
use crate::{agent, config, hooks, mcp, output, permissions, sources};

pub(crate) use approvals::Decisions;
use approvals::{Approver, Commands, Policy, Reviewer, Rules};
pub(crate) use exit_status::Limits;
pub(crate) use exit_status::{model_failure, other_failure};
pub(crate) use interrupt::PATIENCE;
use own_tools::OwnTools;
use piped::Piped;
pub(crate) use process::{ThisProcess, is_gone};
use prompt::Person;
use recording::{Played, Recording};
use session::{Found, Session};
pub(crate) use stdin::piped;
use stdin::{Lines, Task};
use stream::Stream;

/// Gives an agent a task and shows what it does.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let (options, problems) = config::for_agent(&args.agent)?;
    for problem in problems {
        output::remark(&problem);
    }
    let options = &options;
    // What the command line itself says wrong is told before anything that it takes to find out.
    let task = task(args)?;
    own_files::check_root(options.root.as_deref())?;
    let mut shape = agent::Shape::from_args(options)?;
    shape.check()?;
    let runtime = RunThread::start()?;
    let found = runtime.block_on(Found::open(args))?;
    let in_thread = found.as_ref().and_then(|found| found.with_model(&args.agent));
    let in_thread = in_thread.map(|agent| config::for_agent(&agent)).transpose()?;
    let options = in_thread.as_ref().map_or(options, |(options, _)| options);
    let hidden_before = found.as_ref().map_or(&[][..], |found| &found.redact);
    if let Some(remark) = shape.keep_redaction(&args.agent.redact, hidden_before)
        && !args.quiet
    {
        output::remark(&remark);
    }
    // Answers of a program are lines of stdin, and so may be the task.
    let reads_stdin = args.json || matches!(task, Task::OnStdin);
    let is_person_there = !reads_stdin && io::stdin().is_terminal() && io::stderr().is_terminal();
    let mode = session::mode(args, found.as_ref(), is_person_there)?;
    if mode == Approve::Ask && matches!(task, Task::OnStdin) {
        bail!("with --approve ask stdin is for your answers: give the task on the command line");
    }
    // What is piped in beside a task belongs to it, unless answers or messages are read there.
    let is_free = matches!(task, Task::Given(_)) && args.input_format == InputFormat::Text && mode != Approve::Ask;
    // With --json a program answers there what is asked in every mode.
    let beside = if is_free && (args.stdin || !args.json) { Piped::begin() } else { None };
    (shape.asks, shape.max_turns) = (ModeAsks::of(mode), args.max_turns);
    let undo_file = if args.no_save { None } else { undo::file(&args.database)? };
    let inside = undo_file.as_ref().is_some_and(|file| undo::is_inside(file, options.directory()));
    let store = undo_file.filter(|_| !inside).map(UndoStore::at);
    let files = agent::open_recorded(options, store)?;
    let choice = model_choice::choose(options.model.as_deref(), options.base_url.as_deref(), &model_choice::env)?;
    let model = model_choice::make(&choice, options, &model_choice::env, WithoutKey::Refuse)?;
    if args.max_cost.is_some() && model.profile().price.is_none() {
        let name = &choice.name;
        let words =
            format!("the price of {name} is not known, so --max-cost cannot be kept; limit it with --max-tokens");
        bail!(WrongUsage(words));
    }
    let windowed = model_choice::with_window(model, &choice, options, &model_choice::env);
    let (model, unknown_window) = runtime.block_on(windowed)?;
    // A recorded run has no sub-agents of files.
    let wanted = AgentArgs { no_agents: options.no_agents || args.record.is_some(), ..options.clone() };
    let undecided = Undecided::for_run(options, reads_stdin);
    let brought = runtime.block_on(Brought::find(&wanted, &files, undecided))?;
    let (sources, outside) = sources::find(options, &brought)?;
    let own = OwnFiles::inside(options.directory(), args.database.db.as_deref(), args.record.as_deref())?;
    shape.sources = sources;
    let confinement = shape.confinement(&files, &own);
    let workspace = agent::workspace(options, files, &own, &outside)?;
    let servers = mcp::servers(options, undecided, mode == Approve::Ask, args.record.is_some(), &model)?;
    if let Some(servers) = &servers {
        runtime.block_on(servers.ask_again(options.directory(), undecided))?;
    }
    let definitions = outside.beside(brought.files.clone());
    let mut builder = shape.builder(model).backend(workspace).definitions_from(definitions.clone());
    if let Some(servers) = &servers {
        builder = builder.mcp(&servers.all);
    }
    // A recording is played where those files and models are not.
    if args.record.is_none() {
        builder = agent::with_agents(builder, options)?;
    }
    if let Some(file) = &args.json_schema {
        builder = builder.response_format(answer_format(file)?);
    }
    let hooks = runtime.block_on(hooks::find(options, &brought, confinement))?;
    if hooks.is_some() && args.record.is_some() {
        bail!("hooks cannot be part of a recording: say --no-hooks to record without them");
    }
    let permissions = if mode == Approve::Auto { "bypassPermissions" } else { "default" };
    let hooks = hooks.map(|hooks| hooks.permission_mode(move || permissions.to_owned()));
    if let Some(hooks) = &hooks {
        builder = builder.hooks(hooks.clone());
    }
    let task = task.read(beside, args.stdin)?;
    let mut session = runtime.block_on(Session::open(
        args,
        found,
        (mode, shape.redact()),
        task,
        (&choice.name, options.base_url.as_deref()),
    ))?;
    if let Some(goal) = &args.goal {
        let goal = crate::args::hidden(shape.redact(), goal);
        session.input = session.input.update(Update::new::<RubricText>(Some(goal)));
    }
    let tracing = runtime.block_on(Tracing::open(args.trace.as_deref(), session.caller.as_deref()))?;
    session.note_caller(&tracing);
    builder = tracing.watch_task(builder);
    if let Some(journal) = &session.journal {
        builder = builder.journal(journal.clone()).process(ThisProcess);
    }
    if args.background || session.has_tasks {
        builder = builder.background_agents(true);
    }
    // A recording is played where nobody is asked and nothing is judged.
    if args.record.is_none() {
        // A thread that is gone on with may wait for an answer, or have a goal; a program answers where it decides.
        let is_answered = mode == Approve::Ask || (is_person_there && mode == Approve::Auto);
        if is_answered || args.resumes() {
            builder = builder.middleware(AskUser);
        }
        builder = builder.middleware(Rubric::default());
    }
    let agent = builder.build().map_err(|error| anyhow!("{error}"))?;
    let recording = runtime.block_on(async {
        let Some(file) = &args.record else { return Ok(Recording::None) };
        shape.carried = shape.sources.carry(&*definitions).await?;
        Recording::record(file, serde_json::to_value(&shape)?).await
    })?;
    if choice.reason != model_choice::Reason::Named && !args.quiet {
        output::remark(&format!("using {choice}"));
    }
    if let Some(remark) = unknown_window.filter(|_| !args.quiet && !args.json) {
        output::remark(&remark);
    }
    if inside && !args.quiet && !args.json {
        output::remark("files cannot be put back later: the database is inside of the directory; name one with --db");
    }
    if let Some(thread) = session.kept.as_deref().filter(|_| session.is_over && !args.quiet) {
        output::remark(&format!(
            "the last run of thread {thread} has ended, and this is what it came to; to go on, say what is to be done next"
        ));
    }
    let limits = Limits {
        turns: args.max_turns,
        tokens: args.max_tokens,
        cost: args.max_cost,
        time: args.timeout,
        key_variable: choice.key_variable(),
        thread: session.kept.clone(),
        note: std::mem::take(&mut session.note),
        has_shape: args.json_schema.is_some(),
        waits: args.wait_background || session.waits,
        servers,
        recording,
        tracing,
        hooks,
    };
    if args.input_format == InputFormat::StreamJson {
        let (Some(journal), Some(thread)) = (session.journal.clone(), session.thread()) else {
            bail!("turns of one conversation are kept in a thread: leave --no-save out");
        };
        let turns = Stream { agent: &agent, journal, thread, limits: &limits, approve: mode };
        return stream_turns(runtime, &turns);
    }
    let reviewer = match mode {
        Approve::Ask if args.json => Reviewer::Program(Lines::read()),
        Approve::Ask => Reviewer::Person(Person::new(Lines::read())),
        _ if is_person_there => Reviewer::Person(Person::new(Lines::read())),
        _ => Reviewer::Nobody,
    };
    let commands = Commands { reach: options.commands.reach(), share_shell: options.commands.session().is_some() };
    let project = RuleScope::project(options.directory()).ok();
    let rules = Rules::new(permissions::store(), session.kept.as_deref(), project, commands);
    let mut approver = Approver::Policy(Box::new(Policy {
        mode,
        said: approvals::said(mode, args.screens),
        reviewer,
        rules,
        tools: OwnTools::of(&agent),
        resumes: args.resumes(),
    }));
    if args.json {
        drive(runtime, &agent, session.input, &limits, &mut approver, &mut JsonLines)
    } else if args.quiet || args.json_schema.is_some() {
        drive(runtime, &agent, session.input, &limits, &mut approver, &mut AnswerOnly::new(args.json_schema.is_some()))
    } else {
        let mut live = Live::new(session.kept.clone());
        if let Some(thread) = &session.kept {
            live = live.before(&runtime.block_on(agent.state(thread))?);
        }
        drive(runtime, &agent, session.input, &limits, &mut approver, &mut live)
    }
}

/// Takes turns as lines on stdin ask for them.
fn stream_turns(runtime: RunThread, turns: &Stream<'_>) -> Result<Exit> {
    let exit = runtime.block_on(async {
        let signals = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        let exit = turns.serve(signals, &mut JsonLines).await;
        background::leave(turns.agent, turns.limits).await;
        end_sessions(turns.limits).await;
        if let Some(lost) = turns.limits.tracing.finish().await {
            output::remark(&format!("tracing: {lost}"));
        }
        Ok::<_, anyhow::Error>(exit?)
    });
    runtime.shutdown();
    exit
}

/// The shape of the answer, of a file with a JSON Schema.
fn answer_format(file: &Path) -> Result<ResponseFormat> {
    let wrong = |what: String| WrongUsage(format!("`{}` given with --json-schema {what}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let schema: Value =
        serde_json::from_str(without_mark(&text)).map_err(|error| wrong(format!("is no JSON: {error}")))?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        bail!(wrong("is no schema of an object: it lacks \"type\": \"object\"".to_owned()));
    }
    SchemaCheck::new(Arc::new(schema.clone()))
        .compile()
        .map_err(|error| wrong(format!("is no JSON Schema: {error}")))?;
    Ok(ResponseFormat::json("answer", schema))
}

/// What is to be done, as the command line says it.
fn task(args: &RunArgs) -> Result<Task> {
    if args.input_format == InputFormat::StreamJson {
        // The thread is begun, or gone on with, by the first message.
        return Ok(Task::Given(String::new()));
    }
    match args.task.as_deref() {
        None if args.resumes() => Ok(Task::Rest),
        None | Some("-") if args.approve == Some(Approve::Ask) => {
            let words = "with --approve ask stdin is for your answers: give the task on the command line";
            bail!(WrongUsage(words.to_owned()))
        }
        given => Task::from_arg(given),
    }
}

/// Plays the model's part by a script: nothing is kept and nothing is asked.
pub(crate) fn play(agent: &DeepAgent, task: String, renderer: &mut dyn Renderer) -> Result<Exit> {
    let runtime = RunThread::start()?;
    drive(runtime, agent, RunInput::new(task), &Limits::default(), &mut Approver::for_script(), renderer)
}

/// Plays a recorded run and the decisions that were made in it.
pub(crate) fn replay(
    runtime: RunThread,
    agent: &DeepAgent,
    input: RunInput,
    replay: &Arc<Replay>,
    answers: Vec<Decisions>,
    turns: Option<u32>,
    renderer: &mut dyn Renderer,
) -> Result<Exit> {
    let limits = Limits { turns, recording: Recording::Replay(replay.clone()), ..Limits::default() };
    let mut renderer = Played { replay, renderer };
    drive(runtime, agent, input, &limits, &mut Approver::Recorded(answers.into()), &mut renderer)
}

/// Runs the hooks for the end of what was begun: a thread, or where nothing is kept the run. A signal ends them, also where
/// none was to stop the run.
async fn end_sessions(limits: &Limits) {
    let Some(hooks) = &limits.hooks else { return };
    // Before the first of them runs, so that none is missed.
    let signals = interrupt::catch();
    let signal = async {
        match signals {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    let sessions = limits.thread.clone().map_or_else(|| hooks.sessions(), |thread| vec![thread]);
    let ends = async {
        for session in sessions {
            hooks.session_end(&session, "exit").await;
        }
    };
    tokio::select! {
        () = ends => {}
        () = signal => output::remark("the hooks for the end of the session are ended"),
    }
}

/// Runs to the end and says on stderr what stood in the way.
fn drive(
    runtime: RunThread,
    agent: &DeepAgent,
    input: RunInput,
    limits: &Limits,
    approver: &mut Approver,
    renderer: &mut dyn Renderer,
) -> Result<Exit> {
    let ending = runtime.block_on(async {
        let signals = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        let ending = live::follow(agent, input, limits, signals, approver, renderer).await;
        background::leave(agent, limits).await;
        if let Some(servers) = &limits.servers {
            servers.close().await;
        }
        end_sessions(limits).await;
        if let Some(lost) = limits.tracing.finish().await {
            output::remark(&format!("tracing: {lost}"));
        }
        Ok::<_, anyhow::Error>((ending?, limits.recording.finish().await))
    });
    // A tool that ignores its end must not hold the program.
    runtime.shutdown();
    let (ending, written) = ending?;
    let (exit, words) = limits.recording.exit_status(&ending, limits);
    if let Some(words) = words {
        output::print_error(&words);
    }
    if let Err(error) = written {
        output::print_error(&format!("the recording ends before the run did: {error}"));
        return Ok(if exit == Exit::Done { Exit::Failed } else { exit });
    }
    Ok(exit)
}
