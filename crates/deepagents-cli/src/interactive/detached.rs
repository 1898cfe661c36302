//! Runs without a terminal: a separate process works on a thread until its turn ends.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory};
use deepagents::core::journal::{Journal, RunStatus};
use deepagents::{Error, FinishReason, Message, RunInput};
use deepagents_tui::{Connection, Host, Mode, Policy};
use serde_json::json;

use super::host::ProgramHost;
use super::{again, screens_for, thread_of};
use crate::args::{Cli, InteractiveArgs, hidden};
use crate::exit::{Exit, WrongUsage};
use crate::own_files::of_user;
use crate::stopping::{EndSignals, Hangup};
use crate::threads::{Noted, database, fresh, note};
use crate::tracing::Tracing;
use crate::trust::Undecided;
use crate::{agent, config, model_choice, output, own_files, runtime, slash};

/// How long a process waits for its thread to be free.
const THREAD_TIMEOUT: Duration = Duration::from_secs(600);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Starts or resumes a thread in a separate process, and prints how to show it.
pub(super) fn begin(args: &InteractiveArgs, task: &str) -> Result<Exit> {
    own_files::check_root(args.agent.root.as_deref())?;
    let runtime = runtime::start()?;
    let thread = runtime.block_on(thread_of(args))?;
    if thread.is_none() && args.go_on {
        bail!(WrongUsage::new("this directory has no threads yet"));
    }
    let (config::Screens { agent: options, mode, .. }, _) = screens_for(args, thread.as_ref())?;
    // Report errors here, where somebody reads them.
    let (files, undecided) = (agent::open(&options, None)?, Undecided::for_run(&options, true));
    runtime.block_on(slash::Commands::find(&options, &files, undecided))?.read(task)?;
    let (choice, _) = model_choice::chosen(&options)?;
    let thread = runtime.block_on(async {
        if let Some(info) = thread {
            let ended = matches!(info.status, RunStatus::Ended | RunStatus::Empty | RunStatus::Failed);
            if task.is_empty() && ended {
                bail!("the last run of thread {} has ended; say what to do next after --detach", info.id);
            }
            return Ok(info.id);
        }
        if task.is_empty() {
            bail!(WrongUsage::new("there is no task: give one after --detach, or name a thread with --resume"));
        }
        let database = database::open(&args.database).await?;
        let id = fresh(&database).await?;
        // The user may attach before the process has started.
        let model = Some((options.model.as_deref().unwrap_or(&choice.name), options.base_url.as_deref()));
        let noted = Noted { root: Some(options.directory()), model, approve: mode.into(), redact: &options.redact };
        let mut metadata = noted.metadata();
        note::name(&mut metadata, &hidden(&options.redact, task));
        database.threads().set_metadata(&id, metadata).await?;
        Ok(id)
    })?;
    start(&thread, task, mode, None)?;
    let short: String = thread.chars().take(8).collect();
    output::print(&thread)?;
    let command = again(args).command(&format!("deepagents attach {short}"));
    output::remark(&format!("it runs in the background: `{command}` shows it"));
    Ok(Exit::Done)
}

/// Starts the process that works on a thread, with this process's options, or with another model and its address.
pub(super) fn start(thread: &str, task: &str, mode: Mode, model: Option<(&str, Option<&str>)>) -> Result<()> {
    let program = std::env::current_exe().context("the path of this program cannot be found")?;
    let log = log(thread)?;
    let mut command = Command::new(program);
    command.args(agent_options(std::env::args_os(), model.is_some())?);
    command.args(["--worker", thread, "--approve", mode.as_str()]);
    if let Some((name, address)) = model {
        command.args(["--model", name]);
        command.args(address.into_iter().flat_map(|address| ["--base-url", address]));
    }
    let errors = log.try_clone()?;
    // A process group of its own, so that signals from the terminal do not reach it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.stdin(Stdio::piped()).stdout(log).stderr(errors).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(task.as_bytes())?;
    }
    Ok(())
}

/// Opens the log file for the output of such a process.
fn log(thread: &str) -> Result<fs::File> {
    let place = of_user("background")
        .ok_or_else(|| anyhow!("its output is stored in ~/.deepagents/background, but HOME is not set"))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
    let name: String = thread.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let file = place.join(format!("{name}.log"));
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&file);
    opened.with_context(|| format!("`{}` cannot be written", file.display()))
}

/// Returns the options in a command line that concern the agent, without those for the thread, the mode and the task.
fn agent_options(line: impl Iterator<Item = OsString>, without_model: bool) -> Result<Vec<OsString>> {
    let (mut command, mut given) = (Cli::command(), Cli::command().try_get_matches_from(line)?);
    if let Some((name, matches)) = given.remove_subcommand() {
        command = command.find_subcommand(&name).cloned().unwrap_or(command);
        given = matches;
    }
    let is_kept = |option: &&Arg| match option.get_id().as_str() {
        "go_on" | "resume" | "approve" | "worker" | "detach" => false,
        "model" | "base_url" => !without_model,
        id => given.value_source(id) == Some(ValueSource::CommandLine),
    };
    let mut kept = Vec::new();
    for option in command.get_arguments().filter(is_kept) {
        let Some(name) = option.get_long() else { continue };
        let takes_values = option.get_action().takes_values();
        for value in given.get_raw(option.get_id().as_str()).into_iter().flatten() {
            let mut word = OsString::from(format!("--{name}"));
            if takes_values {
                word.push("=");
                word.push(value);
            }
            kept.push(word);
        }
    }
    Ok(kept)
}

