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
mod setup;
mod stdin;
mod stream;

use anyhow::{Result, bail};
use deepagents::middleware::rubric::RubricText;
use deepagents::middleware::{AskUser, Rubric};
use deepagents::remembered::RuleScope;
use deepagents::{DeepAgent, DeepAgentBuilder, LimitExit, Update};

use crate::again::Again;
use crate::args::{Approve, AtLimit, InputFormat, RunArgs, hidden};
use crate::exit::{Exit, WrongUsage};
use crate::model_choice::{Choice, Reason};
use crate::render::{AnswerOnly, JsonLines, Live, Renderer};
use crate::tracing::Tracing;
use crate::{output, permissions, slash};

use always::{Commands, Rules};
pub(crate) use approvals::Decisions;
use approvals::{Approver, Policy, Reviewer};
use drive::{drive, stream_turns};
pub(crate) use drive::{play, replay};
pub(crate) use exit_status::RunContext;
pub(crate) use failure::{busy, model_failure, other_failure};
pub(crate) use process::{ThisProcess, is_gone, owner_in, owner_of};
use prompt::Person;
use recording::Recording;
use session::Session;
use setup::{Parts, Request};
use stdin::Lines;
pub(crate) use stdin::piped;
use stream::Stream;

/// Gives an agent a task and shows what it does.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let mut request = Request::read(args)?;
    let parts = request.parts()?;
    let Request { options, mut shape, task, beside, found, mode, mode_source, is_person_there, runtime, .. } = request;
    let Parts { builder, choice, typing, servers, hooks, definitions, artifacts, warnings } = parts;
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
    // In ask mode, a program may answer.
    let is_answered = mode == Approve::Ask || (is_person_there && mode == Approve::Auto);
    let agent = equipped(tracing.watch_task(builder), args, &session, is_answered).build()?;
    let is_talk = args.input_format == InputFormat::StreamJson;
    let skills = if skill.is_some() || is_talk { runtime.block_on(slash::skill_names(&agent))? } else { Vec::new() };
    slash::check_skill(skill, &skills)?;
    let recording = runtime.block_on(async {
        let Some(file) = &args.record else { return Ok(Recording::None) };
        shape.carried = shape.context_files.read_contents(&*definitions).await?;
        Recording::record(file, serde_json::to_value(&shape)?).await
    })?;
    let again = again(args);
    remark_before(args, &choice, &warnings, &session, &again);
    let own = RunContext { again, servers, artifacts, recording, tracing, hooks, ..RunContext::default() };
    let limits = context(args, &choice, &mut session, own);
    if is_talk {
        let Some(thread) = session.kept else { bail!("the turns of a conversation are saved in a thread") };
        let journal = session.journal;
        let typing = (typing, skills);
        let turns = Stream { agent: &agent, journal, thread, limits: &limits, approve: mode, mode_source, typing };
        return stream_turns(runtime, &turns);
    }
    let commands = Commands { reach: options.commands.reach(), share_shell: options.commands.shell_session };
    let project = RuleScope::project(options.directory()).ok();
    let rules = Rules::new(permissions::store(), session.kept.as_deref(), project, commands);
    let mut approver = Approver::Policy(Box::new(Policy {
        mode,
        mode_source,
        reviewer: reviewer(args, mode, is_person_there),
        rules,
        agent: agent.clone(),
        resumes: args.resumes(),
    }));
    let mut renderer = runtime.block_on(renderer(args, &agent, session.kept.as_deref()))?;
    drive(runtime, &agent, session.input, &limits, &mut approver, &mut *renderer)
}

/// Adds what the options and the thread ask for. `is_answered` is whether somebody answers questions.
fn equipped(builder: DeepAgentBuilder, args: &RunArgs, session: &Session, is_answered: bool) -> DeepAgentBuilder {
    let mut builder = builder.journal(session.journal.clone()).process(ThisProcess);
    if args.background || session.has_tasks {
        builder = builder.background_agents(true);
    }
    // A recording is replayed where nobody is asked and nothing is judged.
    if args.record.is_some() {
        return builder;
    }
    // Open questions of an earlier run are asked again. Otherwise leave the tool out: nobody could answer, and another
    // tool would invalidate the provider's cache of the thread.
    if is_answered || session.is_open {
        builder = builder.middleware(AskUser);
    }
    builder.middleware(Rubric::default())
}

/// Returns who decides about calls.
fn reviewer(args: &RunArgs, mode: Approve, is_person_there: bool) -> Reviewer {
    match mode {
        Approve::Ask if args.json => Reviewer::Program(Lines::read()),
        _ if mode == Approve::Ask || is_person_there => Reviewer::Person(Person { lines: Lines::read() }),
        _ => Reviewer::Nobody,
    }
}

/// Adds the limits of the run, and what its messages refer to.
fn context(args: &RunArgs, choice: &Choice, session: &mut Session, own: RunContext) -> RunContext {
    RunContext {
        turns: args.max_turns,
        tokens: args.max_tokens,
        cost: args.max_cost,
        exit: match args.at_limit {
            AtLimit::End => LimitExit::End,
            AtLimit::Answer => LimitExit::Answer,
        },
        time: args.timeout,
        key_variable: choice.key_variable(),
        thread: session.kept.clone(),
        note: std::mem::take(&mut session.note),
        has_shape: args.json_schema.is_some(),
        waits: args.wait_background || session.waits,
        ..own
    }
}

/// Prints what the user should know before the run begins.
fn remark_before(args: &RunArgs, choice: &Choice, warnings: &[String], session: &Session, again: &Again) {
    if args.quiet {
        return;
    }
    if choice.reason != Reason::Named {
        output::remark(&format!("using {choice}"));
    }
    if !args.json {
        output::remarks(warnings);
    }
    let Some(thread) = &session.kept else { return };
    if session.is_over {
        output::remark(&format!(
            "the last run of thread {thread} has ended with this result; to continue, say what to do next"
        ));
    }
    // A program that sends its messages as lines is asked the questions first.
    if session.leaves_questions && args.input_format == InputFormat::Text {
        output::remark(&format!(
            "the open questions of thread {thread} are left undecided, and their calls are not made; `{}` would have \
             asked them",
            again.asking(thread)
        ));
    }
}

/// Returns the command that continues the thread in the same way.
fn again(args: &RunArgs) -> Again {
    let again = Again::new(args.agent.root.as_deref(), &args.database);
    match (args.input_format, args.json) {
        (InputFormat::StreamJson, _) => again.stream_json(),
        (InputFormat::Text, true) => again.json(),
        (InputFormat::Text, false) => again,
    }
}

/// Returns what shows the run: events, the answer alone, or its progress after that of the thread so far.
async fn renderer(args: &RunArgs, agent: &DeepAgent, thread: Option<&str>) -> Result<Box<dyn Renderer>> {
    let has_shape = args.json_schema.is_some();
    if args.json {
        return Ok(Box::new(JsonLines));
    }
    if args.quiet || has_shape {
        return Ok(Box::new(AnswerOnly::new(has_shape, args.at_limit == AtLimit::Answer)));
    }
    let live = Live::new(thread.map(str::to_owned));
    Ok(Box::new(match thread {
        Some(thread) => live.before(&agent.state(thread).await?),
        None => live,
    }))
}
