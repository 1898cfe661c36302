//! Shell commands of the user.

use std::process::Stdio;

use futures_util::future::join;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::Session;
use super::process::{self, Group};
use crate::app::event::Event;

/// Maximum bytes of output that are kept.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

impl Session {
    /// Runs a command in the root with the user's own shell and environment.
    pub(super) fn shell(&self, command: String) {
        let job = self.new_job();
        self.spawn(|this| async move {
            this.run_and_report(&command, job).await;
            this.follow_again();
            Ok(None)
        });
    }

    /// Runs a command beside the current work, which continues.
    pub(super) fn shell_in_background(&self, command: String) {
        let job = CancellationToken::new();
        self.with(|state| state.background_shell = job.clone());
        self.spawn(|this| async move {
            this.run_and_report(&command, job).await;
            Ok(None)
        });
    }

    async fn run_and_report(&self, command: &str, job: CancellationToken) {
        let code = match self.run_shell(command, job).await {
            Ok(code) => code,
            Err(error) => {
                self.emit(Event::ShellOutput(format!("the command cannot be run: {error}\n")));
                Some(127)
            }
        };
        self.emit(Event::ShellEnded { code });
    }

    async fn run_shell(&self, text: &str, job: CancellationToken) -> std::io::Result<Option<i32>> {
        let mut command = process::command(&self.shell, text, &self.root);
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let group = Group::of(&child);
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let ended = tokio::select! {
            ended = process::wait(&mut child, group, join(self.read(out), self.read(err))) => Some(ended?),
            () = job.cancelled() => None,
        };
        let Some((status, is_read)) = ended else {
            let _ = child.start_kill();
            let _ = child.wait().await;
            return Ok(None);
        };
        if !is_read {
            self.emit(Event::ShellOutput(
                "[processes that it started are still running; their output is not shown]\n".to_owned(),
            ));
        }
        Ok(status.code())
    }

    async fn read(&self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let (mut bytes, mut kept, mut pieces) = (vec![0; 16 * 1024], 0, Pieces::default());
        while let Ok(length) = from.read(&mut bytes).await {
            if length == 0 {
                break;
            }
            if kept < MAX_OUTPUT_BYTES {
                kept += length;
                self.emit(Event::ShellOutput(pieces.next(bytes.get(..length).unwrap_or_default())));
                if kept >= MAX_OUTPUT_BYTES {
                    self.emit(Event::ShellOutput("\n[the rest is left out]\n".to_owned()));
                }
            }
        }
        let rest = pieces.flush();
        if kept < MAX_OUTPUT_BYTES && !rest.is_empty() {
            self.emit(Event::ShellOutput(rest));
        }
    }
}

/// Decodes text from chunks that may split a character.
#[derive(Debug, Default)]
struct Pieces {
    unfinished: Vec<u8>,
}

impl Pieces {
    /// Returns the text of a chunk, up to its last complete character.
    fn next(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.unfinished);
        bytes.extend_from_slice(piece);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let (invalid, is_last) = (chunk.invalid(), chunks.peek().is_none());
            // The next chunk may complete the character.
            match std::str::from_utf8(invalid) {
                Err(error) if is_last && error.error_len().is_none() => self.unfinished.extend_from_slice(invalid),
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
                Ok(_) => {}
            }
        }
        text
    }

    /// Returns the remainder at the end.
    fn flush(self) -> String {
        String::from_utf8_lossy(&self.unfinished).into_owned()
    }
}
