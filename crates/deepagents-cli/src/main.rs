//! The `deepagents` program.

mod agent;
mod args;
mod completions;
mod demo;
mod doctor;
mod duration;
mod exit;
mod explain;
mod interactive;
mod model_choice;
mod models;
mod money;
mod output;
mod proxy;
mod render;
mod replay;
mod run;
mod runtime;
mod sources;
mod threads;
mod tools;
mod trust;

use std::process::ExitCode;

use args::{Cli, Command};

fn main() -> ExitCode {
    // This program is its own sandbox helper, which takes it before anything else happens.
    deepagents::fs::sandbox::init();
    let cli = Cli::read();
    let Some(command) = cli.command else { return interactive::interactive(&cli.interactive) };
    let result = match command {
        Command::Run(args) => run::run(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Models(args) => models::models(&args),
        Command::Tools(args) => tools::tools(&args),
        Command::Trust(args) => trust::trust(&args),
        Command::Threads(args) => threads::threads(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions(args) => completions::completions(&args),
    };
    exit::code(result)
}