/// Works on a thread without a terminal: on the task from stdin, or on what the thread left unfinished.
pub(super) fn work(args: &InteractiveArgs, thread: &str) -> Result<Exit> {
    // The end of the terminal session must not end this process.
    let _ = rustix::process::setsid();
    let mut task = String::new();
    std::io::stdin().read_to_string(&mut task)?;
    let runtime = runtime::start()?;
    let found = runtime.block_on(thread_of(args))?;
    let (config::Screens { agent, mode, preferences, config }, _) = screens_for(args, found.as_ref())?;
    let policy = Policy::new(mode);
    let tracing = runtime.block_on(Tracing::open(None, None))?;
    let host = Arc::new(ProgramHost::new(&agent, args, &config, tracing.clone()));
    let stop = runtime.block_on(async {
        let connection = host.connect(None, &policy).await.map_err(|problem| anyhow!("{problem}"))?;
        if let Some(problem) = &connection.missing {
            bail!("{problem}");
        }
        wait_until_free(&connection, host.as_ref(), thread).await?;
        let mut metadata = host.metadata(policy.mode());
        // A thread keeps the directory in which it was started.
        metadata.remove("root");
        let input = match task.is_empty() {
            true => RunInput::resume(thread),
            false => {
                let typed = slash::Commands::of(connection.commands.clone()).read(&task)?;
                if typed.skill.is_some() {
                    slash::check_skill(typed.skill.as_ref(), &slash::skill_names(&connection.agent).await?)?;
                }
                slash::pin(RunInput::messages([Message::user(typed.text)]).thread(thread), typed.skill.as_ref())
            }
        };
        // From here on, a signal leaves a run that can be resumed.
        let mut signals = EndSignals::catch(Hangup::Ends)?;
        let run = connection.agent.run(input.note(metadata));
        let handle = run.handle();
        let watch = tokio::spawn(async move { signals.recv().await.stop(&handle, true) });
        let stop = match run.outcome().await {
            Ok(outcome) => Ok(outcome.stop),
            Err(error) if matches!(*error.error, Error::Left) => Ok(FinishReason::Suspended),
            Err(error) => Err(anyhow!("{}", host.explain_failure(&error))),
        };
        watch.abort();
        host.close(false).await;
        stop
    });
    runtime.block_on(tracing.finish());
    runtime.shutdown_background();
    let (words, exit) = told(args, thread, &stop);
    output::remark(&words);
    if let Some(command) = preferences.notifications.command {
        notify_user(&command, &words, thread, agent.directory());
    }
    Ok(exit)
}

/// Returns how a run ended, in words, and the exit code.
fn told(args: &InteractiveArgs, thread: &str, stop: &Result<FinishReason>) -> (String, Exit) {
    let short: String = thread.chars().take(8).collect();
    match stop {
        Ok(FinishReason::Interrupted) => (format!("{short} waits for your decision"), Exit::Done),
        Ok(FinishReason::Suspended) => {
            let command = again(args).command(&format!("deepagents --resume {short}"));
            (format!("{short} was stopped; go on with `{command}`"), Exit::Done)
        }
        Ok(reason) => (format!("{short} is done: {}", reason.reason()), Exit::Done),
        Err(error) => (format!("{short} failed: {error}"), Exit::Failed),
    }
}

/// Waits until no live process works on a thread.
async fn wait_until_free(connection: &Connection, host: &ProgramHost, thread: &str) -> Result<()> {
    let end = tokio::time::Instant::now() + THREAD_TIMEOUT;
    loop {
        let info = connection.journal.threads().get(thread).await?;
        match info.filter(|info| info.owner.is_some() && !host.is_gone(info)) {
            None => return Ok(()),
            Some(_) if tokio::time::Instant::now() > end => bail!("another program is working on thread {thread}"),
            Some(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Runs the user's notification command.
fn notify_user(command: &str, message: &str, thread: &str, directory: &Path) {
    let told = json!({"event": "notification", "message": message, "thread": thread, "directory": directory});
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::null());
    let ran = shell.spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // The command need not read its stdin.
            let _ = stdin.write_all(told.to_string().as_bytes());
        }
        child.wait()
    });
    if let Err(error) = ran {
        output::print_error(&format!("notify.command cannot be run: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_process_gets_only_the_agents_options() {
        let kept = |words: &str, without_model| -> Vec<String> {
            let words = ["deepagents"].into_iter().chain(words.split(' ')).map(OsString::from);
            let kept = agent_options(words, without_model).unwrap();
            kept.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(kept("--root a --resume 1 --approve=auto --detach task --no-mcp", false), ["--root=a", "--no-mcp"]);
        assert_eq!(kept("attach 12 --model m --continue --base-url=u", true), Vec::<String>::new());
        assert_eq!(kept("--model=m --base-url u --detach", false), ["--model=m", "--base-url=u"]);
        // The words of the command line are told apart by what they mean.
        assert_eq!(kept("--root attach --detach task", false), ["--root=attach"]);
        assert_eq!(kept("attach --no-mcp 12 --db a", false), ["--no-mcp", "--db=a"]);
        assert_eq!(
            kept("--env A=1 --env B --redact email,ip", false),
            ["--env=A=1", "--env=B", "--redact=email", "--redact=ip"]
        );
    }
}
