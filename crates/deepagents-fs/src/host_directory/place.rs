//! Where a path leads, and what it passes on the way.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of links followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path without links.
    real: PathBuf,
    /// The names that are looked up on the way, links among them, each as a path whose directories are no links.
    entries: Vec<PathBuf>,
    identity: Identity,
}

/// Tells a directory from another one at the same path.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

impl Place {
    /// Returns where an absolute path leads.
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        let (real, entries) = walk(path)?;
        let found = real.symlink_metadata()?;
        if !found.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { real, entries, identity: identity(&found) })
    }

    /// Opens the directory.
    #[cfg(unix)]
    pub(super) fn open(&self) -> io::Result<std::fs::File> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = std::fs::File::from(rustix::fs::open(&self.real, flags, Mode::empty())?);
        let is_same = identity(&open.metadata()?) == self.identity;
        if is_same { Ok(open) } else { Err(io::Error::other("the directory was replaced meanwhile")) }
    }

    /// Whether commands that work in another directory may change this one, or where its path leads.
    pub(super) fn is_in_reach_of(&self, commands: &Self) -> bool {
        let is_inside = |entry: &PathBuf| entry.starts_with(&commands.real);
        commands.real.starts_with(&self.real) || self.entries.iter().any(is_inside)
    }
}

#[cfg(unix)]
fn identity(found: &std::fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> Identity {}

/// Resolves a path name by name. Also returns what is looked up for that.
fn walk(path: &Path) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let names = |path: &Path| -> Vec<OsString> { path.iter().rev().map(OsString::from).collect() };
    let (mut real, mut entries, mut links) = (PathBuf::new(), Vec::new(), 0);
    let mut left = names(path);
    while let Some(name) = left.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        // The root of an absolute target replaces what is before it.
        let entry = real.join(&name);
        if entry.symlink_metadata()?.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other("there are too many links on the way"));
            }
            left.extend(names(&entry.read_link()?));
        } else {
            real.clone_from(&entry);
        }
        entries.push(entry);
    }
    Ok((real, entries))
}
