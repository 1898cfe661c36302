//! Protocol between the program and its helper, over a socket that is the helper's standard input.
//!
//! The program sends two length-prefixed plans, one for each stage of the helper. The helper answers with messages, one
//! per line. Closing the socket cancels the command.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::policy::Limits;
use super::{Cache, Level, Part};
use crate::permissions::{Rule, UserGit};

/// First argument that marks a process as a stage of the helper.
pub(crate) const OUTER: &str = "--deepagents-sandbox=outer";
#[cfg(target_os = "linux")]
pub(crate) const INNER: &str = "--deepagents-sandbox=inner";

/// Plan of the first stage, which creates the namespaces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OuterPlan {
    pub(crate) network: NetworkAccess,
}

/// Network of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NetworkAccess {
    /// The host's network.
    Host,
    /// A network of its own.
    Own,
    /// A network of its own with the program's proxy on it, which is bypassed for these hosts.
    Proxy { direct: Vec<String> },
}

/// Plan of the second stage, the first process in the namespaces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InnerPlan {
    pub(crate) root: Option<PathBuf>,
    pub(crate) cwd: PathBuf,
    pub(crate) network: NetworkAccess,
    pub(crate) read_only: Vec<PathBuf>,
    /// Paths visible read-only, each followed by the host path it shows, which may be the same.
    pub(crate) tools: Vec<(PathBuf, PathBuf)>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) writable: Vec<PathBuf>,
    /// Identities of the root and the writable directories when the shell was opened.
    pub(crate) identities: Vec<Identity>,
    /// Guarded paths below the root.
    pub(crate) guarded: Vec<GuardedPath>,
    /// Resolved host paths that are unreadable wherever they are visible.
    pub(crate) hidden_host: Vec<PathBuf>,
    /// Sets of rules about paths below the root, all of which apply.
    pub(crate) rules: Vec<Vec<Rule>>,
    /// Guarded names at any depth.
    pub(crate) named: Vec<GuardedName>,
    /// What git runs according to the user's own settings.
    pub(crate) user_git: UserGit,
    pub(crate) limits: Limits,
    pub(crate) least: Level,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Whether the command's standard input is passed as the helper's standard error.
    pub(crate) takes_input: bool,
}

/// Identity of the directory at a path, to detect that it was replaced by another one or by a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    /// Returns the current identity of a path.
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = path.symlink_metadata()?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }
}

/// A name that is not fully writable, wherever it occurs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardedName {
    /// In lower case.
    pub(crate) name: String,
    /// The guarded parts; the empty path stands for the file or directory itself.
    pub(crate) parts: Vec<GuardedPath>,
}

/// A path of the workspace that is not fully writable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GuardedPath {
    pub(crate) path: PathBuf,
    pub(crate) guard: Guard,
    /// Whether to ignore ASCII case.
    pub(crate) any_case: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Guard {
    /// Read-only.
    Protect,
    /// Read-only if not a directory.
    ProtectFile,
    /// Read-only; created as an empty directory if its parent exists.
    ProtectMade,
    /// Unreadable.
    Hide,
    /// Writable, inside something that is not.
    Free,
}

/// A message of the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The socket sent with this message listens on the command's network. The program answers with one byte once it
    /// accepts connections from it.
    Listening,
    /// The sandbox is ready and the command has started.
    Ready { parts: Vec<Part> },
    /// The command ended.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// The command was not started.
    Failed { step: String, reason: String },
}

/// Serialises a plan with its length as a prefix.
pub(crate) fn framed(plan: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let body = serde_json::to_vec(plan)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    Ok([&length.to_le_bytes(), body.as_slice()].concat())
}
