//! The command line.

mod acp;
mod agent;
mod commands;
mod config;
mod demo;
mod edit_tool;
mod hooks;
mod import;
mod interactive;
mod mcp;
mod permissions;
mod redact;
mod replay;
mod run;
mod serve;
mod show;
mod threads;
mod tools;
mod trust;

use std::io::{self, Write};
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::{self, Exit};
use crate::output;
use crate::render::escaped;
pub(crate) use acp::AcpArgs;
pub(crate) use agent::{AgentArgs, Effort};
pub(crate) use commands::{CommandArgs, SandboxMode, variable};
pub(crate) use config::{AuthArgs, AuthCommand, ConfigArgs, ConfigCommand};
pub(crate) use demo::DemoArgs;
pub(crate) use edit_tool::EditWith;
pub(crate) use hooks::{HooksArgs, HooksCommand};
pub(crate) use import::ImportArgs;
pub(crate) use interactive::{AttachArgs, InteractiveArgs, mode_of};
pub(crate) use mcp::{McpAddArgs, McpArgs, McpCommand, McpServeArgs, McpServerArgs, McpSources, Scope};
pub(crate) use permissions::{PermissionsArgs, PermissionsCommand};
pub(crate) use redact::{RedactedKind, hidden, redaction};
pub(crate) use replay::ReplayArgs;
pub(crate) use run::{Approve, AtLimit, InputFormat, RunArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use show::{CompletionsArgs, DoctorArgs, ExplainArgs, ModelsArgs};
pub(crate) use threads::{Conflicts, Database, RewindFiles, ThreadsArgs, ThreadsCommand};
pub(crate) use tools::{BackendKind, Switch, ToolsArgs};
pub(crate) use trust::{TrustArgs, TrustCommand};

const EXAMPLES: &str = "\
Examples:
  deepagents                                        talk to an agent that works in this directory
  deepagents --continue                             continue the last conversation here
  deepagents demo                                   see an agent work, without a key
  deepagents run \"Summarise the notes in this directory in summary.md\"
  git diff | deepagents run --system \"Review this change\" -q
  deepagents run --continue \"And now the rest\"      continue where the last run here ended
  deepagents threads list                           what was said in earlier runs
  deepagents doctor                                 what works on this machine, and what does not

Exit codes: 0 done, 1 failed or unfinished, 2 wrong usage, 124 out of time, 130 interrupted, 141 output closed.";

/// Agents that plan, work with files, and say what they do.
#[derive(Debug, Parser)]
#[command(name = "deepagents", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
// Subcommands that keep threads have their own `--db`.
#[command(mut_arg("db", |db| db.global(false)))]
pub(crate) struct Cli {
    /// The command to run; without one the screens start
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) interactive: InteractiveArgs,
}

impl Cli {
    /// Parses the command line; an error in it ends the program.
    pub(crate) fn read() -> Self {
        let mut cli = Self::try_parse().unwrap_or_else(|error| end(&with_tip(error)));
        if let Some(Command::Mcp(args)) = &mut cli.command
            && let McpCommand::Add(args) = &mut args.command
            && let Err(error) = args.read_behind_address()
        {
            end(&error);
        }
        let (name, conflict) = match &cli.command {
            Some(Command::Run(args)) => ("run", conflict_in_run(args)),
            Some(Command::Explain(args)) => ("explain", args.agent.commands.idle_option(args.agent.commands.are_run())),
            Some(Command::Tools(args)) => ("tools", args.commands.idle_option(args.backend == BackendKind::Local)),
            _ => ("", None),
        };
        if let Some(problem) = conflict {
            let mut all = Self::command();
            all.build();
            let own = all.find_subcommand(name).cloned();
            end(&own.unwrap_or(all).error(ErrorKind::ArgumentConflict, problem));
        }
        cli
    }
}

/// Returns an error message if options of `run` conflict in a way that their definition does not express.
fn conflict_in_run(args: &RunArgs) -> Option<String> {
    let commands = &args.agent.commands;
    let judged = args.approve == Some(Approve::AllowList) && commands.shell_session;
    let told_twice = args.input_format == InputFormat::StreamJson && args.task.is_some();
    commands
        .idle_option(commands.are_run())
        .or_else(|| judged.then(|| SESSION_AND_LIST.to_owned()))
        .or_else(|| told_twice.then(|| TASK_AND_LINES.to_owned()))
}

