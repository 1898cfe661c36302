//! The command line of `deepagents import`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
What is taken over: CLAUDE.md as AGENTS.md; .claude/agents, .claude/skills, .agents/skills, .claude/commands and the hooks of
.claude/settings.json into .deepagents; the layout with agent.json, skills and subagents. What is there stays as it is, no
link in the directory is written through, and nothing that is taken over is used before you agree to it (`deepagents trust show`).

Examples:
  deepagents import --dry-run                 what would be done in this directory
  deepagents import --user                    what is yours in ~/.claude, into ~/.deepagents";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The directory [default: the current directory]
    pub(crate) root: Option<PathBuf>,

    /// Import your own files, which apply to all directories
    #[arg(long, conflicts_with = "root")]
    pub(crate) user: bool,

    /// Only print what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
