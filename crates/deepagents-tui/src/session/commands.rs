//! The person's own commands for the line below the input and for notifications.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::Session;
use crate::app::event::Event;

/// How long such a command may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Characters of the line.
const LINE: usize = 300;

impl Session {
    /// Has the line below the input made; only the newest is shown.
    pub(super) fn status_line(&self, status: String) {
        let Some(command) = self.status_command.clone() else { return };
        let number = self.with(|state| {
            state.status_number += 1;
            state.status_number
        });
        let this = self.clone();
        self.spawn(async move {
            let text = match this.run_with(&command, &status).await {
                Ok(text) => text,
                Err(problem) => format!("status_line: {problem}"),
            };
            let is_newest = this.with(|state| state.status_number == number);
            let line: String = text.lines().next().unwrap_or_default().chars().take(LINE).collect();
            is_newest.then_some(Event::StatusLine(line))
        });
    }

    /// Tells the person's command that the agent waits or is done.
    pub(crate) fn notify(&self, message: &str) {
        let Some(command) = self.notify_command.clone() else { return };
        let told = json!({
            "event": "notification",
            "message": message,
            "thread": self.thread(),
            "directory": self.root,
        });
        let this = self.clone();
        self.spawn(async move {
            let problem = this.run_with(&command, &told.to_string()).await.err()?;
            Some(Event::Notice { text: format!("notify.command: {problem}"), bad: true })
        });
    }

    /// Runs a command of the person in the root, with a text on its stdin; returns what it prints.
    async fn run_with(&self, text: &str, input: &str) -> Result<String, String> {
        let mut command = Command::new(&self.shell);
        command.arg("-c").arg(text).current_dir(&self.root).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdin = child.stdin.take();
        let told = async {
            if let Some(mut stdin) = stdin {
                // A command that does not read need not be told.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let ended = async { tokio::join!(told, child.wait_with_output()).1 };
        let output = tokio::time::timeout(PATIENCE, ended)
            .await
            .map_err(|_| format!("it took more than {} seconds", PATIENCE.as_secs()))?
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("it ended with {}", output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
