//! What the program and its helper say to each other over the helper's standard input, a socket.
//!
//! The program sends two plans, one for each stage of the helper, each behind its length; the helper answers with
//! messages, one a line. The socket closing means that the command is not wanted any more.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::policy::Limits;
use super::{Cache, Level, Part};
use crate::permissions::{Rule, UserGit};

/// Marks a process as a stage of the helper: its first argument.
pub(crate) const OUTER: &str = "--deepagents-sandbox=outer";
#[cfg(target_os = "linux")]
pub(crate) const INNER: &str = "--deepagents-sandbox=inner";

/// For the first stage, which makes the namespaces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OuterPlan {
    pub(crate) network: NetworkAccess,
}

/// Which network the command gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NetworkAccess {
    /// The host's.
    Host,
    /// One of its own.
    Own,
    /// One of its own, with the program's proxy on it, which is not asked for these hosts.
    Proxy { direct: Vec<String> },
}

/// For the second stage, which is the first process in the namespaces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InnerPlan {
    pub(crate) root: Option<PathBuf>,
    pub(crate) cwd: PathBuf,
    pub(crate) network: NetworkAccess,
    pub(crate) read_only: Vec<PathBuf>,
    /// What is shown read-only at another path than it has on the host, or at the same; the path first.
    pub(crate) tools: Vec<(PathBuf, PathBuf)>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) writable: Vec<PathBuf>,
    /// The root and the writable directories as they were when the shell was opened.
    pub(crate) identities: Vec<Identity>,
    /// Paths below the root.
    pub(crate) guarded: Vec<GuardedPath>,
    /// What is unreadable in whatever is shown, by its path on the host without links.
    pub(crate) hidden_host: Vec<PathBuf>,
    /// Rules about paths below the root, all of which hold.
    pub(crate) rules: Vec<Vec<Rule>>,
    /// What has these names at any depth.
    pub(crate) named: Vec<GuardedName>,
    /// What the user's own settings have git run.
    pub(crate) user_git: UserGit,
    pub(crate) limits: Limits,
    pub(crate) least: Level,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Whether the standard error of the helper is what the command reads.
    pub(crate) takes_input: bool,
}

/// Which directory a path led to: somebody may have put another one, or a link, in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    /// What a path leads to now.
    pub(crate) fn look(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = path.symlink_metadata()?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }
}

/// What is not as writable as the rest, wherever it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardedName {
    /// In small letters.
    pub(crate) name: String,
    /// Itself, which is the empty path, or parts of it.
    pub(crate) parts: Vec<GuardedPath>,
}

/// A path of the workspace that is not as writable as the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GuardedPath {
    pub(crate) path: PathBuf,
    pub(crate) guard: Guard,
    /// Whether it is meant in capitals and small letters alike.
    pub(crate) any_case: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Guard {
    /// Read-only.
    Protect,
    /// Read-only if it is a file.
    ProtectFile,
    /// Read-only; made as an empty directory where its parent exists.
    ProtectMade,
    /// Unreadable.
    Hide,
    /// As writable as the rest, inside of something that is not.
    Free,
}

/// What the helper says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The socket that comes with this listens on the command's network. The program answers with one byte once it
    /// takes connections from it.
    Listening,
    /// The sandbox stands, the command is started.
    Ready { parts: Vec<Part> },
    /// The command ended.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// The command was not started.
    Failed { step: String, reason: String },
}

/// A plan behind its length.
pub(crate) fn framed(plan: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let body = serde_json::to_vec(plan)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    Ok([&length.to_le_bytes(), body.as_slice()].concat())
}
