//! Processes of the user's commands.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// Time limit for the remaining output once a command has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The program that starts another one in a new session.
static SETSID: LazyLock<Option<&'static str>> = LazyLock::new(|| {
    ["/usr/bin/setsid", "/bin/setsid"].into_iter().find(|path| access(*path, Access::EXEC_OK).is_ok())
});

/// Builds a command for the user's shell. Where possible, it runs without a controlling terminal: otherwise it could
/// write over the interface and read what is typed there.
pub(super) fn command(shell: &str, text: &str, directory: &Path) -> Command {
    let mut command = match *SETSID {
        Some(setsid) => {
            let mut command = Command::new(setsid);
            command.arg(shell);
            command
        }
        None => {
            let mut command = Command::new(shell);
            command.process_group(0);
            command
        }
    };
    command.arg("-c").arg(text).current_dir(directory).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Waits until a command has exited and `reading` has read its output. Returns its status, and whether all was read:
/// processes left in the background continue once the command has exited, and may hold the output open indefinitely.
pub(super) async fn wait(child: &mut Child, group: Group, reading: impl Future) -> io::Result<(ExitStatus, bool)> {
    let mut reading = std::pin::pin!(reading);
    let mut is_read = false;
    let status = loop {
        tokio::select! {
            _ = &mut reading, if !is_read => is_read = true,
            status = child.wait() => break status?,
        }
    };
    group.release();
    Ok((status, is_read || tokio::time::timeout(DRAIN_TIMEOUT, reading).await.is_ok()))
}

/// The process group of a command. It is killed on drop, unless released.
#[derive(Debug)]
pub(super) struct Group(Option<Pid>);

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Releases the group: processes that still run continue, as in a shell.
    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            // The group may have exited already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
