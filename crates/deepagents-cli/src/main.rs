//! The `deepagents` program.

mod agent;
mod args;
mod demo;
mod duration;
mod exit;
mod explain;
mod model_choice;
mod models;
mod output;
mod proxy;
mod render;
mod run;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Models(args) => models::models(&args),
    };
    exit::code(result)
}
