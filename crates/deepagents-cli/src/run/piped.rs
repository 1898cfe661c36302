//! Text piped in beside a task.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use crate::output;

/// How long to wait for the first bytes without --stdin: many programs start others with a stdin that they neither use
/// nor close, and wait for them to end.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum size in bytes: more than models can read.
const MAX_BYTES: usize = 1 << 20;
/// Polling interval for a non-blocking stdin without data.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Stdin, read while the run is prepared.
pub(super) struct Piped {
    began: Instant,
    pieces: Receiver<io::Result<Vec<u8>>>,
}

impl Piped {
    /// Starts reading stdin if it is a file, a pipe or a socket.
    pub(super) fn begin() -> Option<Self> {
        let kind = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?).metadata().ok()?.file_type();
        if !(kind.is_file() || kind.is_fifo() || kind.is_socket()) {
            return None;
        }
        let (to, pieces) = sync_channel(1);
        thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            let mut buffer = vec![0; 64 << 10];
            loop {
                let read = match stdin.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) => Ok(buffer.get(..length).unwrap_or_default().to_vec()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(POLL_INTERVAL);
                        continue;
                    }
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if to.send(read).is_err() || failed {
                    return;
                }
            }
        });
        Some(Self { began: Instant::now(), pieces })
    }

    /// Returns the task with the text from stdin appended. Once the first bytes have arrived, reads to the end; does
    /// not wait for them unless `has_to`.
    pub(super) fn below(self, task: String, has_to: bool) -> Result<String> {
        let first = match has_to {
            true => self.pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => self.pieces.recv_timeout(FIRST_BYTE_TIMEOUT.saturating_sub(self.began.elapsed())),
        };
        let mut bytes = match first {
            Ok(first) => first.map_err(unreadable)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(task),
            Err(RecvTimeoutError::Timeout) => {
                self.report_late_text();
                return Ok(task);
            }
        };
        for piece in self.pieces {
            bytes.append(&mut piece.map_err(unreadable)?);
            if bytes.len() > MAX_BYTES {
                break;
            }
        }
        if bytes.len() > MAX_BYTES {
            bail!(
                "stdin has more than {} MiB: write it to a file in the directory, and name the file in the task",
                MAX_BYTES >> 20
            );
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            anyhow!("stdin is not text in UTF-8: write it to a file in the directory, and name the file in the task")
        })?;
        Ok(if text.trim().is_empty() { task } else { format!("{task}\n\n{text}") })
    }

    /// Reports text that arrives once the run has begun.
    fn report_late_text(self) {
        thread::spawn(move || {
            if let Ok(Ok(_)) = self.pieces.recv() {
                output::remark("stdin was empty when the run began, and is not read; use --stdin to wait for it");
            }
        });
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: io::Error) -> anyhow::Error {
    anyhow!("stdin could not be read: {error}")
}