/// Prints the error in the command line, or the help or version it asked for, and ends the program. Control characters
/// in arguments are not echoed.
fn end(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if error.use_stderr() && std::env::args_os().any(|arg| escaped(&arg.to_string_lossy()) != arg.to_string_lossy()) {
        output::say(text.trim_end());
        std::process::exit(error.exit_code());
    }
    if !error.use_stderr() {
        // Like for all other output, a closed or failing stdout sets the exit code.
        let printed = error.print().and_then(|()| io::stdout().flush());
        let printed = printed.map(|()| Exit::Done).map_err(anyhow::Error::from);
        std::process::exit(exit::report(printed).number().into());
    }
    error.exit()
}

/// Why `--shell-session` conflicts with `--approve allow-list`.
const SESSION_AND_LIST: &str = "--shell-session cannot be used with --approve allow-list: a rule allows a command as written, \
     which may mean something else in a shell that keeps its state";

/// Why a task on the command line conflicts with messages on stdin.
const TASK_AND_LINES: &str =
    "with --input-format stream-json, messages are read from stdin: do not give a task on the command line";

/// Adds a tip: where an option before a subcommand belongs, or how to quote a task.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let task = match error.kind() {
        // A single word may be a misspelt subcommand; several words are not.
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand).filter(|given| given.contains(' ')),
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg)
            .filter(|given| !given.starts_with('-') && std::env::args_os().nth(1).is_some_and(|first| first == "run")),
        _ => None,
    };
    if task.is_some() {
        let tip = match error.kind() {
            ErrorKind::InvalidSubcommand => "to give a task, use `run`, as in `deepagents run \"Summarise README.md\"`",
            _ => "put the task in quotes, as in `deepagents run \"Summarise README.md\"`",
        };
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if let Some(ContextValue::String(subcommand)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(ContextValue::String(option)) = error.get(ContextKind::PriorArg)
        && error.kind() == ErrorKind::ArgumentConflict
    {
        let tip = format!("options go after the subcommand: `deepagents {subcommand} {option}`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give an agent a task and watch it work
    Run(Box<RunArgs>),
    /// Show a thread that another program is working on, or has worked on
    Attach(Box<AttachArgs>),
    /// Act as an editor's agent: the Agent Client Protocol on stdin and stdout
    Acp(Box<AcpArgs>),
    /// Watch an agent at work without a key: a script stands in for the model
    Demo(DemoArgs),
    /// Show what an agent is made of: prompt, tools, and what they cost
    Explain(Box<ExplainArgs>),
    /// List the hooks of a directory, and try them
    Hooks(HooksArgs),
    /// List providers, their keys and the models known by name
    Models(ModelsArgs),
    /// Look at, copy, rewind and delete the threads of earlier runs
    Threads(Box<ThreadsArgs>),
    /// Serve the agent over HTTP, for clients of the LangGraph server
    Serve(Box<ServeArgs>),
    /// List, add, remove, try and log in to MCP servers, or serve as one
    Mcp(Box<McpArgs>),
    /// Show what in a directory steers the agent, and what you have agreed to
    Trust(TrustArgs),
    /// Show what you have always allowed, and revoke it
    Permissions(PermissionsArgs),
    /// Make tool calls by hand: calls as lines of JSON in, results as lines of JSON out
    Tools(ToolsArgs),
    /// Replay a recorded run, without its model, its tools or the network
    Replay(ReplayArgs),
    /// Import what was made for Claude Code or as agent.json
    Import(ImportArgs),
    /// Show and change settings
    Config(ConfigArgs),
    /// Store the keys of providers
    Auth(AuthArgs),
    /// Report what this machine has: sandbox, keys, model, threads
    Doctor(DoctorArgs),
    /// Print a script with which your shell completes commands and options
    Completions(CompletionsArgs),
}

/// Parses a whole number of 1 or more.
fn positive<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let number = text.trim().parse::<N>().ok().filter(|number| *number >= N::from(1));
    number.ok_or_else(|| format!("`{text}` is not a whole number of 1 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_whole_numbers_from_one_up_are_accepted() {
        assert_eq!((positive("1"), positive(" 70000 ")), (Ok(1_u32), Ok(70_000_u64)));
        for wrong in ["0", "-1", "1.5", "", "many", "99999999999"] {
            assert!(positive::<u32>(wrong).is_err(), "{wrong}");
        }
    }
}
