//! The command line of `deepagents run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use deepagents_tui::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentArgs, Database, InteractiveArgs, positive};
use crate::{duration, money};

/// What happens at a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtLimit {
    /// The run ends
    #[default]
    End,
    /// The model answers with what it has
    Answer,
}

const EXAMPLES: &str = "\
Examples:
  deepagents run \"Find the three largest functions and list them in report.md\"
  deepagents run --root ./docs --model openai:gpt-5.2 \"Fix the typos\"
  deepagents run --base-url http://localhost:8080/v1 --model my-model \"Say hello\"
  deepagents run -q --timeout 1m30s \"What does this project do?\" > answer.txt
  deepagents run --json \"Tidy up the notes\" | jq -c 'select(.type == \"tool_finished\")'
  cat task.md | deepagents run
  git diff | deepagents run -q \"Review this change\"
  cargo test 2>&1 | deepagents run --stdin \"Why does this fail?\"
  deepagents run \"/fix 42\"                     # the command of .deepagents/commands/fix.md
  deepagents run \"/skill:pdf Read the report\"

Ctrl-C ends the run cleanly; a second one quits at once.
Exit codes: 0 done, 1 failed or unfinished, 2 wrong usage, 124 out of time, 130 interrupted, 141 output closed.";

#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The task; read from stdin if absent or `-`
    ///
    /// `/NAME WORDS` is the command of `NAME.md` in .deepagents/commands, here or in your home directory, and
    /// `/skill:NAME WORDS` uses that skill. A text that begins with a slash and names no command is an ordinary task.
    ///
    /// Text piped in beside a task is appended to it, unless stdin is for answers: at most 1 MiB, and only what is
    /// there when the run begins (see --stdin). In a loop that reads a file, use `< /dev/null`.
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// What happens before files are changed and commands are run [default: auto, or the mode of a resumed thread]
    ///
    /// In every mode but deny you are asked about what steers the agent, such as AGENTS.md; if nobody can be asked, it
    /// is refused. What you have always allowed is done without asking; `deepagents permissions` shows and revokes it.
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Agent")]
    pub(crate) approve: Option<Approve>,

    /// The mode of the screens that the run replaces, if one was given
    #[arg(skip)]
    pub(crate) screens: Option<Mode>,

    /// What the result is judged by: the agent continues until it is met, three times at most
    ///
    /// The run fails if the goal is not met in the end.
    #[arg(long, value_name = "TEXT", value_parser = goal, conflicts_with = "record", help_heading = "Agent")]
    pub(crate) goal: Option<String>,

    /// Resume the most recently changed thread in this directory: with a new task, or with its unfinished work
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Threads")]
    pub(crate) go_on: bool,

    /// Resume this thread, named by its ID or the beginning of it: with a new task, or with its unfinished work
    #[arg(long, value_name = "ID", help_heading = "Threads")]
    pub(crate) resume: Option<String>,

    /// Let the agent start sub-agents in the background
    ///
    /// --resume continues those still working when the run ends.
    #[arg(long, conflicts_with = "record", help_heading = "Agent")]
    pub(crate) background: bool,

    /// Wait for background sub-agents, and continue with their results
    #[arg(long, help_heading = "Agent")]
    pub(crate) wait_background: bool,

    #[command(flatten)]
    pub(crate) database: Database,

    /// Do not save the conversation
    #[arg(long, conflicts_with_all = ["db", "resume", "go_on"], help_heading = "Threads")]
    pub(crate) no_save: bool,

    /// Record everything that is said and done to a new file, for `deepagents replay`
    ///
    /// The file contains whole prompts and file contents, including the agent's notes and skills, but no keys.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "go_on"], help_heading = "Threads")]
    pub(crate) record: Option<PathBuf>,

    /// Write a trace to a new file: spans as lines of OTLP JSON, without the conversation
    ///
    /// Traces also go to a receiver if the OpenTelemetry variables name one, such as OTEL_EXPORTER_OTLP_ENDPOINT.
    #[arg(long, value_name = "FILE", help_heading = "Threads")]
    pub(crate) trace: Option<PathBuf>,

    /// End after this many model calls, those of sub-agents included
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u32>, help_heading = "Limits")]
    pub(crate) max_turns: Option<u32>,

    /// End after this many tokens of prompts and answers, those of sub-agents included
    ///
    /// Work in progress is finished, so it may come to somewhat more.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u64>, help_heading = "Limits")]
    pub(crate) max_tokens: Option<u64>,

    /// End once the model calls, those of sub-agents included, have cost this many US dollars at list prices
    ///
    /// Work in progress is finished, so it may come to somewhat more. A model without a known price is refused.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = money::parse, help_heading = "Limits")]
    pub(crate) max_cost: Option<f64>,

    /// What happens at these limits: the run ends, or the last model call that they allow is an answer without tools
    ///
    /// Either way the exit code says that the run reached its limit. At --timeout it ends at once.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = "Limits")]
    pub(crate) at_limit: AtLimit,

    /// End after this time: seconds, or as in 1m30s
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = duration::parse, help_heading = "Limits")]
    pub(crate) timeout: Option<Duration>,

    /// Print only the final answer: text for people, without control characters
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print every event as a line of JSON, and nothing else: for programs, with texts as the model and files have them
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Require an answer that matches this JSON Schema, and print only that, as JSON
    ///
    /// With --json, it is the value of the channel `structured_response` in an event `state_changed`.
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub(crate) json_schema: Option<PathBuf>,

    /// Wait for the text piped in beside a task, however long it takes
    #[arg(long, conflicts_with = "input_format")]
    pub(crate) stdin: bool,

    /// What stdin contains: the task, or messages, answers and interrupts as lines of JSON, turn after turn
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, requires_if("stream-json", "json"))]
    pub(crate) input_format: InputFormat,
}

/// What stdin contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// The task
    #[default]
    Text,
    /// Lines of JSON
    StreamJson,
}

impl RunArgs {
    /// Whether an earlier thread is resumed.
    pub(crate) fn resumes(&self) -> bool {
        self.go_on || self.resume.is_some()
    }

    /// Returns a run that replaces the screens if there is no terminal and nobody can be asked. Options that only the
    /// screens use are dropped.
    pub(crate) fn without_screens(args: &InteractiveArgs, task: Option<String>) -> Self {
        let in_session = args.agent.commands.shell_session;
        let approve = args.approve.map(|mode| match mode {
            // In a shared shell, an allowed command may mean something else.
            Mode::Ask if in_session => Approve::Deny,
            Mode::Ask => Approve::AllowList,
            Mode::Auto => Approve::Auto,
            Mode::Plan => Approve::Deny,
        });
        Self {
            task,
            agent: args.agent.clone(),
            approve,
            screens: args.approve,
            go_on: args.go_on,
            resume: args.resume.clone(),
            background: args.background,
            database: args.database.clone(),
            ..Self::default()
        }
    }
}

/// What happens before a call that changes something. It is stored with the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Approve {
    /// You are asked at the terminal; with --json the answers are lines on stdin
    Ask,
    /// It is done, with commands in the sandbox
    #[default]
    Auto,
    /// What you have always allowed is done, the rest is refused
    AllowList,
    /// It is refused
    Deny,
}

/// Parses a goal, which must not be blank.
fn goal(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty; say what the result must achieve".to_owned());
    }
    Ok(text.to_owned())
}
