//! What the screens are told on the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{AgentArgs, Approve, Database};

/// Which thread `attach` shows.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The thread, named by its id or the beginning of it
    pub(crate) thread: String,

    #[command(flatten)]
    pub(crate) options: InteractiveArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct InteractiveArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// What happens before something is changed; Shift+Tab changes it later
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Agent")]
    pub(crate) approve: Option<ScreenMode>,

    /// Let the agent start sub-agents that it does not wait for; /tree shows them
    #[arg(long, conflicts_with = "detach", help_heading = "Agent")]
    pub(crate) background: bool,

    /// Go on with the thread that changed last in this directory
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Threads")]
    pub(crate) go_on: bool,

    /// Go on with this thread, named by its id or the beginning of it
    #[arg(long, value_name = "ID", help_heading = "Threads")]
    pub(crate) resume: Option<String>,

    /// Work on this task in the background, or on what --resume and --continue name, and leave the terminal
    ///
    /// What waits for a decision then is asked by `deepagents attach`.
    #[arg(long, value_name = "TASK", num_args = 0..=1, default_missing_value = "", help_heading = "Threads")]
    pub(crate) detach: Option<String>,

    /// Work on this thread without a terminal, with the task on stdin
    #[arg(long, value_name = "ID", hide = true)]
    pub(crate) worker: Option<String>,

    #[command(flatten)]
    pub(crate) database: Database,

    /// The colours: dark, light, contrast, ansi, terminal, plain, or one of your own in ~/.deepagents/themes
    #[arg(long, value_name = "NAME")]
    pub(crate) theme: Option<String>,

    /// A file that earlier messages are kept in [default: ~/.deepagents/history.jsonl]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
}

/// What happens before a call that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScreenMode {
    /// You are asked
    Ask,
    /// It is done; commands only in a sandbox
    Auto,
    /// It is refused: the agent reads and plans
    Plan,
}

impl From<deepagents_tui::Mode> for Approve {
    /// The mode as threads note it: a plan changes nothing.
    fn from(mode: deepagents_tui::Mode) -> Self {
        match mode {
            deepagents_tui::Mode::Ask => Self::Ask,
            deepagents_tui::Mode::Auto => Self::Auto,
            deepagents_tui::Mode::Plan => Self::Deny,
        }
    }
}

impl From<ScreenMode> for deepagents_tui::Mode {
    fn from(mode: ScreenMode) -> Self {
        match mode {
            ScreenMode::Ask => Self::Ask,
            ScreenMode::Auto => Self::Auto,
            ScreenMode::Plan => Self::Plan,
        }
    }
}
