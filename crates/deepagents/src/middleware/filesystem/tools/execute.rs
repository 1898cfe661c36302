//! `execute`, and the tools for background commands.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::tool::{ToolContext, ToolOutput};
use deepagents_fs::shell::{Command, CommandOutput, Exit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Answered, failed};
use crate::middleware::filesystem::{BackgroundCommands, Filesystem};

#[derive(Deserialize, JsonSchema)]
pub(super) struct ExecuteArgs {
    /// A shell command.
    command: String,
    /// Time limit in seconds.
    timeout: Option<u64>,
    /// Whether to run it in the background, if that is offered.
    #[schemars(skip)]
    background: Option<bool>,
    /// Whether to start a new session first, if commands share one.
    #[schemars(skip)]
    restart: Option<bool>,
}

/// The arguments of `execute` if commands share a shell.
#[derive(Deserialize, JsonSchema)]
pub(super) struct SessionArgs {
    /// A shell command.
    command: String,
    /// Time limit in seconds.
    timeout: Option<u64>,
    /// Begin a new shell first.
    restart: Option<bool>,
}

impl From<SessionArgs> for ExecuteArgs {
    fn from(args: SessionArgs) -> Self {
        Self { command: args.command, timeout: args.timeout, background: None, restart: args.restart }
    }
}

/// The arguments of `execute` if commands may run in the background.
#[derive(Deserialize, JsonSchema)]
pub(super) struct BackgroundArgs {
    /// A shell command.
    command: String,
    /// Time limit in seconds.
    timeout: Option<u64>,
    /// Run it in the background; the result is its id.
    background: Option<bool>,
}

impl From<BackgroundArgs> for ExecuteArgs {
    fn from(args: BackgroundArgs) -> Self {
        Self { command: args.command, timeout: args.timeout, background: args.background, restart: None }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct OutputArgs {
    /// The id of the command.
    id: String,
    /// Seconds to wait for its end, 0 by default.
    wait: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct StopArgs {
    /// The id of the command.
    id: String,
}

pub(super) async fn command_output(files: Arc<Filesystem>, args: OutputArgs, cx: ToolContext) -> Answered {
    let wait = Duration::from_secs(args.wait.unwrap_or(0).min(files.options.max_execute_seconds));
    report_command(&files, &args.id, wait, false, &cx).await
}

pub(super) async fn stop_command(files: Arc<Filesystem>, args: StopArgs, cx: ToolContext) -> Answered {
    report_command(&files, &args.id, Duration::ZERO, true, &cx).await
}

async fn report_command(files: &Filesystem, id: &str, wait: Duration, stop: bool, cx: &ToolContext) -> Answered {
    let report = files.running.report(files.options.background_commands, cx, id, wait, stop).await.map_err(failed)?;
    let dropped = match report.dropped {
        0 => String::new(),
        bytes => format!("[{bytes} bytes of earlier output are missing]\n"),
    };
    let output = format!("{dropped}{}", report.output);
    let outcome = match report.end {
        // Stopping it was the purpose of the call.
        Some(Ok(end)) if stop && end.exit == Exit::Cancelled => "was stopped",
        Some(Ok(mut end)) => {
            (end.output, end.dropped) = (output, 0);
            return Ok(show(&end));
        }
        Some(Err(error)) => return Err(failed(error)),
        None => "goes on",
    };
    Ok(ToolOutput::text(format!("{}\n[{id} {outcome}]", trimmed(&output, "(no new output)"))))
}

/// Returns output without the line breaks at its end, or a note that there is none.
fn trimmed<'a>(output: &'a str, none: &'a str) -> &'a str {
    match output.trim_end_matches('\n') {
        "" => none,
        output => output,
    }
}

pub(super) async fn execute(files: Arc<Filesystem>, args: ExecuteArgs, cx: ToolContext) -> Answered {
    let backend = files.workspace.backend_for(&cx);
    let Some(shell) = backend.shell() else {
        return Err(failed("this workspace runs no commands"));
    };
    let longest = files.options.max_execute_seconds;
    let mut command = Command::new(args.command);
    if let Some(seconds) = args.timeout {
        if seconds > longest {
            return Err(failed(format!("a command may run {longest} seconds at most, not {seconds}")));
        }
        command = command.timeout(Duration::from_secs(seconds));
    }
    if args.background.unwrap_or_default() {
        if files.options.background_commands == BackgroundCommands::Off {
            return Err(failed("commands cannot go on in the background here; run it without `background`"));
        }
        command = command.timeout(Duration::from_secs(args.timeout.unwrap_or(longest)));
        let mode = files.options.background_commands;
        let id = files.running.start(mode, &cx, backend.clone(), command).map_err(failed)?;
        return Ok(ToolOutput::text(format!("[{id} goes on in the background]")).with_artifact(json!({"id": id})));
    }
    let session = match &files.options.shell_session {
        Some(options) => {
            if args.restart.unwrap_or_default() {
                files.sessions.end(&cx);
            }
            let session = files.sessions.open(&cx, &*backend, options, Duration::from_secs(longest));
            Some(session.ok_or_else(|| failed(NO_SESSION))?)
        }
        None => None,
    };
    let shell = session.as_deref().unwrap_or(shell);
    let (pieces, mut from) = tokio::sync::mpsc::channel(16);
    let run = shell.run(command, cx.cancellation().clone(), Some(pieces));
    let tell = async {
        while let Some(piece) = from.recv().await {
            cx.progress(piece);
        }
    };
    let (executed, ()) = futures_util::future::join(run, tell).await;
    Ok(show(&executed.map_err(failed)?))
}

/// Error: commands cannot share a shell.
pub(crate) const NO_SESSION: &str = "commands cannot share a shell here: this workspace has none that keeps a session, or rules about commands judge \
     each of them by itself";

/// Returns how a command ended, and what it created at protected places. As usual, a negative exit code is the number
/// of a signal.
pub(in crate::middleware::filesystem) fn end_in_words(executed: &CommandOutput) -> String {
    let moved: String = executed.moved.iter().map(|moved| format!("; {moved}")).collect();
    exit_in_words(executed) + &moved
}

fn exit_in_words(executed: &CommandOutput) -> String {
    match executed.exit {
        Exit::Code(code) => format!("{EXIT_CODE}{code}"),
        Exit::TimedOut { after } => format!("{STOPPED}it ran longer than {} s", after.as_secs()),
        Exit::Cancelled => format!("{STOPPED}the run was cancelled"),
        Exit::OutOfSpace => format!("{STOPPED}it left too little space on the disk"),
        Exit::Signal(signal) => {
            let name = executed.exit.signal_name().map(|name| format!(" ({name})")).unwrap_or_default();
            format!("{EXIT_CODE}{}: ended by signal {signal}{name}", -signal)
        }
        _ => "it did not end by itself".to_owned(),
    }
}

/// Returns the failure that a command itself reported, from the text at the end of an `execute` result. For the model
/// this is not an error: it got what it asked for. Returns `None` if the command succeeded, or if the result is another
/// tool's.
///
/// ```
/// use deepagents::middleware::filesystem::exit_failure;
/// assert_eq!(exit_failure("execute", "no such file\n[exit code 2]"), Some("exit code 2"));
/// assert_eq!(exit_failure("execute", "fine\n[exit code 0]"), None);
/// assert_eq!(exit_failure("execute", "[exit code 1]\n[stopped: it ran longer than 5 s]"), None);
/// ```
pub fn exit_failure<'a>(tool: &str, result: &'a str) -> Option<&'a str> {
    // The preview of a long result has line numbers.
    let unnumbered = |line: &'a str| match line.split_once('\t') {
        Some((number, rest)) if number.trim().parse::<usize>().is_ok() => rest,
        _ => line,
    };
    let mut notes = result.lines().rev().map(unnumbered).map_while(|line| line.strip_prefix('['));
    // Text before the first such note is the command's own output.
    let end = notes.find(|note| note.starts_with(EXIT_CODE) || note.starts_with(STOPPED));
    let end = end.and_then(|end| end.strip_suffix(']')).filter(|end| end.starts_with(EXIT_CODE));
    let failed =
        |end: &&str| end.strip_prefix(EXIT_CODE).is_some_and(|code| code.split([':', ';']).next() != Some("0"));
    end.filter(failed).filter(|_| tool == "execute")
}

