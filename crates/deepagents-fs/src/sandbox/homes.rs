//! Home directories, which are never visible to commands as a whole.

use std::path::{Path, PathBuf};

/// Names found in any user's home but in no toolchain.
const HOME_MARKERS: [&str; 7] = [".ssh", ".gnupg", ".config", ".profile", ".bashrc", ".bash_history", ".zshrc"];

/// The user's home directories, with links resolved.
pub(super) struct Homes(Vec<PathBuf>);

impl Homes {
    /// Returns the home named by the environment and the account's home, which may differ or be two paths to the same
    /// directory.
    pub(super) fn of(named: Option<&Path>) -> Self {
        let homes = named.map(Path::to_owned).into_iter().chain(of_account());
        let real = homes.filter_map(|home| home.canonicalize().ok());
        // Some accounts have `/` as their home, which would contain everything.
        Self(real.filter(|home| home.parent().is_some()).collect())
    }

    /// Returns whether a resolved directory lies in a home.
    pub(super) fn contain(&self, directory: &Path) -> bool {
        self.0.iter().any(|home| directory.starts_with(home))
    }

    /// Returns whether a resolved directory is a home or an ancestor of one, or looks like another user's home.
    pub(super) fn would_show_in(&self, directory: &Path) -> bool {
        let marked = || HOME_MARKERS.iter().any(|mark| directory.join(mark).symlink_metadata().is_ok());
        self.0.iter().any(|home| home.starts_with(directory)) || marked()
    }
}

/// Returns the account's home directory, whatever the environment says.
#[cfg(target_os = "linux")]
fn of_account() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::getuid()).ok()?.map(|user| user.dir)
}

#[cfg(not(target_os = "linux"))]
fn of_account() -> Option<PathBuf> {
    None
}
