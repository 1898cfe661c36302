//! `deepagents completions`.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::output;

/// Prints a script with which a shell completes the program's command line.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "deepagents", &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}
