//! Commands of the person, and files that the person asks for.

use std::path::{Component, Path, PathBuf};
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
        let (mut bytes, mut kept) = (vec![0; 16 * 1024], 0);
        while let Ok(length) = from.read(&mut bytes).await {
            if length == 0 {
                return;
            }
            if kept < OUTPUT {
                kept += length;
                let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
                self.tell(Event::ShellOutput(text));
                if kept >= OUTPUT {
                    self.tell(Event::ShellOutput("\n[the rest is left out]\n".to_owned()));
                }
            }
        }
    }

    /// Writes the conversation to a file below the root.
    pub(super) fn export(&self, file: String, text: String) {
        let this = self.clone();
        self.spawn(async move {
            let result = match below(&this.root, &file) {
                Some(path) => {
                    let written = tokio::task::spawn_blocking({
                        let path = path.clone();
                        move || write(&path, &text)
                    });
                    match written.await {
                        Ok(Ok(())) => Ok(format!("the conversation is in {file}")),
                        Ok(Err(error)) => Err(format!("{file} cannot be written: {error}")),
                        Err(error) => Err(error.to_string()),
                    }
                }
                None => Err(format!("`{file}` is not below the directory; name a file that is")),
            };
            this.notice(result);
            None
        });
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(path, text)
}

/// A path below the root; nothing for one that leads out of it.
fn below(root: &Path, file: &str) -> Option<PathBuf> {
    let path = Path::new(file);
    let relative = path.strip_prefix(root).unwrap_or(path);
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (plain && !file.is_empty()).then(|| root.join(relative))
}

/// Ends a command with all that it has started in its group.
async fn end(group: Option<Pid>, child: &mut Child) {
    if let Some(group) = group {
        // A group that is gone has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait().await;
}
