//! Commands of the person.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::Session;
use crate::app::event::Event;

/// Bytes of output that are kept.
const OUTPUT: usize = 256 * 1024;

impl Session {
    /// Runs a command of the person in the root: with the person's own shell and environment, as if typed there.
    pub(super) fn shell(&self, command: String) {
        let (this, job) = (self.clone(), self.new_job());
        self.spawn(async move {
            match this.run_shell(&command, job).await {
                Ok(code) => Some(Event::ShellEnded { code }),
                Err(error) => {
                    this.tell(Event::ShellOutput(format!("the command cannot be run: {error}\n")));
                    Some(Event::ShellEnded { code: Some(127) })
                }
            }
        });
    }

    async fn run_shell(&self, text: &str, job: CancellationToken) -> std::io::Result<Option<i32>> {
        let mut command = Command::new(&self.shell);
        command.arg("-c").arg(text).current_dir(&self.root).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let reading = async { tokio::join!(self.read(out), self.read(err)) };
        tokio::select! {
            _ = reading => {}
            () = job.cancelled() => {
                end(group, &mut child).await;
                return Ok(None);
            }
        }
        let status = tokio::select! {
            status = child.wait() => status?,
            () = job.cancelled() => {
                end(group, &mut child).await;
                return Ok(None);
            }
        };
        Ok(status.code())
    }

    async fn read(&self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let (mut bytes, mut kept, mut pieces) = (vec![0; 16 * 1024], 0, Pieces::default());
        while let Ok(length) = from.read(&mut bytes).await {
            if length == 0 {
                break;
            }
            if kept < OUTPUT {
                kept += length;
                self.tell(Event::ShellOutput(pieces.next(bytes.get(..length).unwrap_or_default())));
                if kept >= OUTPUT {
                    self.tell(Event::ShellOutput("\n[the rest is left out]\n".to_owned()));
                }
            }
        }
        let rest = pieces.rest();
        if kept < OUTPUT && !rest.is_empty() {
            self.tell(Event::ShellOutput(rest));
        }
    }
}

/// Text that comes in pieces, whose borders may be within a character.
#[derive(Debug, Default)]
struct Pieces {
    unfinished: Vec<u8>,
}

impl Pieces {
    /// The text of a piece, as far as its characters are whole.
    fn next(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.unfinished);
        bytes.extend_from_slice(piece);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let (invalid, is_last) = (chunk.invalid(), chunks.peek().is_none());
            // What is no character yet may be one with the next piece.
            match std::str::from_utf8(invalid) {
                Err(error) if is_last && error.error_len().is_none() => self.unfinished.extend_from_slice(invalid),
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
                Ok(_) => {}
            }
        }
        text
    }

    /// What is left at the end.
    fn rest(self) -> String {
        String::from_utf8_lossy(&self.unfinished).into_owned()
    }
}

/// Ends a command with all that it has started in its group.
async fn end(group: Option<Pid>, child: &mut Child) {
    if let Some(group) = group {
        // A group that is gone has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait().await;
}
