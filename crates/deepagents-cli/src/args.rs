//! The command line.

mod acp;
mod commands;
mod config;
mod hooks;
mod import;
mod interactive;
mod mcp;
mod permissions;
mod redact;
mod serve;
mod threads;
mod trust;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::render::escaped;
use crate::{duration, money, output};
pub(crate) use acp::AcpArgs;
pub(crate) use commands::{CommandArgs, SandboxMode, variable};
pub(crate) use config::{AuthArgs, AuthCommand, ConfigArgs, ConfigCommand};
pub(crate) use hooks::{HooksArgs, HooksCommand};
pub(crate) use import::ImportArgs;
pub(crate) use interactive::{AttachArgs, InteractiveArgs, ScreenMode};
pub(crate) use mcp::{McpAddArgs, McpArgs, McpCommand, McpServeArgs, McpSources, Scope};
pub(crate) use permissions::{PermissionsArgs, PermissionsCommand};
pub(crate) use redact::{RedactedKind, redaction};
pub(crate) use serve::ServeArgs;
pub(crate) use threads::{Conflicts, RewindFiles, ThreadsArgs, ThreadsCommand};
pub(crate) use trust::{TrustArgs, TrustCommand};

const EXAMPLES: &str = "\
Examples:
  deepagents                                        talk with an agent that works in this directory
  deepagents --continue                             go on with the last talk here
  deepagents demo                                   see an agent work, without a key
  deepagents run \"Summarise the notes in this directory in summary.md\"
  git diff | deepagents run --system \"Review this change\" -q
  deepagents run --continue \"And now the rest\"      go on where the last run here ended
  deepagents threads list                           what was said in earlier runs
  deepagents doctor                                 what works on this machine, and what does not

Exit codes: 0 done, 1 failed or unfinished, 2 wrong usage, 124 out of time, 130 interrupted, 141 output closed.";

const RUN_EXAMPLES: &str = "\
Examples:
  deepagents run \"Find the three largest functions and list them in report.md\"
  deepagents run --root ./docs --model openai:gpt-5.2 \"Fix the typos\"
  deepagents run --base-url http://localhost:8080/v1 --model my-model \"Say hello\"
  deepagents run -q --timeout 1m30s \"What does this project do?\" > answer.txt
  deepagents run --json \"Tidy up the notes\" | jq -c 'select(.type == \"tool_finished\")'
  cat task.md | deepagents run

Ctrl-C ends the run cleanly, a second one quits at once.
Exit codes: 0 done, 1 failed or unfinished, 2 wrong usage, 124 out of time, 130 interrupted, 141 output closed.";

/// Agents that plan, work with files, and say what they do.
#[derive(Debug, Parser)]
#[command(name = "deepagents", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
// Of the commands below, those that keep threads have it themselves.
#[command(mut_arg("db", |db| db.global(false)))]
pub(crate) struct Cli {
    /// What is done; without it the screens are shown
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) interactive: InteractiveArgs,
}

impl Cli {
    /// Reads the command line; what is wrong with it ends the program.
    pub(crate) fn read() -> Self {
        let mut cli = Self::try_parse().unwrap_or_else(|error| end(&with_tip(error)));
        if let Some(Command::Mcp(args)) = &mut cli.command
            && let McpCommand::Add(args) = &mut args.command
            && let Err(error) = args.read_behind_address()
        {
            end(&error);
        }
        let (name, idle) = match &cli.command {
            Some(Command::Run(args)) => (
                "run",
                args.agent.commands.idle_option(args.agent.commands.are_run()).or_else(|| {
                    let judged = args.approve == Some(Approve::AllowList) && args.agent.commands.session().is_some();
                    let told_twice = args.input_format == InputFormat::StreamJson && args.task.is_some();
                    judged
                        .then(|| SESSION_AND_LIST.to_owned())
                        .or_else(|| told_twice.then(|| TASK_AND_LINES.to_owned()))
                }),
            ),
            Some(Command::Explain(args)) => ("explain", args.agent.commands.idle_option(args.agent.commands.are_run())),
            Some(Command::Tools(args)) => ("tools", args.commands.idle_option(args.backend == BackendKind::Local)),
            _ => ("", None),
        };
        if let Some(problem) = idle {
            let mut all = Self::command();
            all.build();
            let own = all.find_subcommand(name).cloned();
            end(&own.unwrap_or(all).error(ErrorKind::ArgumentConflict, problem));
        }
        cli
    }
}

