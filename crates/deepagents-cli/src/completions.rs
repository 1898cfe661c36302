//! `deepagents completions`.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::{self, Exit};

/// Prints a script with which a shell completes the program's command line.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "deepagents", &mut script);
    exit::shown(String::from_utf8_lossy(&script).trim_end())
}
