//! The command line of `deepagents acp`.

use clap::Args;

use super::{AgentArgs, Database};

const EXAMPLES: &str = "\
An editor starts this program and talks to it over stdin and stdout; it is not for use at a terminal. In Zed's settings:

  \"agent_servers\": { \"Deep Agents\": { \"type\": \"custom\", \"command\": \"deepagents\", \"args\": [\"acp\"] } }

A session is a thread, so `deepagents threads list` shows it and `deepagents run --resume ID` continues it. Files and
commands are those of the directory that the editor names: you are asked before a file is changed or a command is run,
unless the mode of the session says otherwise.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("root", |root| root.hide(true)), mut_arg("execute", |execute| execute.hide(true)))]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    #[command(flatten)]
    pub(crate) database: Database,
}
