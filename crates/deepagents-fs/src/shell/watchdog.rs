//! An end for commands without a sandbox that holds when this program is killed.

use std::io::PipeWriter;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Waits for the end of its input, which nobody writes to: it comes when this program is gone. All of the process group
/// ends then.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; read -r line; kill -s KILL 0";

/// A small process that leads a process group and ends it if this program ends before it. In a sandbox the kernel sees to
/// that; without one nobody else would be left to. It is there before the command is, so that no moment is without it.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    /// Closed when this program ends, however it does.
    _alive: PipeWriter,
}

impl Watchdog {
    /// Begins a process group, for a command to be started in.
    pub(super) fn start() -> std::io::Result<Self> {
        let (input, alive) = std::io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "deepagents-watchdog"]).env_clear().process_group(0);
        let process = command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { process, _alive: alive })
    }

    /// The process group. Its number is nobody else's for as long as this is there.
    pub(super) fn group(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Watchdog {
    /// The rest of the group has ended. The pipe is closed only once nobody reads it any more.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
