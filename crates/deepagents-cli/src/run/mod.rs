//! `deepagents run`.

mod always;
mod answers;
mod approvals;
mod background;
mod drive;
mod exit_status;
mod failure;
mod fields;
mod given;
mod interrupt;
mod live;
mod piped;
mod process;
mod prompt;
mod question;
mod recording;
mod session;
mod stdin;
mod stream;

use std::io::{self, IsTerminal};

use anyhow::{Result, bail};
use deepagents::Update;
use deepagents::middleware::rubric::RubricText;
use deepagents::middleware::{AskUser, Rubric};
use deepagents::remembered::RuleScope;

use crate::again::Again;
use crate::agent::ModeAsks;
use crate::args::{AgentArgs, Approve, InputFormat, RunArgs, hidden};
use crate::exit::{Exit, WrongUsage};
use crate::own_files::{self, OwnFiles};
use crate::render::{AnswerOnly, JsonLines, Live, Renderer};
use crate::runtime::RunThread;
use crate::threads::{note, undo, with_model_of};
use crate::tracing::Tracing;
use crate::trust::Undecided;
use crate::{agent, config, mcp, model_choice, output, permissions, slash};

use always::{Commands, Rules};
pub(crate) use approvals::Decisions;
use approvals::{Approver, Policy, Reviewer};
use drive::{drive, stream_turns};
pub(crate) use drive::{play, replay};
pub(crate) use exit_status::RunContext;
pub(crate) use failure::{model_failure, other_failure};
use given::{answer_format, task};
use piped::Piped;
pub(crate) use process::{ThisProcess, is_gone};
use prompt::Person;
use recording::Recording;
use session::{Found, Session};
pub(crate) use stdin::piped;
use stdin::{Lines, Task};
use stream::Stream;

