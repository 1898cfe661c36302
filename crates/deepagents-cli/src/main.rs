//! The `deepagents` program.

mod acp;
mod again;
mod agent;
mod args;
mod auth;
mod browser;
mod cloud;
mod completions;
mod config;
mod context_files;
mod demo;
mod doctor;
mod duration;
mod effort;
mod exit;
mod explain;
mod file_commands;
mod front_matter;
mod hooks;
mod import;
mod interactive;
mod mcp;
mod model_choice;
mod models;
mod money;
mod output;
mod own_files;
mod permissions;
mod protected;
mod proxy;
mod render;
mod replay;
mod rules;
mod run;
mod runtime;
mod serve;
mod slash;
mod small_file;
mod stopping;
mod threads;
mod tools;
mod tracing;
mod trust;

use std::process::ExitCode;

use args::{Cli, Command};

#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // The program is its own sandbox helper; this must come before anything else.
    deepagents::fs::sandbox::init();
    let cli = Cli::read();
    let Some(command) = cli.command else { return interactive::interactive(&cli.interactive) };
    let result = match command {
        Command::Run(args) => run::run(&args),
        Command::Attach(args) => return interactive::attach(&args),
        Command::Acp(args) => acp::acp(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Hooks(args) => hooks::hooks(&args),
        Command::Models(args) => models::models(&args),
        Command::Tools(args) => tools::tools(&args),
        Command::Permissions(args) => permissions::permissions(&args),
        Command::Trust(args) => trust::trust(&args),
        Command::Threads(args) => threads::threads(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Mcp(args) => mcp::mcp(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Import(args) => import::import(&args),
        Command::Config(args) => config::config(&args),
        Command::Auth(args) => auth::auth(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions(args) => completions::completions(&args),
    };
    exit::code(result)
}
