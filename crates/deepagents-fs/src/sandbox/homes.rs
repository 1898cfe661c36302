//! Homes, which are never shown to commands with all that lies in them.

use std::path::{Path, PathBuf};

/// What lies in homes, whosever they are, and in no tool chain.
const MARKS: [&str; 7] = [".ssh", ".gnupg", ".config", ".profile", ".bashrc", ".bash_history", ".zshrc"];

/// The homes of the user, without links.
pub(super) struct Homes(Vec<PathBuf>);

impl Homes {
    /// The one that the environment names and the one of the account, which may be another, or the same in other words.
    pub(super) fn of(named: Option<&Path>) -> Self {
        let homes = named.map(Path::to_owned).into_iter().chain(of_account());
        let real = homes.filter_map(|home| home.canonicalize().ok());
        // Some accounts have the root of the system for a home: all would lie in it.
        Self(real.filter(|home| home.parent().is_some()).collect())
    }

    /// Whether a directory, without links, lies in one.
    pub(super) fn hold(&self, directory: &Path) -> bool {
        self.0.iter().any(|home| directory.starts_with(home))
    }

    /// Whether a directory, without links, is one or above one, or looks like that of somebody else.
    pub(super) fn lie_in(&self, directory: &Path) -> bool {
        let marked = || MARKS.iter().any(|mark| directory.join(mark).symlink_metadata().is_ok());
        self.0.iter().any(|home| home.starts_with(directory)) || marked()
    }
}

/// The home that the system has for the user, whatever the environment says.
#[cfg(target_os = "linux")]
fn of_account() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::getuid()).ok()?.map(|user| user.dir)
}

#[cfg(not(target_os = "linux"))]
fn of_account() -> Option<PathBuf> {
    None
}
