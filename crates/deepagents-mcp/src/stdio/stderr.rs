//! Drains a server's stderr. Keeps its end in memory, and optionally logs it to a file.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStderr;

use crate::sync::lock;
use crate::text;

/// Number of bytes kept from the end.
const TAIL_BYTES: usize = 2_048;
/// The mode of a log.
#[cfg(unix)]
const PRIVATE: u32 = 0o600;
/// Maximum size of a log, in bytes. Later output is dropped.
const MAX_LOG_BYTES: usize = 1 << 20;
/// Maximum length of a line in an error, in characters.
const MAX_LINE_CHARS: usize = 300;

/// The end of a server's stderr output.
#[derive(Clone, Debug, Default)]
pub(crate) struct StderrTail {
    printed: Arc<Mutex<VecDeque<u8>>>,
    /// Why reading from stdout has stopped, if it has.
    endless: Arc<OnceLock<String>>,
}

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = lock(&self.printed);
        tail.extend(bytes);
        let over = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..over);
    }

    /// Records why reading from stdout has stopped.
    pub(super) fn record(&self, words: &str) {
        self.endless.get_or_init(|| words.to_owned());
    }

    /// Returns the last line that is not blank, or the reason why reading has stopped.
    pub(crate) fn last_line(&self) -> String {
        if let Some(words) = self.endless.get() {
            return words.clone();
        }
        let tail: Vec<u8> = lock(&self.printed).iter().copied().collect();
        let all = String::from_utf8_lossy(&tail);
        let last = all.lines().rev().find(|line| !line.trim().is_empty());
        text::line(last.unwrap_or_default(), MAX_LINE_CHARS)
    }
}

/// Reads to EOF. A pipe that nobody reads would block the server.
pub(super) async fn drain(mut stderr: ChildStderr, tail: StderrTail, log: Option<PathBuf>) {
    let mut file = match log {
        Some(path) => create(path).await,
        None => None,
    };
    let mut left = MAX_LOG_BYTES;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..count) else { break };
        tail.push(bytes);
        let written = bytes.get(..count.min(left)).unwrap_or_default();
        left -= written.len();
        if let Some(log) = &mut file
            && (written.is_empty() || log.write_all(written).await.is_err() || log.flush().await.is_err())
        {
            // Keeps draining when the log is full or cannot be written.
            file = None;
        }
    }
}

/// Creates a log that only the owner may read: servers print secrets too.
async fn create(path: PathBuf) -> Option<tokio::fs::File> {
    tokio::fs::create_dir_all(path.parent()?).await.ok()?;
    let mut options = tokio::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    options.mode(PRIVATE);
    let file = options.open(path).await.ok()?;
    // Logs of earlier versions could be read by others.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(PRIVATE)).await.ok()?;
    Some(file)
}
