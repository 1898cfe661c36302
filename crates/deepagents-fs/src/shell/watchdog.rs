//! Ends unconfined commands when this program is killed.

use std::io::{PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Waits for the end of its input, to which nobody writes and which is closed when this program ends. Then kills the
/// process group.
const OWN_GROUP: &str = "trap '' HUP INT QUIT TERM; read -r line; kill -s KILL 0";
/// The same for another process group, whose number is the first line of input.
const OTHER_GROUP: &str = "trap '' HUP INT QUIT TERM; read -r group || exit; read -r line; kill -s KILL -- \"-$group\"";

/// A small process that kills a process group if this program ends first. In a sandbox, the kernel does this; an
/// unconfined command needs a watchdog. It is started before the command, so that the command is never without it.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    /// The watched process group, if it is not the watchdog's own.
    group: Option<Pid>,
    /// Closed when this program ends, however it ends.
    alive: PipeWriter,
}

impl Watchdog {
    /// Creates a process group in which a command can be started.
    pub(super) fn start() -> std::io::Result<Self> {
        Self::with(OWN_GROUP)
    }

    /// Creates a watchdog for a command that leads its own process group.
    pub(super) fn for_another() -> std::io::Result<Self> {
        Self::with(OTHER_GROUP)
    }

    fn with(script: &str) -> std::io::Result<Self> {
        let (input, alive) = std::io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "deepagents-watchdog"]).env_clear().process_group(0);
        let process = command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { process, group: None, alive })
    }

    /// Watches the group that `leader` leads. `leader` must not be reaped before this is dropped.
    pub(super) fn watch(&mut self, leader: Pid) -> std::io::Result<()> {
        self.group = Some(leader);
        writeln!(self.alive, "{}", leader.as_raw_nonzero())
    }

    /// Returns the process group. Its number is not reused while this exists.
    pub(super) fn group(&self) -> Pid {
        self.group.unwrap_or_else(|| Pid::from_child(&self.process))
    }
}

impl Drop for Watchdog {
    /// Ends the watchdog after the rest of the group has ended. The pipe stays open until the watchdog no longer reads
    /// it.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
