//! Context files, which are memory and skills: which ones there are, and where the agent finds them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::fs::permissions::{AccessMode, OnAsk, PermissionedBackend, Permissions, Rule};
use deepagents::fs::{
    Backend, ByteRange, CompositeBackend, FsError, Kind, LocalBackend, OpenError, ReadOnly, VPath, WriteMode,
};
use deepagents::{DeepAgentBuilder, State};
use serde::{Deserialize, Serialize};

use crate::args::AgentArgs;
use crate::own_files::{OWN, user_directory};
use crate::trust::Brought;

/// Name of a memory file.
pub(crate) const MEMORY: &str = "AGENTS.md";
/// Name of the skills directory in the program's own directory.
pub(crate) const SKILLS: &str = "skills";
/// Name of the directory in it for files that define sub-agents.
pub(crate) const AGENTS: &str = "agents";
/// Where the workspace shows the user's files from outside the root, read-only.
const USER: &str = "/.deepagents/user";
/// Maximum size in bytes of a file that a recording carries.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The memory files and skill directories of an agent, as workspace paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContextFiles {
    /// Memory files; later ones are more specific to the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    memory: Vec<VPath>,
    /// Skill directories with their labels; of two skills with the same name, the later one is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skills: Vec<(VPath, String)>,
}

/// The context files outside the root, by their workspace path.
#[derive(Default)]
pub(crate) struct Outside(Vec<(VPath, Arc<dyn Backend>)>);

/// Contents of the context files, for a machine that does not have them.
pub(crate) type FileContents = BTreeMap<VPath, String>;

/// Finds the files of a root and of this user that are wanted, and that the user has agreed to if they are the root's.
/// If there are none, the agent has no memory and no skills.
pub(crate) fn find(args: &AgentArgs, brought: &Brought) -> Result<(ContextFiles, Outside)> {
    let (root, user) = (args.directory(), user_directory());
    let (mut files, mut outside) = (ContextFiles::default(), Outside::default());
    if !args.no_memory {
        files.memory = memory(root, user.as_deref(), brought, &mut outside)?;
    }
    if !args.no_skills {
        files.skills = skills(root, user.as_deref(), brought, &mut outside)?;
    }
    Ok((files, outside))
}

fn memory(root: &Path, user: Option<&Path>, brought: &Brought, outside: &mut Outside) -> Result<Vec<VPath>> {
    let (at_plain, at_own) = (VPath::parse(&format!("/{MEMORY}"))?, VPath::parse(&format!("/{OWN}/{MEMORY}"))?);
    let (plain, own) = (root.join(MEMORY), root.join(OWN).join(MEMORY));
    let known = [(&at_plain, plain.as_path()), (&at_own, own.as_path())].into_iter();
    let known: Vec<&Path> = known.filter(|(path, _)| brought.has(path)).map(|(_, file)| file).collect();
    let of_user = user.map(|user| user.join(MEMORY)).filter(|file| is_other(file, root, &known));
    let mut files = Vec::new();
    if of_user.is_none() && known.is_empty() {
        return Ok(files);
    }
    if let Some(file) = of_user {
        files.push(outside.memory(&file)?);
    }
    // Include the file even if it does not exist: the agent writes what it learns there.
    if brought.has(&at_plain) || plain.symlink_metadata().is_err() {
        files.push(at_plain);
    }
    if brought.has(&at_own) {
        files.push(at_own);
    }
    Ok(files)
}

fn skills(root: &Path, user: Option<&Path>, brought: &Brought, outside: &mut Outside) -> Result<Vec<(VPath, String)>> {
    let (of_root, at_root) = (root.join(OWN).join(SKILLS), VPath::parse(&format!("/{OWN}/{SKILLS}"))?);
    let has_some = brought.files.has_below(&at_root);
    let known = if has_some { &[of_root.as_path()][..] } else { &[] };
    let of_user = user.map(|user| user.join(SKILLS)).filter(|of_user| is_other(of_user, root, known));
    let mut directories = Vec::new();
    if let Some(directory) = of_user.filter(|directory| holds_directories(directory)) {
        directories.push((outside.skills(&directory)?, "User".to_owned()));
    }
    if has_some {
        directories.push((at_root, "Project".to_owned()));
    }
    Ok(directories)
}

/// Whether a file of the user exists and is not one of the root's known files: the user's home may be the root. A file
/// outside the root always counts as other, because the root cannot show what it only links to.
fn is_other(path: &Path, root: &Path, known: &[&Path]) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    let inside = root.canonicalize().is_ok_and(|root| real.starts_with(root));
    !inside || known.iter().all(|known| known.canonicalize().map_or(true, |known| known != real))
}

fn holds_directories(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(|entry| entry.path().is_dir()))
}

