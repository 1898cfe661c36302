//! Policies for commands in a sandbox.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[cfg(unix)]
use super::ToolChains;
use super::{HostPattern, HostPatternError, Level};
use crate::VPath;
use crate::permissions::{Permissions, ProtectedPlaces};

/// System directories, read-only in a sandbox. Those that are links stay links.
pub(crate) const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What commands may do. By default, the workspace is writable except for repositories and files that control the
/// agent, the system is readable, and there is no network.
///
/// ```
/// use deepagents_fs::VPath;
/// use deepagents_fs::sandbox::{Git, Limits, SandboxPolicy};
/// let policy = SandboxPolicy {
///     git: Git::Commits,
///     protected: vec![VPath::parse("/.github")?],
///     hidden: vec![VPath::parse("/.env")?],
///     read_only: vec!["/srv/data".into()],
///     limits: Limits { processes: 64, ..Limits::default() },
///     ..SandboxPolicy::default()
/// };
/// # Ok::<(), deepagents_fs::PathError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SandboxPolicy {
    /// Network access.
    pub network: Network,
    /// Places that commands may only read, at the root and at any depth; see [`ProtectedPlaces`] for the defaults. They
    /// include places that require a person's approval, since a command cannot ask.
    ///
    /// What exists when a command starts is mounted read-only. A repository that a command creates is protected from
    /// the next command on. A file that a command creates at a listed path is renamed when the command ends, see
    /// [`CommandOutput::moved`](crate::shell::CommandOutput::moved), unless the program itself is killed first. A link
    /// at a listed path, or at the root under a listed name, is restored when the command ends if the command replaced
    /// it.
    pub protected_places: ProtectedPlaces,
    /// What may be changed in repositories, if `.git` is one of the protected places.
    pub git: Git,
    /// Workspace files and directories that are read-only and cannot be moved. Applies to what exists when a command
    /// starts. If the path contains a symbolic link, this protects the link's target if that is in the workspace; the
    /// link itself can be replaced.
    pub protected: Vec<VPath>,
    /// Workspace files and directories that are unreadable. Like `protected`, this applies to what exists.
    pub hidden: Vec<VPath>,
    /// Host files and directories that are unreadable wherever they are visible: in the workspace, a directory of this
    /// policy or a toolchain. Like `protected`, this applies to what exists.
    pub hidden_host: Vec<PathBuf>,
    /// Rules about workspace files, each of which applies to commands too: files that may not be read are hidden, and
    /// files that may not be written are read-only. The same holds where a rule asks a person, since a command cannot
    /// ask.
    ///
    /// Mounts enforce the rules, whatever a command does, for files that exist when it starts. A file that a command
    /// creates is subject to them from the next command on. Links and hard links are judged by their target and their
    /// own path, respectively.
    pub rules: Vec<Permissions>,
    /// Host files and directories that are visible with their contents at their own paths, such as a toolchain below a
    /// home or in `/opt`. Commands can connect to sockets in them.
    pub read_only: Vec<PathBuf>,
    /// Host directories that commands can write to, at their own paths.
    pub writable: Vec<PathBuf>,
    /// Toolchains available to commands: visible programs, caches and variables. Only the system's by default.
    #[cfg(unix)]
    pub tools: ToolChains,
    /// Resource limits.
    pub limits: Limits,
    /// Refuses commands if this level cannot be reached; [`Level::Namespaces`] by default. A lower level has no effect:
    /// a policy cannot disable the sandbox.
    pub required: Option<Level>,
}

/// Network access of commands. Except with [`Host`](Self::Host), a socket in the workspace is unreadable if a program
/// outside accepts connections on it when a command starts; a test connection determines that.
///
/// ```
/// use deepagents_fs::sandbox::{Network, SandboxPolicy};
/// let network = Network::allow(["example.org", "*.example.org", "localhost:8080"])?;
/// let policy = SandboxPolicy { network, ..SandboxPolicy::default() };
/// # Ok::<(), deepagents_fs::sandbox::HostPatternError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Network {
    /// A loopback interface of its own, with only what the command itself starts. A socket in the workspace is
    /// unreadable if a program outside accepts connections on it when a command starts.
    #[default]
    None,
    /// A loopback interface of its own, with an HTTP proxy that connects only to these hosts and refuses all others
    /// with status 403. The variables `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`, in upper and lower case, tell
    /// programs where it is; a program that ignores them has no network. The proxy resolves names. It connects
    /// directly, not through another proxy.
    ///
    /// The list restricts hosts, not what is sent to them: data can leave the sandbox to any of them. Where many sites
    /// share an address (behind a content delivery network), access to one may give access to the others.
    AllowList(Vec<HostPattern>),
    /// The host's network without restriction: the internet, the local network and services on the host's loopback. The
    /// sandbox then reaches at most [`Level::Namespaces`]. On kernels before 6.12, this includes the abstract sockets
    /// of other programs, some of which accept commands on them.
    Host,
}

impl Network {
    /// Creates an allow-list from hosts written as text; see [`HostPattern`].
    ///
    /// # Errors
    /// Returns an error if a text is not a valid host pattern.
    pub fn allow<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Result<Self, HostPatternError> {
        hosts.into_iter().map(str::parse).collect::<Result<_, _>>().map(Self::AllowList)
    }
}

