//! The process of a server, in its own process group, so that its descendants end with it.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::servers::Groups;

/// How long a server may take to exit after its stdin is closed.
const EOF_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How long it may take after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_millis(500);

/// The exit status, once the process has ended.
pub(crate) type Ending = watch::Receiver<Option<ExitStatus>>;

/// A process group leader. Dropping it kills the group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    groups: Groups,
    ending: watch::Sender<Option<ExitStatus>>,
}

impl Process {
    /// Wraps a child that leads a process group.
    pub(super) fn new(child: Child, groups: Groups) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            groups.add(group);
        }
        Self { child, group, groups, ending: watch::Sender::new(None) }
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending.subscribe()
    }

    /// Waits for the process to exit after its stdin was closed. Sends SIGTERM, then SIGKILL, if it does not.
    pub(super) async fn end(&mut self) {
        for (grace, signal) in [(EOF_TIMEOUT, Signal::TERM), (TERM_TIMEOUT, Signal::KILL)] {
            if let Ok(ended) = timeout(grace, self.child.wait()).await {
                self.ending.send_replace(ended.ok());
                break;
            }
            self.signal(signal);
        }
        // Descendants may have outlived it.
        self.kill();
        // A killed process may be unable to exit, for example in uninterruptible I/O, so the wait is limited.
        if let Ok(Ok(status)) = timeout(TERM_TIMEOUT, self.child.wait()).await {
            self.ending.send_replace(Some(status));
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may have exited already.
            let _ = kill_process_group(group, signal);
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        if let Some(group) = self.group.take() {
            self.groups.remove(group);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
