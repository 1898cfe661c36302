//! The options of the screens.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{AgentArgs, Approve, Database};

/// The options of `attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The thread's ID or the beginning of it
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

    /// Let the agent start sub-agents in the background; /tree shows them
    #[arg(long, conflicts_with = "detach", help_heading = "Agent")]
    pub(crate) background: bool,

    /// Resume the most recently changed thread in this directory
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Threads")]
    pub(crate) go_on: bool,

    /// Resume this thread, named by its ID or the beginning of it
    #[arg(long, value_name = "ID", help_heading = "Threads")]
    pub(crate) resume: Option<String>,

    /// Work in the background on this task, or on the thread of --resume or --continue, and leave the terminal
    ///
    /// `deepagents attach` then asks what needs a decision.
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

    /// The file that stores earlier messages [default: ~/.deepagents/history.jsonl]
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
    /// It is refused: the agent only reads and plans
    Plan,
}

impl From<deepagents_tui::Mode> for Approve {
    /// Returns the mode as threads note it: plan mode denies changes.
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
