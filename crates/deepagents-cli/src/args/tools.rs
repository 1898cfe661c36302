//! The command line of `deepagents tools`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::CommandArgs;

const EXAMPLES: &str = "\
A call is {\"name\": TOOL, \"args\": {...}}, its result {\"text\": STRING, \"error\": BOOLEAN}; every line has its result,
in order. Files in state, and which files were read, are kept from line to line. Commands are run in the sandbox, unless
--sandbox says otherwise; with --backend state there are none.

Example:
  echo '{\"name\":\"ls\",\"args\":{\"path\":\"/\"}}' | deepagents tools --root .

Rules are a JSON list such as [{\"operations\":[\"write\"],\"paths\":[\"/docs/**\"],\"mode\":\"deny\"},
{\"commands\":[\"git push\"],\"mode\":\"deny\"}]; calls that a rule would ask about are refused, as there is nobody to ask.
Rules about files bind commands too: what may not be read is hidden from them, what may not be written is read-only.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("execute", |execute| execute.hide(true)))]
pub(crate) struct ToolsArgs {
    /// The directory of the files; --backend state works on a copy and never changes it
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

    /// Whether a file must be read before it is changed
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
