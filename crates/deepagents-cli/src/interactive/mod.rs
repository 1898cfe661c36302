//! The program without a subcommand: the screens on a terminal, otherwise a single task from stdin.

mod choices;
mod detached;
mod host;
mod pages;
mod trust;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::core::journal::{Journal, ThreadInfo, ThreadQuery};
use deepagents_tui::{Begin, End, Ended, Mode, Options, Policy};

use crate::again::Again;
use crate::args::{Approve, AttachArgs, DemoArgs, InteractiveArgs, RunArgs};
use crate::exit::Exit;
use crate::own_files::of_user;
use crate::render::style;
use crate::threads::{database, note, with_model_of};
use crate::tracing::Tracing;
use crate::{config, demo, exit, model_choice, output, own_files, run, runtime};
use host::ProgramHost;

/// Exit code after an internal error.
const PANICKED: u8 = 101;

/// Shows the screens until the user leaves.
pub(crate) fn interactive(args: &InteractiveArgs) -> ExitCode {
    match (&args.worker, &args.detach) {
        (Some(thread), _) => exit::code(detached::work(args, thread)),
        (None, Some(task)) => exit::code(detached::begin(args, task)),
        (None, None) if is_at_terminal() => screens(args),
        (None, None) => exit::code(one_task(args)),
    }
}

fn is_at_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

fn screens(args: &InteractiveArgs) -> ExitCode {
    match show(args) {
        Ok(ended) => end(&ended, args),
        Err(error) => exit::code(Err(error)),
    }
}

/// Shows the screens on a thread that may belong to another program.
pub(crate) fn attach(args: &AttachArgs) -> ExitCode {
    if !is_at_terminal() {
        let again = Again::new(None, &args.options.database);
        let command = again.command(&format!("deepagents threads show {}", args.thread));
        return exit::code(Err(anyhow!("this is not a terminal; `{command}` prints the thread")));
    }
    screens(&InteractiveArgs { resume: Some(args.thread.clone()), go_on: false, ..args.options.clone() })
}

/// Runs one task with the screens' options for the agent. The text on stdin is the task, or the next message for the
/// thread that the options name.
fn one_task(args: &InteractiveArgs) -> Result<Exit> {
    let task = if args.resume.is_some() || args.go_on { run::piped()? } else { None };
    if args.approve == Some(Mode::Ask) {
        output::remark(
            "nobody can be asked here: calls that need your approval are refused, unless you always allowed them",
        );
    }
    run::run(&RunArgs::without_screens(args, task))
}

/// Returns the thread that the options name, if they name one and it exists.
async fn thread_of(args: &InteractiveArgs) -> Result<Option<ThreadInfo>> {
    let given = args.worker.as_ref().or(args.resume.as_ref());
    if given.is_none() && !args.go_on {
        return Ok(None);
    }
    let database = database::open(&args.database).await?;
    match given {
        Some(id) => database::find(&database, id).await.map(Some),
        None => {
            let query = ThreadQuery::default().metadata("root", note::root(args.agent.directory())).limit(1);
            Ok(database.threads().list(&query).await?.pop())
        }
    }
}

/// Returns the options and preferences for a thread, with its model if the options name none, and what it redacts. Also
/// returns a remark about the latter.
fn screens_for(args: &InteractiveArgs, thread: Option<&ThreadInfo>) -> Result<(config::Screens, Option<String>)> {
    let agent = thread.and_then(|thread| with_model_of(&args.agent, thread));
    let agent = agent.unwrap_or_else(|| args.agent.clone());
    let mut screens = config::for_screens(&InteractiveArgs { agent, ..args.clone() })?;
    let noted = thread.map(note::redaction_of).unwrap_or_default();
    let remark = note::keep_redaction(&mut screens.agent.redact, &args.agent.redact, &noted);
    screens.mode = mode_in(args, screens.mode, thread);
    Ok((screens, remark))
}

/// Returns the mode for a thread if none is given: the thread's own mode if it allows less. A mode for runs without a
/// user becomes `ask`.
fn mode_in(args: &InteractiveArgs, usual: Mode, thread: Option<&ThreadInfo>) -> Mode {
    if args.approve.is_some() {
        return usual;
    }
    match (thread.and_then(note::mode_of), usual) {
        (Some(Approve::Deny), _) => Mode::Plan,
        (Some(Approve::Ask | Approve::AllowList), Mode::Auto) => Mode::Ask,
        _ => usual,
    }
}