/// Says what is wrong with the command line, or what it asked for, and ends the program. What an argument hides is not repeated.
fn end(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if error.use_stderr() && std::env::args_os().any(|arg| escaped(&arg.to_string_lossy()) != arg.to_string_lossy()) {
        output::say(text.trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Why two options do not go together.
const SESSION_AND_LIST: &str = "--shell-session cannot be used with --approve allow-list: what was allowed is a command as it is \
     written, which in a shell that goes on may mean something else";

/// Why a task and turns on stdin do not go together.
const TASK_AND_LINES: &str =
    "with --input-format stream-json messages are lines on stdin: give no task on the command line";

/// Says where an option belongs that stands before a subcommand instead of behind it.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(subcommand)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(ContextValue::String(option)) = error.get(ContextKind::PriorArg)
        && error.kind() == ErrorKind::ArgumentConflict
    {
        let tip = format!("options stand behind the subcommand: `deepagents {subcommand} {option}`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give an agent a task and watch it work
    Run(Box<RunArgs>),
    /// Show a thread that another program works on, or has worked on
    Attach(Box<AttachArgs>),
    /// Be the agent of an editor: the Agent Client Protocol on stdin and stdout
    Acp(Box<AcpArgs>),
    /// Watch an agent at work without a key: a script plays the model's part
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
    /// Look at, add, remove, try and log in to MCP servers, and be one
    Mcp(Box<McpArgs>),
    /// Show what directories bring that steers the agent, and what you have agreed to
    Trust(TrustArgs),
    /// Show what you always allowed, and take it back
    Permissions(PermissionsArgs),
    /// Make tool calls by hand: calls as lines of JSON in, results as lines of JSON out
    Tools(ToolsArgs),
    /// Play a recorded run again, without its model, its tools and a network
    Replay(ReplayArgs),
    /// Take over what was made for Claude Code or as agent.json
    Import(ImportArgs),
    /// Show and change settings
    Config(ConfigArgs),
    /// Keep the keys of providers
    Auth(AuthArgs),
    /// Say what this machine has: sandbox, keys, model, threads
    Doctor(DoctorArgs),
    /// Print a script that lets your shell complete commands and options
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The task; read from stdin where it is absent or `-`
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// What is done before files are changed and commands are run [default: auto, or what a thread that is gone on with had]
    ///
    /// In every mode but deny you are asked about what steers the agent, such as AGENTS.md; where nobody can be asked it is
    /// refused. What you always allowed is done without asking; `deepagents permissions` shows it and takes it back.
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Agent")]
    pub(crate) approve: Option<Approve>,

    /// What the result is judged by: the agent goes on until it is met, three times at most
    ///
    /// A run whose goal is not met in the end fails.
    #[arg(long, value_name = "TEXT", conflicts_with = "record", help_heading = "Agent")]
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

/// Where threads are kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct Database {
    /// The file that threads are kept in [default: ~/.deepagents/threads.db]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Threads")]
    pub(crate) db: Option<PathBuf>,
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effort {
    /// A quick answer
    Low,
    /// Between the two
    Medium,
    /// A slow and careful one
    High,
}

/// What an agent is made of.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentArgs {
    /// The model, such as anthropic:claude-sonnet-4-5
    ///
    /// Without it the variable DEEPAGENTS_MODEL decides, and without that the first provider whose key is in the
    /// environment, in the order that `deepagents models` shows.
    #[arg(long, value_name = "PROVIDER:MODEL", help_heading = "Model")]
    pub(crate) model: Option<String>,

    /// How much the model thinks before it answers [default: as the model does by itself]
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Model")]
    pub(crate) effort: Option<Effort>,

    /// The address of the model's server, such as http://localhost:8080/v1
    ///
    /// It takes the place of the provider's usual one. With a bare model name it is a server that speaks OpenAI's Chat
    /// Completions; a key for it is optional and read from DEEPAGENTS_API_KEY.
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub(crate) base_url: Option<String>,

    /// What the agent is told to be and do: a text, or @FILE to read it from a file
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "Agent")]
    pub(crate) system: Option<String>,

    /// The directory that the agent may read and change; it cannot leave it [default: the one you are in]
    ///
    /// A home directory, one above it and /tmp are taken only where they are named. The program's own files, such as
    /// ~/.deepagents, are out of reach wherever the directory is.
    #[arg(long, value_name = "DIR", help_heading = "Agent")]
    pub(crate) root: Option<PathBuf>,

    /// A header to send with every model call, as NAME:VALUE; may be repeated
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = header, help_heading = "Model")]
    pub(crate) headers: Vec<(String, String)>,

    /// How many tokens the model reads; asked of its server where nobody knows it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u64>, help_heading = "Model")]
    pub(crate) context_window: Option<u64>,

    /// The longest answer the model may give, in tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u64>, help_heading = "Model")]
    pub(crate) max_answer_tokens: Option<u64>,

    #[command(flatten)]
    pub(crate) commands: CommandArgs,

    /// A file of rules: what the agent may read, change and run, and what you are asked about
    ///
    /// A JSON list of rules about files, {"operations":["read","write"],"paths":["/docs/**"],"mode":"deny"}, and about
    /// commands, {"commands":["git push"],"mode":"ask"}. A mode is allow, deny or ask. The first rule about a path or a
    /// command decides; what none is about is allowed. A rule that can match nothing is an error.
    #[arg(long, value_name = "FILE", help_heading = "Agent")]
    pub(crate) rules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) mcp: McpSources,

    /// Leave out all MCP servers
    #[arg(long, conflicts_with_all = ["mcp_config", "trust_project_mcp"], help_heading = "MCP")]
    pub(crate) no_mcp: bool,

    /// Leave the tools of MCP servers out of requests until the model has looked for them
    ///
    /// It finds them by what they do, with the tool tool_search. Where they weigh no more than 1,500 tokens together they are all
    /// offered at once.
    #[arg(long, conflicts_with = "no_mcp", help_heading = "MCP")]
    pub(crate) tool_search: bool,

    /// Agree to what the directory brings that steers the agent: its AGENTS.md, and sub-agents, skills and notes in .deepagents
    ///
    /// Without it you are asked at a terminal, and elsewhere it is left out. What you agree to is remembered by directory
    /// and hash; `deepagents trust` shows it and takes it back.
    #[arg(long, help_heading = "Agent")]
    pub(crate) trust: bool,

    /// Leave out the sub-agents that files in .deepagents/agents define, there and in your home directory
    ///
    /// They take no part in a run that is recorded either.
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_agents: bool,

    /// Leave out the notes in AGENTS.md and .deepagents/AGENTS.md, and in ~/.deepagents/AGENTS.md
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_memory: bool,

    /// Leave out the skills in .deepagents/skills, there and in your home directory
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_skills: bool,

    /// Leave out the hooks in ~/.deepagents/hooks.json and .deepagents/hooks.json
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_hooks: bool,

    /// Let the agent fetch pages of the public web, and search it with Tavily where TAVILY_API_KEY is set
    ///
    /// Requests go out directly, to public addresses alone. Where approval is asked for, it is for each of them.
    #[arg(long, help_heading = "Agent")]
    pub(crate) web: bool,

    /// Hide what may be secret from the model, the thread and the screen: a mark is in its place; may be repeated
    ///
    /// It is hidden in what you say, in answers and in results of tools, so what the agent writes from what it has read has the
    /// marks too.
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',', help_heading = "Agent")]
    pub(crate) redact: Vec<RedactedKind>,

    /// Leave out the todo list
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_todos: bool,

    /// Fetch answers in one piece instead of streaming them
    #[arg(long, help_heading = "Model")]
    pub(crate) no_stream: bool,

    /// Make the calls that the model writes into its text, as small models do
    ///
    /// What counts is <tool_call>{…}</tool_call>, a fenced block of JSON, or an answer that is JSON alone, each with the name of
    /// a tool that is on offer.
    #[arg(long, help_heading = "Model")]
    pub(crate) text_tool_calls: bool,
}