/// Prefix of the note about a command that ended by itself.
const EXIT_CODE: &str = "exit code ";
/// Prefix of the note about a command that was stopped.
const STOPPED: &str = "stopped: ";

/// Note for the model when the shell has ended.
const SESSION_ENDED: &str = "\n[the shell ended with it: its directory, variables and background jobs are gone; the next command begins a new one]";

/// Formats the output and outcome of a command. A command that reports failure is an ordinary result.
fn show(executed: &CommandOutput) -> ToolOutput {
    let output = trimmed(&executed.output, "(no output)");
    let code = match executed.exit {
        Exit::Code(code) => Some(code),
        Exit::Signal(signal) => Some(-signal),
        _ => None,
    };
    let end = end_in_words(executed);
    let dropped = match executed.dropped {
        0 => String::new(),
        bytes => format!("\n[{bytes} bytes of output are missing]"),
    };
    let refused = match executed.refused.join(", ") {
        hosts if hosts.is_empty() => hosts,
        hosts => format!("\n[refused, since commands may not reach it: {hosts}]"),
    };
    let earlier = match executed.session.earlier_output.trim_end_matches('\n') {
        "" => String::new(),
        earlier => format!("[printed in the background since the last command]\n{earlier}\n[printed by this one]\n"),
    };
    let began = if executed.session.began { "\n[a new shell began with this command]" } else { "" };
    let ended = match executed.session.ended_for.join(", ") {
        _ if !executed.session.ended => String::new(),
        made if made.is_empty() => SESSION_ENDED.to_owned(),
        made => format!("\n[{made} is protected from now on]{SESSION_ENDED}"),
    };
    let artifact = json!({"exit_code": code, "truncated": executed.truncated(), "sandbox": executed.level.to_string()});
    let shown =
        ToolOutput::text(format!("{earlier}{output}{dropped}{refused}\n[{end}]{began}{ended}")).with_artifact(artifact);
    if code.is_none() { shown.as_error() } else { shown }
}
