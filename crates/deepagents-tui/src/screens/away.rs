//! Hands the terminal over to the shell or to an editor for a while.

use std::io::{self, Write};
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};

use super::{QUIT_TIMEOUT, Screens, TuiError};
use crate::terminal::{size, write};

impl Screens {
    /// Stops the program and returns the terminal to the shell until the user resumes it.
    pub(super) async fn suspend(&mut self) -> Result<(), TuiError> {
        self.hand_over().await?;
        stop_process()?;
        // If the terminal is gone, the main loop learns it from the signal or the next write.
        let _ = self.modes.resume();
        self.returned();
        Ok(())
    }

    /// Erases the live area and leaves the terminal to another program.
    async fn hand_over(&mut self) -> io::Result<()> {
        self.output.written_if_busy().await;
        self.surface.leave();
        write(&self.surface.take())?;
        self.modes.suspend()?;
        self.input.suspend();
        Ok(())
    }

    /// Goes on once the terminal is back: its size may have changed, and everything is drawn again.
    fn returned(&mut self) {
        self.input.resume();
        (self.app.size, self.app.repaint) = (size(), true);
    }

    /// Lets the user edit a text in an external editor.
    pub(super) async fn edit(&mut self, text: String) -> Result<String, String> {
        let file = tempfile::Builder::new().prefix("message-").suffix(".md").tempfile();
        let mut file = file.map_err(|error| format!("no file for the editor can be created: {error}"))?;
        file.write_all(text.as_bytes())
            .map_err(|error| format!("the text for the editor cannot be written: {error}"))?;
        let path = file.into_temp_path();
        self.hand_over().await.map_err(|error| error.to_string())?;
        let editor = self.host.editor();
        // The editor setting may contain arguments.
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{}{editor} \"$1\"", in_place(&editor))).arg("editor").arg(&path);
        let status = at_editor(command, &mut self.signals.stop).await;
        self.modes.take_back().map_err(|error| error.to_string())?;
        self.returned();
        match status {
            Ok(status) if status.success() => std::fs::read_to_string(&path)
                .map_err(|error| format!("the text from the editor cannot be read: {error}")),
            Ok(status) => Err(format!("the editor `{editor}` ended with {status}; the text is unchanged")),
            Err(error) => Err(format!("the editor `{editor}` cannot be run: {error}")),
        }
    }
}

/// Stops this process until the user resumes it.
fn stop_process() -> io::Result<()> {
    // SIGSTOP, because SIGTSTP has a handler that has already run.
    kill_process(getpid(), Signal::STOP).map_err(io::Error::from)
}

/// Runs an editor until it exits. A signal that terminates the program also terminates the editor; the main loop then
/// receives the same signal. An editor that is suspended suspends its whole process group, and the program with it.
async fn at_editor(mut command: Command, stop: &mut unix::Signal) -> io::Result<ExitStatus> {
    let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let mut editor = command.spawn()?;
    loop {
        tokio::select! {
            status = editor.wait() => return status,
            _ = stop.recv() => stop_process()?,
            _ = terminate.recv() => break,
            _ = hangup.recv() => break,
        }
    }
    end_editor(&editor);
    match tokio::time::timeout(QUIT_TIMEOUT, editor.wait()).await {
        Ok(status) => status,
        Err(_) => {
            editor.kill().await?;
            editor.wait().await
        }
    }
}

/// Makes the shell replace itself with the editor if the setting is a single command, so that a signal to the shell's
/// process reaches the editor.
fn in_place(editor: &str) -> &'static str {
    let sets_variable = editor.split_whitespace().next().is_some_and(|word| word.contains('='));
    let is_more = editor.contains([';', '|', '&', '<', '>', '(', '\n']);
    if sets_variable || is_more { "" } else { "exec " }
}

/// Sends SIGTERM to an editor.
fn end_editor(editor: &Child) {
    let pid = editor.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // The editor may already have exited.
        let _ = kill_process(pid, Signal::TERM);
    }
}