/// What a command may change in the workspace's repositories, at the root and below. If `.git` is a link, or a file
/// that points to another directory, that directory counts too if it is in the workspace; below the root, the link
/// itself can be replaced. Before you run git in a repository that a command has just created, check its hooks and
/// configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Git {
    /// Nothing below `.git`: a command can read a repository but not commit.
    #[default]
    ReadOnly,
    /// Everything except the files that make git run programs: `.git/hooks`, `.git/config`, `.git/config.worktree` and
    /// `.git/modules`. This stops the usual tricks but not all: a new file `.git/commondir` makes git read its
    /// configuration from another directory. Choose this if commands may commit and are trusted that far.
    Commits,
    /// Everything.
    Writable,
}

/// Resource limits of a command. They apply to each process individually, except `processes`, `scratch` and `spare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of processes and threads at a time. Kernels before 5.14 cannot limit it, and for a program
    /// running as root only 6.14 and later can, to no less than 301; the report says so.
    pub processes: u64,
    /// Maximum size in bytes of a written file.
    pub file_size: u64,
    /// Maximum number of open files.
    pub open_files: u64,
    /// Address space in bytes; unlimited by default, since many programs reserve much more than they use.
    pub address_space: Option<u64>,
    /// CPU time in seconds; unlimited by default.
    pub cpu_seconds: Option<u64>,
    /// Size in bytes of the private `/tmp`, which is in memory.
    pub scratch: u64,
    /// Number of bytes that stay free on the disks of the workspace and other writable directories, or half of the free
    /// space if that is less. A command that leaves less is killed with all its processes.
    ///
    /// On a small or nearly full disk, where a command could be faster than the check, this space is reserved while it
    /// runs, so the command finds the disk full. If the file system does not support that (no unnamed files, no
    /// `fallocate`), a fast command may use more before it is noticed. Commands cannot preallocate space.
    pub spare: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 512,
            file_size: 4 << 30,
            open_files: 4096,
            address_space: None,
            cpu_seconds: None,
            scratch: 1 << 30,
            spare: 1 << 30,
        }
    }
}

/// A policy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The workspace is, or contains, a part of the system.
    #[error("a workspace at {} would expose the whole system; choose a directory of its own", .0.display())]
    TooWide(PathBuf),
    /// A host directory is missing.
    #[error("{} cannot be shown in the sandbox: {reason}", .path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// It is unclear which host path is to be hidden.
    #[error("{} cannot be hidden: {reason}; give an absolute path", .path.display())]
    CannotHide {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A host directory lies within one that commands can write to, so they could replace it.
    #[error("{} lies within {}, which is writable; use `protect` or `hide` for parts of a workspace", .path.display(), .within.display())]
    Within {
        /// The directory.
        path: PathBuf,
        /// The writable directory.
        within: PathBuf,
    },
    /// A path is not UTF-8.
    #[error("the path {} is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
}

impl SandboxPolicy {
    /// Returns whether commands are kept from changing what git runs.
    #[cfg(unix)]
    pub(crate) fn guards_git(&self) -> bool {
        self.git != Git::Writable && self.protected_places.denied_name(".git").is_some()
    }

    pub(crate) fn least(&self) -> Level {
        self.required.map_or(Level::Namespaces, |level| level.max(Level::Namespaces))
    }

    /// Resolves the policy's host paths, so that links that commands create later have no effect.
    pub(crate) fn resolved(mut self, root: &Path) -> Result<Self, PolicyError> {
        let own = ["/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/var", "/opt", "/home", "/root"];
        let system = SYSTEM.iter().chain(&own);
        let unusable = |path: &Path| ["/proc", "/sys", "/dev"].iter().any(|of| path.starts_with(of));
        for path in self.writable.iter_mut().chain(&mut self.read_only) {
            let missing =
                |error: std::io::Error| PolicyError::Missing { path: path.clone(), reason: error.to_string() };
            *path = path.canonicalize().map_err(missing)?;
        }
        for path in &mut self.hidden_host {
            let unknown =
                |error: std::io::Error| PolicyError::CannotHide { path: path.clone(), reason: error.to_string() };
            let at = std::path::absolute(&*path).map_err(unknown)?;
            // A path that does not exist yet may be created later at the same place.
            let found = at.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
            *path = match found {
                Some((above, real)) if above == at => real,
                Some((above, real)) => real.join(at.strip_prefix(above).unwrap_or(Path::new(""))),
                None => at,
            };
        }
        let writable: Vec<PathBuf> = std::iter::once(root.to_owned()).chain(self.writable.iter().cloned()).collect();
        for directory in &writable {
            if system.clone().any(|part| Path::new(part).starts_with(directory)) || unusable(directory) {
                return Err(PolicyError::TooWide(directory.clone()));
            }
        }
        for path in writable.iter().chain(&self.read_only).chain(&self.hidden_host) {
            if path.to_str().is_none() {
                return Err(PolicyError::NotUtf8(path.clone()));
            }
        }
        #[cfg(unix)]
        self.tools.resolve(&writable, &self.hidden_host);
        for path in writable.iter().chain(&self.read_only) {
            let around = writable.iter().find(|within| path.starts_with(within) && path != *within);
            if let Some(within) = around {
                return Err(PolicyError::Within { path: path.clone(), within: within.clone() });
            }
        }
        Ok(self)
    }
}
