//! Caches what each server offered at the last connection, so that the next agent need not wait for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};

use crate::config::{ServerConfig, TransportConfig};
use crate::connection::Protocol;
use crate::text;

/// How long an entry is fresh. A server with an older entry is started at once, but nothing waits for it.
const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// Size limit of a cache file, in bytes.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// What a server offered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cached {
    /// Seconds since the Unix epoch.
    at: u64,
    pub(crate) protocol: Protocol,
    pub(crate) resources: bool,
    pub(crate) tools: Vec<Tool>,
}

/// The cache file of a server. A server whose configuration changes gets another file.
#[derive(Clone, Debug)]
pub(crate) struct CacheFile {
    path: PathBuf,
}

impl CacheFile {
    pub(crate) fn new(folder: &Path, server: &str, config: &ServerConfig, root: Option<&Path>) -> Self {
        let reached = match &config.transport {
            TransportConfig::Stdio(stdio) => {
                format!("{:?}", (&stdio.command, &stdio.args, &stdio.env, stdio.cwd.as_deref().or(root)))
            }
            TransportConfig::Http(http) => format!("{:?}", (&http.url, &http.headers)),
        };
        Self { path: folder.join(format!("{}-{}.json", text::file_name(server), text::hash(&reached, 8))) }
    }

    /// Reads the file. Returns `None` if it is missing, too large or unreadable.
    pub(crate) async fn read(&self) -> Option<Cached> {
        let size = tokio::fs::metadata(&self.path).await.ok()?.len();
        if size > MAX_FILE_BYTES {
            return None;
        }
        serde_json::from_slice(&tokio::fs::read(&self.path).await.ok()?).ok()
    }

    /// Replaces the file. Errors are ignored: the next agent then waits for the server.
    pub(crate) async fn write(&self, cached: &Cached) {
        let Ok(bytes) = serde_json::to_vec(cached) else { return };
        let Some(folder) = self.path.parent() else { return };
        let new = text::new_version(&self.path);
        let _ = tokio::fs::create_dir_all(folder).await;
        let is_written =
            tokio::fs::write(&new, bytes).await.is_ok() && tokio::fs::rename(&new, &self.path).await.is_ok();
        if !is_written {
            let _ = tokio::fs::remove_file(&new).await;
        }
    }

    /// Deletes the file.
    pub(crate) async fn remove(&self) {
        let _ = tokio::fs::remove_file(&self.path).await;
    }
}

impl Cached {
    pub(crate) fn new(now: u64, protocol: Protocol, resources: bool, tools: Vec<Tool>) -> Self {
        Self { at: now, protocol, resources, tools }
    }

    /// Whether the entry is recent enough not to start the server.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        now.saturating_sub(self.at) < MAX_AGE.as_secs() && now >= self.at
    }
}

/// Seconds since the Unix epoch, from the system clock: cache files outlive the clock of a run.
#[allow(clippy::disallowed_methods, reason = "files are older than any run")]
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
