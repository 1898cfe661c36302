//! What a server prints to stderr: drained always, its end remembered, all of it in a file where one is wanted.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStderr;

use crate::text;

/// Bytes of the end that are remembered.
const TAIL: usize = 2_048;
/// Bytes of a log; what comes after is drained and dropped.
const LOG: usize = 1 << 20;
/// Characters that an error shows.
const SHOWN: usize = 300;

/// The end of what a server has printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct StderrTail {
    printed: Arc<Mutex<VecDeque<u8>>>,
    /// What it said on stdout behind which nothing is read.
    endless: Arc<OnceLock<String>>,
}

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(bytes);
        let over = tail.len().saturating_sub(TAIL);
        tail.drain(..over);
    }

    /// Notes what it said on stdout behind which nothing is read.
    pub(super) fn say(&self, words: &str) {
        self.endless.get_or_init(|| words.to_owned());
    }

    /// The last line that says something.
    pub(crate) fn last_line(&self) -> String {
        if let Some(words) = self.endless.get() {
            return words.clone();
        }
        let tail: Vec<u8> = self.printed.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let all = String::from_utf8_lossy(&tail);
        let last = all.lines().rev().find(|line| !line.trim().is_empty());
        text::line(last.unwrap_or_default(), SHOWN)
    }
}

/// Reads to the end: a pipe that nobody reads blocks the server.
pub(super) async fn drain(mut stderr: ChildStderr, tail: StderrTail, log: Option<PathBuf>) {
    let mut file = match log {
        Some(path) => create(path).await,
        None => None,
    };
    let mut left = LOG;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..count) else { break };
        tail.push(bytes);
        let written = bytes.get(..count.min(left)).unwrap_or_default();
        left -= written.len();
        if let Some(log) = &mut file
            && (written.is_empty() || log.write_all(written).await.is_err() || log.flush().await.is_err())
        {
            // A log that is full or cannot be written is no reason to stop reading.
            file = None;
        }
    }
}

async fn create(path: PathBuf) -> Option<tokio::fs::File> {
    tokio::fs::create_dir_all(path.parent()?).await.ok()?;
    tokio::fs::File::create(path).await.ok()
}
