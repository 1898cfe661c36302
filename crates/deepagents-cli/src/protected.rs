//! What nobody changes on the side in a directory.

use std::collections::BTreeSet;
use std::path::Path;

use deepagents::fs::VPath;
use deepagents::fs::permissions::{AccessMode, Place, ProtectedPlace, ProtectedPlaces, programs_of};

use crate::config::{Config, Flags};
use crate::model_choice::env;
use crate::own_files::home;
use crate::{hooks, mcp};

/// Settings that hold commands, which run outside of the sandbox.
const COMMANDS: [&str; 3] = ["status_line", "notify.command", "editor"];

/// The standard places, and what is run from the directory: by servers of tools, also those of a file that was named, by
/// hooks, by commands of the user's settings, and by the name of a program, where `PATH` leads into the directory.
pub(crate) fn places(root: &Path, named: Option<&Path>) -> ProtectedPlaces {
    let Ok(root) = root.canonicalize() else { return ProtectedPlaces::default() };
    let run = mcp::run_here(&root, named).into_iter().chain(hooks::run_here(&root));
    let run: BTreeSet<VPath> = run.chain(by_settings(&root)).chain(on_path(&root)).collect();
    let asked = run.into_iter().map(|path| ProtectedPlace { place: Place::At(path), mode: AccessMode::Ask });
    ProtectedPlaces::new(ProtectedPlaces::default().iter().cloned().chain(asked))
}

fn by_settings(root: &Path) -> BTreeSet<VPath> {
    // One that cannot be read stops the program elsewhere.
    let Ok(config) = Config::load(root, false, &Flags::default()) else { return BTreeSet::new() };
    let commands = COMMANDS.iter().filter_map(|name| config.text(name).map(str::to_owned)).chain(env("EDITOR"));
    commands.flat_map(|command| programs_of(&command, root, root, home().as_deref())).collect()
}

/// The directories of programs that lie in the root, and are not the root.
fn on_path(root: &Path) -> BTreeSet<VPath> {
    let directories = std::env::split_paths(&env("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let written = directories.iter().filter_map(|directory| std::path::absolute(directory).ok());
    let real = directories.iter().filter_map(|directory| directory.canonicalize().ok());
    let below = written.chain(real).filter_map(|directory| Some(directory.strip_prefix(root).ok()?.to_owned()));
    let below = below.filter(|path| !path.as_os_str().is_empty());
    below.filter_map(|path| VPath::parse(&format!("/{}", path.to_str()?)).ok()).collect()
}