impl AgentArgs {
    /// The directory that the agent works in.
    pub(crate) fn directory(&self) -> &Path {
        self.root.as_deref().unwrap_or(Path::new("."))
    }
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where to put the demo's files: a new or empty directory; one of its own by default
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Without the pauses that let a person follow
    #[arg(long)]
    pub(crate) fast: bool,

    /// Show it in a browser, with files that are kept in memory
    #[arg(long, conflicts_with = "dir")]
    pub(crate) web: bool,

    /// The address to listen on for the browser, of this machine alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = serve::address, requires = "web")]
    pub(crate) listen: std::net::SocketAddr,
}

/// As without options.
impl Default for DemoArgs {
    fn default() -> Self {
        Self { dir: None, fast: false, web: false, listen: (std::net::Ipv4Addr::LOCALHOST, 0).into() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// With the tools for sub-agents that it does not wait for
    #[arg(long, help_heading = "Agent")]
    pub(crate) background: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// Print all models whose names begin so
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const TOOLS_EXAMPLES: &str = "\
A call is {\"name\": TOOL, \"args\": {...}}, its result {\"text\": STRING, \"error\": BOOLEAN}; every line has its result,
in order. Files in state, and which files were read, are kept from line to line. Commands are run in the sandbox, unless
--sandbox says otherwise; with --backend state there are none.

Example:
  echo '{\"name\":\"ls\",\"args\":{\"path\":\"/\"}}' | deepagents tools --root .

Rules are a JSON list such as [{\"operations\":[\"write\"],\"paths\":[\"/docs/**\"],\"mode\":\"deny\"},
{\"commands\":[\"git push\"],\"mode\":\"deny\"}]; what a rule wants to be asked about is refused, as there is nobody to ask.
Rules about files bind commands too: what may not be read is hidden from them, what may not be written is read-only.";

#[derive(Debug, Args)]
#[command(after_help = TOOLS_EXAMPLES, mut_arg("execute", |execute| execute.hide(true)))]
pub(crate) struct ToolsArgs {
    /// The directory of the files; with --backend state they are copied from there and it is never changed
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    /// Where the files are
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t)]
    pub(crate) backend: BackendKind,

    /// A file of permission rules
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) commands: CommandArgs,

    /// Whether a file must have been read before it is changed
    #[arg(long, value_name = "ON|OFF", value_enum, default_value_t)]
    pub(crate) read_before_edit: Switch,
}

/// Where the files of `deepagents tools` are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendKind {
    /// In memory
    State,
    /// In the directory
    #[default]
    Local,
}

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes
    #[default]
    On,
    /// No
    Off,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  deepagents run --record run.jsonl \"Summarise the notes\"
  deepagents replay run.jsonl

The exit code is that of the recorded run. It is 1, and the first difference is told, where this program would do
something else than the one that was recorded; 1 as well where the recording ends before its run did.";

#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The recording
    pub(crate) file: PathBuf,

    /// Print the final answer alone: text for people, without control characters
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print every event as a line of JSON, and nothing else: for programs, texts are as they were recorded
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) database: Database,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  deepagents completions bash > ~/.local/share/bash-completion/completions/deepagents
  deepagents completions fish > ~/.config/fish/completions/deepagents.fish
  deepagents completions zsh > DIR/_deepagents      a directory of $fpath";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Reads a whole number of 1 or more.
fn positive<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let number = text.trim().parse::<N>().ok().filter(|number| *number >= N::from(1));
    number.ok_or_else(|| format!("`{text}` is no whole number from 1 on"))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as NAME:VALUE")?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err("it has no name; write it as NAME:VALUE".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_whole_numbers_from_1_on_are_positive() {
        assert_eq!((positive("1"), positive(" 70000 ")), (Ok(1_u32), Ok(70_000_u64)));
        for wrong in ["0", "-1", "1.5", "", "many", "99999999999"] {
            assert!(positive::<u32>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_is_split_at_its_first_colon() {
        assert_eq!(header("X-Url: http://a"), Ok(("X-Url".to_owned(), "http://a".to_owned())));
        assert!(header("nothing").is_err());
        assert!(header(": value").is_err());
    }
}
