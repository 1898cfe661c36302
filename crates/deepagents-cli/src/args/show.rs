//! The command lines of commands that only print: what an agent is made of, models, the state of this machine,
//! completions.

use clap::Args;

use super::{AgentArgs, Database};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// Include the tools for background sub-agents
    #[arg(long, help_heading = "Agent")]
    pub(crate) background: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// Print only the models whose names begin with this, such as claude-sonnet or openai:gpt-5, or those of a provider
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
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
