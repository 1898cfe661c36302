//! The command line of `deepagents permissions`.

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  deepagents permissions list
  deepagents permissions remove 3

A rule is made when you answer [a]lways to a question of `deepagents run`. It covers the call that was shown and no other: all of
its arguments, or for write_file, edit_file and delete the path. Rules are remembered in ~/.deepagents/permissions.json.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct PermissionsArgs {
    #[command(subcommand)]
    pub(crate) command: PermissionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// List what you have always allowed, and where it holds
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove rules, so that you are asked again
    #[command(override_usage = "deepagents permissions remove <NUMBER>...\n       deepagents permissions remove --all")]
    Remove {
        /// Numbers that `list` shows
        #[arg(value_name = "NUMBER", required_unless_present = "all", value_parser = number)]
        ids: Vec<u64>,

        /// All of them
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

fn number(text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a number; `deepagents permissions list` numbers the rules"))
}
