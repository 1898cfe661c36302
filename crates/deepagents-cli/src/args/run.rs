//! The command line of `deepagents run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentArgs, Database, InteractiveArgs, ScreenMode, positive};
use crate::{duration, money};

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

Ctrl-C ends the run cleanly, a second one quits at once.
Exit codes: 0 done, 1 failed or unfinished, 2 wrong usage, 124 out of time, 130 interrupted, 141 output closed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The task; read from stdin where it is absent or `-`
    ///
    /// `/NAME WORDS` is the command of `NAME.md` in .deepagents/commands, here or in your home directory, and `/skill:NAME
    /// WORDS` has that skill used. What begins with a slash and names no command is a task as it stands.
    ///
    /// What is piped in beside a task stands below it, unless stdin is for answers: text, 1 MiB at most, that is there when
    /// the run begins (see --stdin). In a loop that reads a file say `< /dev/null`.
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// What is done before files are changed and commands are run [default: auto, or what a thread that is gone on with had]
    ///
    /// In every mode but deny you are asked about what steers the agent, such as AGENTS.md; where nobody can be asked it is
    /// refused. What you always allowed is done without asking; `deepagents permissions` shows it and takes it back.
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Agent")]
    pub(crate) approve: Option<Approve>,

    /// The mode of the screens that it comes from, where it was said for them
    #[arg(skip)]
    pub(crate) screens: Option<ScreenMode>,

    /// What the result is judged by: the agent goes on until it is met, three times at most
    ///
    /// A run whose goal is not met in the end fails.
    #[arg(long, value_name = "TEXT", value_parser = goal, conflicts_with = "record", help_heading = "Agent")]
    pub(crate) goal: Option<String>,

    /// Go on with the thread that changed last in this directory: with a new task, or with what was left unfinished
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Threads")]
    pub(crate) go_on: bool,

    /// Go on with this thread, named by its id or the beginning of it: with a new task, or with what was left unfinished
    #[arg(long, value_name = "ID", help_heading = "Threads")]
    pub(crate) resume: Option<String>,

    /// Let the agent start sub-agents that it does not wait for
    ///
    /// What still works when the run ends is gone on with by --resume.
    #[arg(long, conflicts_with = "record", help_heading = "Agent")]
    pub(crate) background: bool,

    /// Wait for what was started in the background, and go on with what comes of it
    #[arg(long, help_heading = "Agent")]
    pub(crate) wait_background: bool,

    #[command(flatten)]
    pub(crate) database: Database,

    /// Keep nothing of the conversation
    #[arg(long, conflicts_with_all = ["db", "resume", "go_on"], help_heading = "Threads")]
    pub(crate) no_save: bool,

    /// Write all that is said and done to a new file, to be played with `deepagents replay`
    ///
    /// It holds whole prompts and file contents, the notes and skills that the agent has among them, and no keys.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "go_on"], help_heading = "Threads")]
    pub(crate) record: Option<PathBuf>,

    /// Write what was done when to a new file: spans as lines of OTLP JSON, without what was said
    ///
    /// Traces go to a receiver too where the variables of OpenTelemetry name one, such as OTEL_EXPORTER_OTLP_ENDPOINT.
    #[arg(long, value_name = "FILE", help_heading = "Threads")]
    pub(crate) trace: Option<PathBuf>,

    /// End after so many calls of models, those of sub-agents included
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u32>, help_heading = "Limits")]
    pub(crate) max_turns: Option<u32>,

    /// End after so many tokens of prompts and answers, those of sub-agents included
    ///
    /// What is under way then is finished, so it may come to somewhat more.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u64>, help_heading = "Limits")]
    pub(crate) max_tokens: Option<u64>,

    /// End once the model calls, those of sub-agents included, have cost so many US dollars at list prices
    ///
    /// What is under way then is finished, so it may come to somewhat more. A model whose price is not known is refused.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = money::parse, help_heading = "Limits")]
    pub(crate) max_cost: Option<f64>,

    /// End after this time: seconds, or as in 1m30s
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = duration::parse, help_heading = "Limits")]
    pub(crate) timeout: Option<Duration>,

    /// Print the final answer alone: text for people, without control characters
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print every event as a line of JSON, and nothing else: for programs, texts are as the model and files have them
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    /// Have the answer in the shape of this JSON Schema, and print it alone, as JSON
    ///
    /// With --json it is the value of the channel `structured_response` in an event `state_changed`.
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub(crate) json_schema: Option<PathBuf>,

    /// Wait for what is piped in beside a task, however long it takes to come
    #[arg(long, conflicts_with = "input_format")]
    pub(crate) stdin: bool,

    /// What stdin holds: the task, or messages, answers and interrupts as lines of JSON, turn after turn
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, requires_if("stream-json", "json"))]
    pub(crate) input_format: InputFormat,
}

/// What stdin holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// The task
    #[default]
    Text,
    /// Lines of JSON
    StreamJson,
}

impl RunArgs {
    /// Whether an earlier thread is gone on with.
    pub(crate) fn resumes(&self) -> bool {
        self.go_on || self.resume.is_some()
    }

    /// What the screens were to be shown for, where there is no terminal: a run that nobody is asked in. What only screens
    /// use is left out.
    pub(crate) fn without_screens(args: &InteractiveArgs, task: Option<String>) -> Self {
        let in_session = args.agent.commands.session().is_some();
        let approve = args.approve.map(|mode| match mode {
            // In a shell that goes on, what was allowed may mean something else.
            ScreenMode::Ask if in_session => Approve::Deny,
            ScreenMode::Ask => Approve::AllowList,
            ScreenMode::Auto => Approve::Auto,
            ScreenMode::Plan => Approve::Deny,
        });
        Self {
            task,
            agent: args.agent.clone(),
            approve,
            screens: args.approve,
            goal: None,
            go_on: args.go_on,
            resume: args.resume.clone(),
            background: args.background,
            wait_background: false,
            database: args.database.clone(),
            no_save: false,
            record: None,
            trace: None,
            max_turns: None,
            max_tokens: None,
            max_cost: None,
            timeout: None,
            quiet: false,
            json: false,
            json_schema: None,
            stdin: false,
            input_format: InputFormat::Text,
        }
    }
}

/// What is done before a call that changes something. It is kept with the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Approve {
    /// You are asked at the terminal; with --json the answers are lines on stdin
    Ask,
    /// Nothing: it is done, commands in the sandbox
    #[default]
    Auto,
    /// What you always allowed is done, the rest is refused
    AllowList,
    /// It is refused
    Deny,
}

/// A goal that says something.
fn goal(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty; say what the result has to meet".to_owned());
    }
    Ok(text.to_owned())
}
