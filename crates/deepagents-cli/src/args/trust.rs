//! The command line of `deepagents trust`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  deepagents trust show                       what this directory brings, with its contents
  deepagents trust list                       what you have agreed to
  deepagents trust revoke . --source reviewer

What a directory brings is its AGENTS.md, the sub-agents, skills, notes and hooks in its .deepagents, and the servers of its
.mcp.json, with what their tools say. None of it is used before you agree: `deepagents run` asks at a terminal, and elsewhere
leaves it out without --trust. What you agreed to is remembered by directory and hash in ~/.deepagents/trust.json, so what
changes is asked about again.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    pub(crate) command: TrustCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List what you have agreed to and what you have refused, by directory
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a directory brings: source, hash and contents
    Show {
        /// The directory
        #[arg(default_value = ".")]
        root: PathBuf,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget your decisions about a directory, so that you are asked again
    Revoke {
        /// The directory
        #[arg(default_value = ".")]
        root: PathBuf,

        /// Only the items with this source or name
        #[arg(long, value_name = "SOURCE|NAME")]
        source: Option<String>,

        /// All directories
        #[arg(long, conflicts_with = "root")]
        all: bool,
    },
}
