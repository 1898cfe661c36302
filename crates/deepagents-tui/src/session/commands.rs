//! The user's commands for the status line and for notifications.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::process::{self, Group};
use super::{Result, Session};
use crate::app::event::Event;

/// Time limit for such a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum characters of the status line, and maximum bytes read for it.
const MAX_LINE_CHARS: usize = 300;
const MAX_READ_BYTES: u64 = 64 * 1024;

impl Session {
    /// Updates the status line. One command runs at a time; it runs again if the status changes meanwhile.
    pub(super) fn status_line(&self, status: String) {
        let Some(command) = self.status_command.clone() else { return };
        let runs = self.with(|state| {
            state.status = Some(status);
            std::mem::replace(&mut state.status_runs, true)
        });
        if runs {
            return;
        }
        self.spawn(|this| async move {
            let next = || {
                this.with(|state| {
                    state.status_runs = state.status.is_some();
                    state.status.take()
                })
            };
            while let Some(status) = next() {
                let show = |line: &str| this.emit(Event::StatusLine(line.chars().take(MAX_LINE_CHARS).collect()));
                if let Err(problem) = this.run_with(&command, &status, show).await {
                    show(&format!("status_line: {problem}"));
                }
            }
            Ok(None)
        });
    }

    /// Runs the user's notification command.
    pub(crate) fn notify(&self, message: &str) {
        let Some(command) = self.notify_command.clone() else { return };
        let told = json!({
            "event": "notification",
            "message": message,
            "thread": self.thread(),
            "directory": self.root,
        });
        self.spawn(|this| async move {
            let run = this.run_with(&command, &told.to_string(), |_| ()).await;
            run.map_err(|problem| format!("notify.command: {problem}"))?;
            Ok(None)
        });
    }

    /// Runs a command of the user in the root with `input` on stdin, and passes on its first line as soon as it is
    /// complete. On timeout, the command is killed with all processes it has started.
    async fn run_with(&self, text: &str, input: &str, first: impl Fn(&str)) -> Result<()> {
        let mut command = process::command(&self.shell, text, &self.root);
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let group = Group::of(&child);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let told = async {
            if let Some(mut stdin) = stdin {
                // The command may ignore its input.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let (mut line, mut is_shown) = (Vec::new(), false);
        let reading = async {
            let Some(stdout) = stdout else { return };
            let mut stdout = BufReader::new(stdout.take(MAX_READ_BYTES));
            // After a read error, the bytes read so far are used.
            let _ = stdout.read_until(b'\n', &mut line).await;
            is_shown = line.ends_with(b"\n");
            if is_shown {
                first(String::from_utf8_lossy(&line).trim_end());
            }
            let mut rest = stdout.into_inner().into_inner();
            let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
        };
        let running = process::wait(&mut child, group, futures_util::future::join(told, reading));
        let (status, _) = tokio::time::timeout(COMMAND_TIMEOUT, running)
            .await
            .map_err(|_| format!("it took longer than {} seconds", COMMAND_TIMEOUT.as_secs()))??;
        if !status.success() {
            return Err(format!("it ended with {status}").into());
        }
        if !is_shown {
            first(&String::from_utf8_lossy(&line));
        }
        Ok(())
    }
}