impl Outside {
    /// Adds the user's memory file. Nothing else in its directory is visible.
    fn memory(&mut self, file: &Path) -> Result<VPath> {
        // Follow a link to a file of the same name, as users have who keep their settings elsewhere.
        let real = file.canonicalize().ok().filter(|real| real.file_name() == file.file_name());
        let directory = real.as_deref().unwrap_or(file).parent().unwrap_or(file);
        let files = open(directory, "--no-memory")?;
        // `/.` is the directory itself; a trailing slash would match everything below it.
        let seen = ["/.".to_owned(), format!("/{MEMORY}")];
        let rules = [Rule::new(AccessMode::Allow, seen), Rule::new(AccessMode::Deny, ["/**"])];
        let seen = PermissionedBackend::new(files, Permissions::new(rules)?, OnAsk::Refuse);
        self.0.push((VPath::parse(USER)?, Arc::new(seen)));
        Ok(VPath::parse(&format!("{USER}/{MEMORY}"))?)
    }

    /// Adds the user's skills.
    fn skills(&mut self, directory: &Path) -> Result<VPath> {
        let path = VPath::parse(&format!("{USER}/{SKILLS}"))?;
        self.0.push((path.clone(), open(directory, "--no-skills")?));
        // The backend does not follow links out of a directory, so show each linked skill on its own.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let linked = entry.path();
            let shown = entry.file_name().to_str().and_then(|name| path.join(name).ok());
            if let Some(shown) = shown.filter(|_| linked.is_symlink() && linked.is_dir()) {
                self.0.push((shown, open(&linked, "--no-skills")?));
            }
        }
        Ok(path)
    }

    /// Adds these files to a backend: the agent's files, or those that define the agent.
    pub(crate) fn add_to(&self, root: Arc<dyn Backend>) -> Arc<dyn Backend> {
        if self.0.is_empty() {
            return root;
        }
        let routes = self.0.iter().cloned();
        Arc::new(routes.fold(CompositeBackend::new(root), |all, (path, files)| all.route(path, files)))
    }
}

/// Opens a directory read-only.
fn open(directory: &Path, without: &str) -> Result<Arc<dyn Backend>> {
    let unusable = |error: OpenError| {
        anyhow!("`{}` cannot be read: {}; give {without} to continue without it", directory.display(), error.source)
    };
    Ok(Arc::new(ReadOnly::new(Arc::new(LocalBackend::open(directory).map_err(unusable)?))))
}

impl ContextFiles {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the files to an agent.
    pub(crate) fn give(&self, mut builder: DeepAgentBuilder) -> DeepAgentBuilder {
        if !self.memory.is_empty() {
            builder = builder.memory(self.memory.iter().map(VPath::to_string));
        }
        if !self.skills.is_empty() {
            builder = builder.skills(self.skills.iter().map(|(path, name)| (path.to_string(), name.as_str())));
        }
        builder
    }

    /// Returns the contents of the files.
    ///
    /// A file that cannot be read is an error, because what memory and skills say about it would differ on another
    /// machine.
    pub(crate) async fn read_contents(&self, workspace: &dyn Backend) -> Result<FileContents> {
        let mut carried = FileContents::new();
        for path in &self.memory {
            take(&mut carried, workspace, path, "--no-memory").await?;
        }
        for (source, _) in &self.skills {
            let listing = match workspace.list(&State::default(), source).await {
                Ok(listing) => listing,
                Err(FsError::NotFound(_)) => continue,
                Err(error) => bail!(not_recorded(source, &error, "--no-skills")),
            };
            for entry in listing.entries.iter().filter(|entry| entry.kind == Kind::Directory) {
                for file in ["SKILL.md", "agents.yaml"] {
                    let path = VPath::parse(&format!("{}/{file}", entry.path))?;
                    take(&mut carried, workspace, &path, "--no-skills").await?;
                }
            }
        }
        Ok(carried)
    }
}

/// Adds the contents of a file, if it exists.
async fn take(carried: &mut FileContents, workspace: &dyn Backend, path: &VPath, without: &str) -> Result<()> {
    let read = match workspace.read(&State::default(), path, ByteRange::first(MAX_FILE_BYTES + 1)).await {
        Ok(read) => read,
        Err(FsError::NotFound(_)) => return Ok(()),
        Err(error) => bail!(not_recorded(path, &error, without)),
    };
    if read.bytes.len() as u64 > MAX_FILE_BYTES {
        bail!(not_recorded(path, &format!("it is larger than {} MB", MAX_FILE_BYTES >> 20), without));
    }
    match String::from_utf8(read.bytes.into()) {
        Ok(text) => drop(carried.insert(path.clone(), text)),
        Err(_) => bail!(not_recorded(path, &"it is not UTF-8 text", without)),
    }
    Ok(())
}

fn not_recorded(path: &VPath, why: &dyn std::fmt::Display, without: &str) -> String {
    format!("{path} cannot be part of a recording: {why}; give {without} to record without it")
}

/// Writes the carried files into an empty workspace.
pub(crate) async fn unpack(carried: &FileContents, workspace: &dyn Backend) -> Result<()> {
    for (path, text) in carried {
        let written = workspace.write(&State::default(), path, text.clone().into(), WriteMode::Create).await;
        written.map_err(|error| anyhow!("a file in the recording cannot be restored: {error}"))?;
    }
    Ok(())
}
