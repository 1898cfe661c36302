//! What is the program's own and not the agent's, and directories that nobody hands over by accident.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::fs::permissions::{AccessMode, OnAsk, PermissionedBackend, Permissions, Rule};
use deepagents::fs::{Backend, VPath};

use crate::model_choice::env;
use crate::sources::OWN;

/// What stands beside a database of SQLite, and the database of undone changes, which has such files too.
const BESIDE: [&str; 8] = ["", "-wal", "-shm", "-journal", ".undo", ".undo-wal", ".undo-shm", ".undo-journal"];

/// Refuses a directory that is taken only because the program was started there, and that holds far more than a project:
/// the home directory, what is above it, and directories for temporary files of everybody. A home inside of one of these is
/// a scratch home, and what is above it there is no more than that.
pub(crate) fn check_root(named: Option<&Path>) -> Result<()> {
    if named.is_some() {
        return Ok(());
    }
    let here = |path: &Path| path.canonicalize().ok();
    let Some(root) = here(Path::new(".")) else { return Ok(()) };
    let home = home().and_then(|home| here(&home));
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let temporary: Vec<PathBuf> = temporary.iter().filter_map(|path| here(path)).collect();
    let is_scratch = temporary.iter().any(|path| root.starts_with(path) && root != *path);
    let what = match &home {
        Some(home) if *home == root => "your home directory",
        Some(home) if home.starts_with(&root) && !is_scratch => "a directory above your home directory",
        _ if root.parent().is_none() => "the root of the file system",
        _ if temporary.contains(&root) => "a directory for temporary files",
        _ => return Ok(()),
    };
    bail!(
        "{} is {what}, and the agent would have all of it: go to a project, or say which directory with --root",
        root.display()
    )
}

/// The user's home directory, which need not be in the environment.
pub(crate) fn home() -> Option<PathBuf> {
    env("HOME").map(PathBuf::from).or_else(std::env::home_dir)
}

/// Files of the program that lie inside of a root: the user's directory `.deepagents`, databases, a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFiles {
    inside: Vec<VPath>,
    /// All of them, inside or not, without links.
    host: Vec<PathBuf>,
}

impl OwnFiles {
    /// Those inside of a root.
    ///
    /// # Errors
    /// When the root itself is the program's own.
    pub(crate) fn inside(root: &Path, database: Option<&Path>, recording: Option<&Path>) -> Result<Self> {
        let Ok(root) = root.canonicalize() else { return Ok(Self::default()) };
        let home = home().map(|home| home.join(OWN));
        if home.as_deref().and_then(real).is_some_and(|own| root.starts_with(own)) {
            bail!("{} is the program's own, so no agent works there: choose another directory", root.display());
        }
        let databases = database.into_iter().flat_map(|file| {
            BESIDE.iter().map(move |ending| {
                let mut name = file.as_os_str().to_owned();
                name.push(ending);
                PathBuf::from(name)
            })
        });
        let files = home.into_iter().chain(databases).chain(recording.map(Path::to_owned));
        let host: Vec<PathBuf> = files.filter_map(|file| real(&file)).collect();
        let mut inside = Vec::new();
        for file in &host {
            if let Some(below) = file.strip_prefix(&root).ok().and_then(Path::to_str) {
                inside.push(VPath::parse(&format!("/{below}")).map_err(|error| anyhow!("{error}"))?);
            }
        }
        Ok(Self { inside, host })
    }

    /// The paths, as the root has them.
    pub(crate) fn paths(&self) -> &[VPath] {
        &self.inside
    }

    /// The paths on the host, also of what lies outside of the root: a directory of programs may be shown that holds it.
    pub(crate) fn host_paths(&self) -> Vec<PathBuf> {
        self.host.iter().filter(|path| path.to_str().is_some()).cloned().collect()
    }

    /// The files of the root without them.
    pub(crate) fn hide(&self, files: Arc<dyn Backend>) -> Result<Arc<dyn Backend>> {
        if self.inside.is_empty() {
            return Ok(files);
        }
        // In a pattern some characters stand for others; `?` stands for each of them.
        let special = |c: char| if "*?[]{}".contains(c) { '?' } else { c };
        let patterns: Vec<String> =
            self.inside.iter().map(|path| path.as_str().chars().map(special).collect()).collect();
        let rules = Permissions::new([Rule::new(AccessMode::Deny, patterns)]).map_err(|error| anyhow!("{error}"))?;
        Ok(Arc::new(PermissionedBackend::new(files, rules, OnAsk::Allow)))
    }
}

/// A path without links, as far as it exists.
fn real(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let above = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let (above, real) = above?;
    Some(match path.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    })
}
