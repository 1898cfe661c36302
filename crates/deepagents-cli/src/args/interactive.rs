//! The options of the screens.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use deepagents_tui::Mode;

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
    #[arg(long, value_name = "HOW", value_parser = mode(), help_heading = "Agent")]
    pub(crate) approve: Option<Mode>,

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

/// The modes, and what happens in them before a call that changes something.
const MODES: [(Mode, &str); 3] = [
    (Mode::Ask, "You are asked"),
    (Mode::Auto, "It is done; commands only in a sandbox"),
    (Mode::Plan, "It is refused: the agent only reads and plans"),
];

/// Returns a parser of modes that describes them.
fn mode() -> impl TypedValueParser<Value = Mode> {
    let values = MODES.map(|(mode, about)| PossibleValue::new(mode.as_str()).help(about));
    PossibleValuesParser::new(values).map(|word| mode_of(&word).unwrap_or_default())
}

/// Returns the mode with this name.
pub(crate) fn mode_of(word: &str) -> Option<Mode> {
    MODES.iter().map(|(mode, _)| *mode).find(|mode| mode.as_str() == word)
}

impl From<Mode> for Approve {
    /// Returns the mode as threads note it: plan mode denies changes.
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Ask => Self::Ask,
            Mode::Auto => Self::Auto,
            Mode::Plan => Self::Deny,
        }
    }
}
