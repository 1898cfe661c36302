//! The program's own files, which the agent does not see, and directories that the user would not hand over on purpose.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use deepagents::fs::permissions::{AccessMode, OnAsk, PermissionedBackend, Permissions, Rule};
use deepagents::fs::{Backend, VPath};

use crate::exit::WrongUsage;
use crate::threads::artifacts::SUFFIX;

/// The program's own directory, in a root and in the user's home.
pub(crate) const OWN: &str = ".deepagents";

/// The name of the thread database in the user's own directory.
pub(crate) const DATABASE: &str = "threads.db";
/// Maximum number of links that lead to a file, as in Linux.
const MAX_LINKS: usize = 40;

/// Suffixes of the files of a SQLite database, and of the undo database and the directory beside it.
const DATABASE_SUFFIXES: [&str; 9] =
    ["", "-wal", "-shm", "-journal", ".undo", ".undo-wal", ".undo-shm", ".undo-journal", SUFFIX];

/// Refuses a working directory that was not named explicitly and holds far more than a project: the home directory, the
/// directories above it, the root of the file system, and shared temporary directories. A directory above the home is
/// accepted if it lies inside a temporary directory, because the home is then a scratch home.
pub(crate) fn check_root(named: Option<&Path>) -> Result<()> {
    if named.is_some() {
        return Ok(());
    }
    match too_much(Path::new(".")) {
        Some((root, what)) => bail!(WrongUsage::new(format!(
            "{} is {what}, and the agent could use all of it: change to a project, or name a directory with --root",
            root.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the real path and a description of a directory that holds far more than a project.
pub(crate) fn too_much(directory: &Path) -> Option<(PathBuf, &'static str)> {
    let here = |path: &Path| path.canonicalize().ok();
    let root = here(directory)?;
    let home = home().and_then(|home| here(&home));
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let temporary: Vec<PathBuf> = temporary.iter().filter_map(|path| here(path)).collect();
    let is_scratch = temporary.iter().any(|path| root.starts_with(path) && root != *path);
    let what = match &home {
        Some(home) if *home == root => "your home directory",
        Some(home) if home.starts_with(&root) && !is_scratch => "a directory above your home directory",
        _ if root.parent().is_none() => "the root of the file system",
        _ if temporary.contains(&root) => "a directory for temporary files",
        _ => return None,
    };
    Some((root, what))
}

/// Returns the user's home directory, even if the environment does not name it.
pub(crate) fn home() -> Option<PathBuf> {
    named_home().or_else(std::env::home_dir)
}

/// Returns the user's home directory, if the environment names it. Its name may be any bytes.
pub(crate) fn named_home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Returns the user's own directory, if the environment names their home.
pub(crate) fn user_directory() -> Option<PathBuf> {
    Some(named_home()?.join(OWN))
}

/// Returns the path of a file in the user's own directory.
pub(crate) fn of_user(name: &str) -> Option<PathBuf> {
    Some(user_directory()?.join(name))
}

/// Whether two paths lead to the same existing file.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// The program's own files that lie inside a root: the user's `.deepagents` directory, databases, a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFiles {
    inside: Vec<VPath>,
    /// All of them, inside the root or not, with links resolved.
    host: Vec<PathBuf>,
}

impl OwnFiles {
    /// Returns the program's own files for a root.
    ///
    /// # Errors
    /// Returns an error if the root itself belongs to the program.
    pub(crate) fn inside(root: &Path, database: Option<&Path>, recording: Option<&Path>) -> Result<Self> {
        let Ok(root) = root.canonicalize() else { return Ok(Self::default()) };
        let home = home().map(|home| home.join(OWN));
        if home.as_deref().and_then(real).is_some_and(|own| root.starts_with(own)) {
            bail!("{} belongs to this program, so agents cannot work there: choose another directory", root.display());
        }
        let database = database.map(Path::to_owned).or_else(|| of_user(DATABASE));
        let linked = database.as_deref().map(followed);
        let databases = database.into_iter().chain(linked).flat_map(|file| {
            DATABASE_SUFFIXES.iter().map(move |ending| {
                let mut name = file.as_os_str().to_owned();
                name.push(ending);
                PathBuf::from(name)
            })
        });
        let files = home.into_iter().chain(databases).chain(recording.map(Path::to_owned));
        let host: BTreeSet<PathBuf> = files.filter_map(|file| real(&file)).collect();
        let mut inside = Vec::new();
        for file in &host {
            if let Some(below) = file.strip_prefix(&root).ok().and_then(Path::to_str) {
                inside.push(VPath::parse(&format!("/{below}"))?);
            }
        }
        Ok(Self { inside, host: host.into_iter().collect() })
    }

    /// Adds further files that the agent must not see.
    pub(crate) fn and(mut self, root: &Path, files: &[PathBuf]) -> Result<Self> {
        let Ok(root) = root.canonicalize() else { return Ok(self) };
        for file in files.iter().filter_map(|file| real(file)) {
            if let Some(below) = file.strip_prefix(&root).ok().and_then(Path::to_str) {
                self.inside.push(VPath::parse(&format!("/{below}"))?);
            }
            self.host.push(file);
        }
        Ok(self)
    }

    /// Returns the paths inside the root, as workspace paths.
    pub(crate) fn paths(&self) -> &[VPath] {
        &self.inside
    }

    /// Returns the paths on the host, including those outside the root: a tool chain directory that is shown to
    /// commands may contain them.
    pub(crate) fn host_paths(&self) -> Vec<PathBuf> {
        self.host.iter().filter(|path| path.to_str().is_some()).cloned().collect()
    }

    /// Returns the files of the root without the program's own.
    pub(crate) fn hide(&self, files: Arc<dyn Backend>) -> Result<Arc<dyn Backend>> {
        if self.inside.is_empty() {
            return Ok(files);
        }
        // Replaces characters that are special in a pattern by `?`, which matches any of them.
        let special = |c: char| if "*?[]{}".contains(c) { '?' } else { c };
        let patterns: Vec<String> =
            self.inside.iter().map(|path| path.as_str().chars().map(special).collect()).collect();
        let rules = Permissions::new([Rule::new(AccessMode::Deny, patterns)])?;
        Ok(Arc::new(PermissionedBackend::new(files, rules, OnAsk::Allow)))
    }
}

/// Follows a symbolic link at the end of a path, also to a file that does not exist yet.
pub(crate) fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().map_or(target.clone(), |above| above.join(&target));
    }
    path
}

/// Resolves the links in the part of a path that exists.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let above = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let (above, real) = above?;
    Some(match path.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    })
}
