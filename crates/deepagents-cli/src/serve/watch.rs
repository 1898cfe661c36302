//! Reloading agents when their descriptions change.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use deepagents_server::{RunningServer, Server};

use super::Hosting;
use super::build::Built;
use super::project::Project;
use crate::args::ServeArgs;
use crate::output;

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of files and directories checked.
const MAX_ENTRIES: usize = 5_000;

/// Watches for changes until dropped. If the new description cannot be used, it is reported and the current agents
/// stay.
pub(super) async fn watch(args: ServeArgs, hosting: Arc<Hosting>, running: RunningServer, mut places: Vec<PathBuf>) {
    let mut seen = fingerprint(&places).await;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = fingerprint(&places).await;
        if now == seen {
            continue;
        }
        seen = now;
        let (args, hosting) = (args.clone(), hosting.clone());
        let built = tokio::task::spawn_blocking(move || rebuild(&args, &hosting)).await;
        let replaced = match built {
            Ok(Ok((server, names, described_by))) => {
                places = described_by;
                seen = fingerprint(&places).await;
                running.replace_agents(server).map(|()| names).map_err(anyhow::Error::from)
            }
            Ok(Err(error)) => Err(error),
            Err(error) => Err(error.into()),
        };
        match replaced {
            Ok(names) => output::remark(&format!("reloaded: {names}")),
            Err(error) => output::remark(&format!("the agents were not reloaded: {error:#}")),
        }
    }
}

/// Builds the agents as they are described now, and returns what describes them.
fn rebuild(args: &ServeArgs, hosting: &Hosting) -> Result<(Server, String, Vec<PathBuf>)> {
    let project = Project::read(args)?;
    hosting.save_consents();
    let built = hosting.build(args, &project)?;
    // Again for tools that runs on the old servers saw meanwhile.
    hosting.save_consents();
    let names = names(&built);
    Ok((hosting.with_agents(built)?, names, project.described_by))
}

/// Lists the agents and their models for display.
pub(super) fn names(built: &[Built]) -> String {
    let names: Vec<String> = built.iter().map(|one| format!("{} ({})", one.name, one.model)).collect();
    names.join(", ")
}

/// Returns a hash that changes when a file does.
async fn fingerprint(places: &[PathBuf]) -> u64 {
    let places = places.to_vec();
    let looked = tokio::task::spawn_blocking(move || {
        let (mut hasher, mut left) = (DefaultHasher::new(), MAX_ENTRIES);
        places.iter().for_each(|place| hash_tree(place, &mut hasher, &mut left));
        hasher.finish()
    });
    looked.await.unwrap_or_default()
}

fn hash_tree(place: &Path, hasher: &mut DefaultHasher, left: &mut usize) {
    let Some(fewer) = left.checked_sub(1) else { return };
    *left = fewer;
    place.hash(hasher);
    // Links are not followed: they could form a cycle.
    let Ok(about) = fs::symlink_metadata(place) else { return };
    if about.is_dir() {
        let mut inside: Vec<PathBuf> =
            fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        inside.sort();
        inside.iter().for_each(|path| hash_tree(path, hasher, left));
    } else {
        (about.len(), about.modified().ok()).hash(hasher);
    }
}
