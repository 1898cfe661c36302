//! The command line of `deepagents hooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  deepagents hooks list
  deepagents hooks test PreToolUse --input '{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"rm -rf build\"}}'

Hooks are commands that run at certain points of a run and can stop it from doing something. They are defined in
~/.deepagents/hooks.json, and in .deepagents/hooks.json of a directory once you have agreed to it; those of a directory run
in the sandbox.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    pub(crate) command: HooksCommand,

    /// The directory
    #[arg(long, value_name = "DIR", default_value = ".", global = true)]
    pub(crate) root: PathBuf,

    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// List the hooks that a run in the directory has
    List,
    /// Run the hooks of an event and show what they answer
    Test {
        /// The event, such as PreToolUse
        event: String,

        /// Additional input for the hooks: a JSON object, or @FILE to read it from a file
        #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
        input: String,
    },
}
