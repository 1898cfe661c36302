//! What commands in a sandbox may do.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[cfg(unix)]
use super::ToolChains;
use super::{HostPattern, HostPatternError, Level};
use crate::VPath;
use crate::permissions::{Permissions, ProtectedPlaces};

/// Directories that hold the system, read-only in a sandbox. Links among them stay links.
pub(crate) const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What commands may do. The default: the workspace is writable except repositories and what steers the agent, the system
/// is readable, no network.
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
    /// Which network there is.
    pub network: Network,
    /// What commands only read, at the root and at any depth; see [`ProtectedPlaces`] for what that is by default. Places
    /// that a person would be asked about are among them, as a command cannot ask. What exists when a command
    /// starts is mounted read-only. A repository that a command makes is protected from the next one; what it makes at a path
    /// of the list is renamed when it ends, see [`CommandOutput::moved`](crate::shell::CommandOutput::moved), unless the
    /// program itself is killed before. A link at a path of the list, or at the root by a name of it, is put back when the
    /// command ends, in the place of what it made of it.
    pub protected_places: ProtectedPlaces,
    /// What may be changed in repositories, where `.git` is one of the protected places.
    pub git: Git,
    /// Files and directories of the workspace that are read-only. They cannot be moved away either. It holds for what
    /// exists when a command starts. Where a symbolic link is on the way it holds for what that leads to, if it is in the
    /// workspace; the link itself can be replaced.
    pub protected: Vec<VPath>,
    /// Files and directories of the workspace that are unreadable. As with `protected`, it is for what exists.
    pub hidden: Vec<VPath>,
    /// Files and directories of the host that are unreadable wherever something that is shown holds them: the workspace, a
    /// directory of this policy, a tool chain. As with `protected`, it is for what exists.
    pub hidden_host: Vec<PathBuf>,
    /// Rules about files of the workspace, each of which holds for commands too: what may not be read is hidden, what may
    /// not be written is read-only, and what a person would be asked about is so as well, since a command cannot ask.
    /// Mounts see to that, so it holds whatever a command does, for the files that are there when it starts. A file that
    /// a command makes at a place that a rule is about is bound from the next command on. Links and hard links are
    /// judged by where they lead and by their own path.
    pub rules: Vec<Permissions>,
    /// Files and directories of the host that are shown, with all below them, at their own paths: a tool chain below a
    /// home or `/opt`. Sockets in them can be connected to.
    pub read_only: Vec<PathBuf>,
    /// Directories of the host that commands can write to, at their own paths.
    pub writable: Vec<PathBuf>,
    /// The tool chains that commands find: programs that are shown, caches and variables. None but the system's by
    /// default.
    #[cfg(unix)]
    pub tools: ToolChains,
    /// Bounds on what a command may use.
    pub limits: Limits,
    /// Refuses commands where less than this level is reached; [`Level::Namespaces`] by default. No lower one is
    /// possible: to run without a sandbox is not for a policy to say.
    pub required: Option<Level>,
}

/// Which network a command sees. But for the host's, a socket in the workspace at which a program outside takes connections when
/// a command starts is unreadable; to tell, one is made and closed.
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
    /// A loopback of its own, with nothing on it but what the command itself starts. Sockets in the workspace at which a
    /// program outside takes connections when a command starts are unreadable.
    #[default]
    None,
    /// A loopback of its own, and on it an HTTP proxy that connects to these hosts alone. Programs find it by the
    /// variables `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`, in capitals and in small letters; one that takes no
    /// notice of them has no network, and names are resolved by the proxy. All others are refused with status 403. The
    /// proxy connects by itself, not through another proxy.
    ///
    /// The list is of hosts, not of what is said to them: data can leave the sandbox to any of them, and where many
    /// sites share one address (behind a content delivery network), whoever reaches one may reach the others.
    AllowList(Vec<HostPattern>),
    /// The host's, whole: the internet, the local network and what listens on the host's loopback. The sandbox then
    /// amounts to [`Level::Namespaces`] at most. On kernels before 6.12 it includes the abstract sockets of other
    /// programs, by which some of them take orders.
    Host,
}

impl Network {
    /// An allow-list of hosts written as text, see [`HostPattern`].
    ///
    /// # Errors
    /// When a text names no host.
    pub fn allow<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Result<Self, HostPatternError> {
        hosts.into_iter().map(str::parse).collect::<Result<_, _>>().map(Self::AllowList)
    }
}

