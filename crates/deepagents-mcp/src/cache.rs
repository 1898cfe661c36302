//! What servers had when they were connected last, so that the next agent need not wait for them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::{ServerConfig, TransportConfig};
use crate::connection::Protocol;
use crate::text;

/// How long it counts: after that a server is started at once, though nobody waits for it.
const FRESH: Duration = Duration::from_secs(24 * 3_600);
/// Bytes of a file that are read.
const MOST: u64 = 32 << 20;

/// What a server had.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cached {
    /// Seconds since 1970.
    at: u64,
    pub(crate) protocol: Protocol,
    pub(crate) resources: bool,
    pub(crate) tools: Vec<Tool>,
}

/// The file of a server. A server that is described otherwise is another one.
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
        let mark: String =
            Sha256::digest(reached.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { path: folder.join(format!("{}-{mark}.json", text::file_name(server))) }
    }

    /// What is in it. What cannot be read is as if it were not there.
    pub(crate) async fn read(&self) -> Option<Cached> {
        let size = tokio::fs::metadata(&self.path).await.ok()?.len();
        if size > MOST {
            return None;
        }
        serde_json::from_slice(&tokio::fs::read(&self.path).await.ok()?).ok()
    }

    /// Replaces what is in it. Without it the next agent waits, and that is all.
    pub(crate) async fn write(&self, cached: &Cached) {
        let Ok(bytes) = serde_json::to_vec(cached) else { return };
        let Some(folder) = self.path.parent() else { return };
        let new = self.path.with_extension(format!("{}.new", std::process::id()));
        let _ = tokio::fs::create_dir_all(folder).await;
        if tokio::fs::write(&new, bytes).await.is_ok() {
            let _ = tokio::fs::rename(&new, &self.path).await;
        }
    }

    /// Forgets it.
    pub(crate) async fn remove(&self) {
        let _ = tokio::fs::remove_file(&self.path).await;
    }
}

impl Cached {
    pub(crate) fn new(now: u64, protocol: Protocol, resources: bool, tools: Vec<Tool>) -> Self {
        Self { at: now, protocol, resources, tools }
    }

    /// Whether it is young enough not to look again.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        now.saturating_sub(self.at) < FRESH.as_secs() && now >= self.at
    }
}

/// Seconds since 1970. The age of a file is not the business of a run's clock.
#[allow(clippy::disallowed_methods, reason = "files are older than any run")]
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
