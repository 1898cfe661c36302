//! The files of a directory that must not be changed in passing, because something runs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use deepagents::fs::VPath;
use deepagents::fs::permissions::{
    AccessMode, Place, ProtectedPlace, ProtectedPlaces, inputs_of, loaded_by, programs_of,
};

use crate::args::AgentArgs;
use crate::config::{Config, Flags};
use crate::model_choice::env;
use crate::own_files::{home, real};
use crate::{hooks, mcp};

/// Settings that hold commands, which run outside the sandbox.
const COMMANDS: [&str; 3] = ["status_line", "notify.command", "editor"];

/// Maximum number of words of commands that are looked up in `PATH`.
const MAX_LOOKUPS: usize = 256;
/// Programs that this one starts by name, and interpreters of scripts.
const STARTED: [&str; 18] = [
    "git", "sh", "bash", "env", "setsid", "xdg-open", "open", "vi", "python", "python3", "node", "npm", "npx", "uv",
    "uvx", "ruby", "perl", "deno",
];

/// Returns the standard protected places, the files named in the options that steer the agent, and the programs in the
/// directory that are run: by MCP servers, including those of a file that was named, by hooks, by commands in the user's
/// settings, and by name if `PATH` leads into the directory. For hooks and settings, this includes what decides what
/// their programs run, such as a `Makefile`.
pub(crate) fn places(args: &AgentArgs) -> ProtectedPlaces {
    let Ok(root) = args.directory().canonicalize() else { return ProtectedPlaces::default() };
    let named = args.mcp.mcp_config.as_deref();
    let settings = of_settings(&root);
    let by_settings = settings.iter().flat_map(|command| programs_of(command, &root, &root, home().as_deref()));
    let own: BTreeSet<VPath> = hooks::programs_run(&root).into_iter().chain(by_settings).collect();
    let own_commands: Vec<String> = hooks::commands_run(&root).into_iter().chain(settings.clone()).collect();
    // What a server loads is the agent's work, and is asked about before the server starts.
    let inputs = own_commands.iter().flat_map(|command| inputs_of(command, &root, &root, home().as_deref()));
    let inputs: BTreeSet<VPath> = inputs.chain(loaded_by(&own, &root)).collect();
    let run = mcp::programs_run(&root, named).into_iter().chain(own).chain(inputs);
    let commands = mcp::commands_run(&root, named).into_iter().chain(own_commands);
    let steering = args.steering_files().into_iter().filter_map(|file| {
        let below = real(&file)?.strip_prefix(&root).ok()?.to_str()?.to_owned();
        VPath::parse(&format!("/{below}")).ok()
    });
    let run: BTreeSet<VPath> = run.chain(on_path(&root, &commands.collect::<Vec<_>>())).chain(steering).collect();
    let asked = run.into_iter().map(|path| ProtectedPlace { place: Place::At(path), mode: AccessMode::Ask });
    ProtectedPlaces::new(ProtectedPlaces::default().iter().cloned().chain(asked))
}

/// Returns the commands in the user's settings.
fn of_settings(root: &Path) -> Vec<String> {
    // Settings that cannot be read stop the program elsewhere.
    let Ok(config) = Config::load(root, false, &Flags::default()) else { return Vec::new() };
    COMMANDS.iter().filter_map(|name| config.text(name).map(str::to_owned)).chain(env("EDITOR")).collect()
}

/// Returns the programs that may be started by name from `PATH` directories strictly inside the root. The other files
/// there belong to the project: packages are installed there.
fn on_path(root: &Path, commands: &[String]) -> BTreeSet<VPath> {
    let directories = std::env::split_paths(&env("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let written = directories.iter().filter_map(|directory| std::path::absolute(directory).ok());
    let real = directories.iter().filter_map(|directory| directory.canonicalize().ok());
    let below = written.chain(real).filter_map(|directory| Some(directory.strip_prefix(root).ok()?.to_owned()));
    let below: BTreeSet<PathBuf> = below.filter(|path| !path.as_os_str().is_empty()).collect();
    let words =
        commands.iter().flat_map(|command| command.split(|c: char| !c.is_alphanumeric() && !"-_.+".contains(c)));
    // A shell may look up any word as a program name.
    let words = words.filter(|word| word.starts_with(char::is_alphanumeric)).take(MAX_LOOKUPS);
    let names: BTreeSet<&str> = STARTED.into_iter().chain(words).collect();
    let files = below.iter().flat_map(|directory| names.iter().map(|name| directory.join(name)));
    files.filter_map(|file| VPath::parse(&format!("/{}", file.to_str()?)).ok()).collect()
}