/// What a command may change in the repositories of the workspace, at its root and deeper. Where `.git` is a link or a file
/// that names another directory, that directory counts as well if it is in the workspace; the link itself can be replaced
/// deeper than at the root. Before you run git in a repository that a command has just made, look at its hooks and configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Git {
    /// Nothing below `.git`: it can be looked at, not committed to.
    #[default]
    ReadOnly,
    /// All but the files that make git run programs: `.git/hooks`, `.git/config`, `.git/config.worktree` and
    /// `.git/modules`. This stops the usual tricks, not all: a new file `.git/commondir` makes git take its
    /// configuration from another directory. Choose it where commands may commit and are trusted that far.
    Commits,
    /// Everything.
    Writable,
}

/// Bounds on what a command may use. They hold for each process alone, except `processes`, `scratch` and `spare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at one time. Kernels before 5.14 cannot bound them, and for a program that is root only
    /// those from 6.14 on can, with at least 301; the report says so.
    pub processes: u64,
    /// Bytes of one file that is written.
    pub file_size: u64,
    /// Files open at one time.
    pub open_files: u64,
    /// Bytes of address space; not bound by default, since many programs reserve much more than they use.
    pub address_space: Option<u64>,
    /// Seconds on the processor; not bound by default.
    pub cpu_seconds: Option<u64>,
    /// Bytes of the private `/tmp`, which lies in memory.
    pub scratch: u64,
    /// Bytes that stay free on the disks of the workspace and of other writable directories, or half of what there is if
    /// that is less: a command that leaves fewer is killed with all that it started. Where a command could be faster than
    /// that, on a small or nearly full disk, these bytes are set aside while it runs, so it finds the disk full; where the
    /// file system cannot do that (no files without names, no `fallocate`), a fast command may take more before it is
    /// seen. Space cannot be taken at one stroke.
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

/// A policy that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The workspace is or holds a part of the system.
    #[error("a workspace at {} would expose the whole system; choose a directory of its own", .0.display())]
    TooWide(PathBuf),
    /// A directory of the host is missing.
    #[error("{} cannot be shown in the sandbox: {reason}", .path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A directory of the host lies within one that commands can write to, so they could exchange it for another.
    #[error("{} lies within {}, which is writable; use `protect` or `hide` for parts of a workspace", .path.display(), .within.display())]
    Within {
        /// The directory.
        path: PathBuf,
        /// The writable one.
        within: PathBuf,
    },
    /// A path is not UTF-8.
    #[error("the path {} is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
}

impl SandboxPolicy {
    pub(crate) fn least(&self) -> Level {
        self.required.map_or(Level::Namespaces, |level| level.max(Level::Namespaces))
    }

    /// The policy with the host's paths resolved, once and for all: later, commands may have put links on the way.
    pub(crate) fn settled(mut self, root: &Path) -> Result<Self, PolicyError> {
        let own = ["/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/var", "/opt", "/home", "/root"];
        let system = SYSTEM.iter().chain(&own);
        let unusable = |path: &Path| ["/proc", "/sys", "/dev"].iter().any(|of| path.starts_with(of));
        for path in self.writable.iter_mut().chain(&mut self.read_only) {
            let missing =
                |error: std::io::Error| PolicyError::Missing { path: path.clone(), reason: error.to_string() };
            *path = path.canonicalize().map_err(missing)?;
        }
        for path in &mut self.hidden_host {
            // What is not there now may be later, at the same place.
            let found = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
            if let Some((above, real)) = found {
                let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
                *path = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
            }
        }
        for directory in std::iter::once(&root.to_owned()).chain(&self.writable) {
            if system.clone().any(|part| Path::new(part).starts_with(directory)) || unusable(directory) {
                return Err(PolicyError::TooWide(directory.clone()));
            }
        }
        for path in
            std::iter::once(&root.to_owned()).chain(&self.writable).chain(&self.read_only).chain(&self.hidden_host)
        {
            if path.to_str().is_none() {
                return Err(PolicyError::NotUtf8(path.clone()));
            }
        }
        let places = self.writable.clone();
        let writable: Vec<&Path> = std::iter::once(root).chain(places.iter().map(PathBuf::as_path)).collect();
        #[cfg(unix)]
        self.tools.resolve(&writable, &self.hidden_host);
        for path in std::iter::once(&root.to_owned()).chain(&self.writable).chain(&self.read_only) {
            let around = writable.iter().find(|within| path.starts_with(within) && path != *within);
            if let Some(within) = around {
                return Err(PolicyError::Within { path: path.clone(), within: within.to_path_buf() });
            }
        }
        Ok(self)
    }
}