fn show(args: &InteractiveArgs) -> Result<Ended> {
    if style::is_dumb() {
        bail!(
            "this terminal (TERM=dumb) cannot show the screens: give a task, as in `deepagents run \"Summarise README.md\"`"
        );
    }
    own_files::check_root(args.agent.root.as_deref())?;
    database::check_place(&args.database)?;
    let runtime = runtime::start()?;
    // Report an unknown thread before the screens take over the terminal.
    let thread = runtime.block_on(thread_of(args))?;
    let (config::Screens { agent, mode, preferences, config }, remark) = screens_for(args, thread.as_ref())?;
    let directory = agent.directory();
    let root = directory.canonicalize().map_err(|error| {
        anyhow!("the directory `{}` cannot be used: {error}; give --root another", directory.display())
    })?;
    let choice = model_choice::choose(agent.model.as_deref(), agent.base_url.as_deref(), &model_choice::env);
    let named = agent.model.clone();
    let onboarding = choice.is_err() && named.is_none() && agent.base_url.is_none();
    let model = match (&choice, named) {
        // As on the command line: the model of a server given by its address needs no provider prefix.
        (_, Some(named)) => named,
        (Ok(choice), None) => choice.name.clone(),
        (Err(_), None) => host::NO_MODEL.to_owned(),
    };
    let policy = Policy::new(mode);
    let history = args.history.clone().or_else(|| of_user("history.jsonl"));
    let options = Options {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model,
        root,
        home: own_files::named_home(),
        mode,
        begin: match (&args.resume, args.go_on) {
            (Some(id), _) => Begin::Resume(id.clone()),
            (None, true) => Begin::Continue,
            (None, false) => Begin::New,
        },
        colour: model_choice::env("NO_COLOR").is_none(),
        preferences,
        onboarding,
        history,
        debug: model_choice::env("DEEPAGENTS_DEBUG").as_deref() == Some("1"),
        shell: model_choice::env("SHELL").unwrap_or_else(|| "/bin/sh".to_owned()),
    };
    output::remarks(config.problems.iter().chain(&remark));
    let tracing = runtime.block_on(Tracing::open(None, None))?;
    let host = Arc::new(ProgramHost::new(&agent, args, &config, tracing.clone()));
    let ended = runtime.block_on(async {
        let ended = deepagents_tui::run(host.clone(), policy, options).await;
        // Another process continues the runs that are handed over. Their calls must not fail here.
        let are_used = ended.as_ref().is_ok_and(|ended| ended.handed_over != Ok(0));
        host.close(are_used).await;
        tracing.finish().await;
        ended
    });
    // A tool that ignores cancellation must not hold up the program.
    runtime.shutdown_background();
    Ok(ended?)
}

/// Returns the options that a command to resume a thread of these screens has to repeat.
fn again(args: &InteractiveArgs) -> Again {
    Again::new(args.agent.root.as_deref(), &args.database)
}

/// Prints how to resume the thread, and returns the exit code.
fn end(ended: &Ended, args: &InteractiveArgs) -> ExitCode {
    match &ended.handed_over {
        Ok(0) => {}
        Ok(count) => {
            let listing = Again::new(None, &args.database).command("deepagents threads list");
            output::remark(&format!("still running in the background: {count}; `{listing}` shows them"));
        }
        Err(problem) => output::print_error(&format!("background runs could not be continued: {problem}")),
    }
    let command = |thread: &String| again(args).command(&format!("deepagents --resume {thread}"));
    let how = ended.thread.as_ref().map(|thread| format!("go on with `{}`", command(thread)));
    let code = match &ended.end {
        End::Panic(problem) => {
            output::print_error(&format!("internal error, a bug of this program: {problem}"));
            output::say(&how.unwrap_or_else(|| "nothing had been said yet; start again with `deepagents`".to_owned()));
            return ExitCode::from(PANICKED);
        }
        End::Demo => return exit::code(demo::demo(&DemoArgs::default())),
        End::Quit => 0,
        End::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
    };
    output::remarks(how);
    ExitCode::from(code)
}