/// Gives an agent a task and shows what it does.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let mut options = config::completed(&args.agent)?;
    // Report errors in the command line before anything that takes time.
    let task = task(args)?;
    own_files::check_root(options.root.as_deref())?;
    let mut shape = agent::Shape::from_args(&options)?;
    shape.check()?;
    let runtime = RunThread::start()?;
    let found = runtime.block_on(Found::open(args))?;
    if let Some(agent) = found.as_ref().and_then(|found| with_model_of(&args.agent, &found.info)) {
        (options, _) = config::for_agent(&agent)?;
    }
    let options = &options;
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
    let mode_source = approvals::mode_source(mode, args.screens, is_kept);
    if mode == Approve::Ask && matches!(task, Task::OnStdin) {
        bail!(WrongUsage::new("with --approve ask, stdin is for your answers: give the task on the command line"));
    }
    // Text piped in beside a task belongs to it, unless stdin is for answers or messages.
    let is_free = matches!(task, Task::Given(_)) && args.input_format == InputFormat::Text && mode != Approve::Ask;
    // With --json, stdin belongs to the program and is read only if --stdin is given.
    let beside = if is_free && (args.stdin || !args.json) { Piped::begin() } else { None };
    (shape.asks, shape.max_turns) = (ModeAsks::of(mode), args.max_turns);
    let (store, unrecorded) =
        if args.no_save { (None, None) } else { undo::store_for(&args.database, options.directory())? };
    let files = agent::open(options, store)?;
    let (choice, model) = model_choice::chosen(options)?;
    if args.max_cost.is_some() && model.profile().price.is_none() {
        let name = &choice.name;
        let words =
            format!("the price of {name} is not known, so --max-cost cannot be enforced; use --max-tokens instead");
        bail!(WrongUsage::new(words));
    }
    let (model, unknown_window) = runtime.block_on(model_choice::with_window(model, &choice, options))?;
    // A recorded run has no sub-agents from files.
    let wanted = AgentArgs { no_agents: options.no_agents || args.record.is_some(), ..options.clone() };
    let undecided = Undecided::for_run(options, reads_stdin);
    let own = OwnFiles::inside(options.directory(), args.database.db.as_deref(), args.record.as_deref())?;
    let surroundings = runtime.block_on(shape.enter(&wanted, files.clone(), &own, undecided))?;
    let typing = runtime.block_on(slash::Commands::find(options, &files, undecided))?;
    let mut servers = mcp::servers(options, undecided, mode == Approve::Ask, Vec::new(), &model)?;
    if args.record.is_some() && servers.take().is_some() {
        output::remark("MCP servers are not used in a recorded run");
    }
    let mut builder = surroundings.give(shape.builder(model));
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
        bail!("hooks cannot be part of a recording: give --no-hooks to record without them");
    }
    let permissions = if mode == Approve::Auto { "bypassPermissions" } else { "default" };
    let hooks = hooks.map(|hooks| hooks.permission_mode(move || permissions.to_owned()));
    if let Some(hooks) = &hooks {
        builder = builder.hooks(hooks.clone());
    }
    let task = task.read(&typing, beside, args.stdin)?;
    let mut session = runtime.block_on(Session::open(
        args,
        found,
        (mode, &shape.redact),
        task.as_ref().map(|task| task.text.clone()),
        (&choice.name, options.base_url.as_deref()),
    ))?;
    let skill = task.as_ref().and_then(|task| task.skill.as_ref());
    if skill.is_some() && args.record.is_some() {
        bail!(WrongUsage::new("a skill given with /skill: cannot be part of a recording: ask for it in words"));
    }
    session.input = slash::pin(session.input, skill);
    if let Some(goal) = &args.goal {
        session.input = session.input.update(Update::new::<RubricText>(Some(hidden(&shape.redact, goal))));
    }
    let tracing = runtime.block_on(Tracing::open(args.trace.as_deref(), session.caller.as_deref()))?;
    session.note_caller(&tracing);
    builder = tracing.watch_task(builder).journal(session.journal.clone()).process(ThisProcess);
    if args.background || session.has_tasks {
        builder = builder.background_agents(true);
    }
    // A recording is replayed where nobody is asked and nothing is judged.
    if args.record.is_none() {
        // In ask mode, a program may answer. Open questions of an earlier run are asked again. Otherwise leave the tool
        // out: nobody could answer, and another tool would invalidate the provider's cache of the thread.
        let is_answered = mode == Approve::Ask || (is_person_there && mode == Approve::Auto);
        if is_answered || session.is_open {
            builder = builder.middleware(AskUser);
        }
        builder = builder.middleware(Rubric::default());
    }
    let agent = builder.build()?;
    let is_talk = args.input_format == InputFormat::StreamJson;
    let skills = if skill.is_some() || is_talk { runtime.block_on(slash::skill_names(&agent))? } else { Vec::new() };
    slash::check_skill(skill, &skills)?;
    let recording = runtime.block_on(async {
        let Some(file) = &args.record else { return Ok(Recording::None) };
        shape.carried = shape.context_files.read_contents(&*surroundings.definitions).await?;
        Recording::record(file, serde_json::to_value(&shape)?).await
    })?;
    if choice.reason != model_choice::Reason::Named && !args.quiet {
        output::remark(&format!("using {choice}"));
    }
    if !args.quiet && !args.json {
        output::remarks(unknown_window.as_deref().into_iter().chain(unrecorded));
    }
    if let Some(thread) = session.kept.as_deref().filter(|_| session.is_over && !args.quiet) {
        output::remark(&format!(
            "the last run of thread {thread} has ended with this result; to continue, say what to do next"
        ));
    }
    let again = Again::new(args.agent.root.as_deref(), &args.database);
    let again = match (is_talk, args.json) {
        (true, _) => again.stream_json(),
        (false, true) => again.json(),
        (false, false) => again,
    };
    // A program that sends its messages as lines is asked the questions first.
    let leaves_questions = session.leaves_questions && !is_talk;
    if let Some(thread) = session.kept.as_deref().filter(|_| leaves_questions && !args.quiet) {
        output::remark(&format!(
            "the open questions of thread {thread} are left undecided, and their calls are not made; `{}` would have \
             asked them",
            again.asking(thread)
        ));
    }
    let limits = RunContext {
        turns: args.max_turns,
        tokens: args.max_tokens,
        cost: args.max_cost,
        time: args.timeout,
        key_variable: choice.key_variable(),
        thread: session.kept.clone(),
        again,
        note: std::mem::take(&mut session.note),
        has_shape: args.json_schema.is_some(),
        waits: args.wait_background || session.waits,
        servers,
        recording,
        tracing,
        hooks,
    };
    if is_talk {
        let Some(thread) = session.kept else { bail!("the turns of a conversation are saved in a thread") };
        let journal = session.journal;
        let typing = (typing, skills);
        let turns = Stream { agent: &agent, journal, thread, limits: &limits, approve: mode, mode_source, typing };
        return stream_turns(runtime, &turns);
    }
    let reviewer = match mode {
        Approve::Ask if args.json => Reviewer::Program(Lines::read()),
        _ if mode == Approve::Ask || is_person_there => Reviewer::Person(Person { lines: Lines::read() }),
        _ => Reviewer::Nobody,
    };
    let commands = Commands { reach: options.commands.reach(), share_shell: options.commands.shell_session };
    let project = RuleScope::project(options.directory()).ok();
    let rules = Rules::new(permissions::store(), session.kept.as_deref(), project, commands);
    let mut approver = Approver::Policy(Box::new(Policy {
        mode,
        mode_source,
        reviewer,
        rules,
        agent: agent.clone(),
        resumes: args.resumes(),
    }));
    let mut renderer: Box<dyn Renderer> = if args.json {
        Box::new(JsonLines)
    } else if args.quiet || args.json_schema.is_some() {
        Box::new(AnswerOnly::new(args.json_schema.is_some()))
    } else {
        let mut live = Live::new(session.kept.clone());
        if let Some(thread) = &session.kept {
            live = live.before(&runtime.block_on(agent.state(thread))?);
        }
        Box::new(live)
    };
    drive(runtime, &agent, session.input, &limits, &mut approver, &mut *renderer)
}
