//! An end for commands without a sandbox that holds when this program is killed.

use std::io::{PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Waits for the end of its input, which nobody writes to: it comes when this program is gone. All of the process group
/// ends then.
const OWN_GROUP: &str = "trap '' HUP INT QUIT TERM; read -r line; kill -s KILL 0";
/// The same for the group whose number comes first.
const OTHER_GROUP: &str = "trap '' HUP INT QUIT TERM; read -r group || exit; read -r line; kill -s KILL -- \"-$group\"";

/// A small process that ends a process group if this program ends before it. In a sandbox the kernel sees to that; without
/// one nobody else would be left to. It is there before the command is, so that no moment is without it.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    /// The group, where it is another one than its own.
    group: Option<Pid>,
    /// Closed when this program ends, however it does.
    alive: PipeWriter,
}

impl Watchdog {
    /// Begins a process group, for a command to be started in.
    pub(super) fn start() -> std::io::Result<Self> {
        Self::with(OWN_GROUP)
    }

    /// Waits for the group of a command that leads one itself.
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

    /// The group is that of this process, which has to lead one, and not to be waited for before this is dropped.
    pub(super) fn watch(&mut self, leader: Pid) -> std::io::Result<()> {
        self.group = Some(leader);
        writeln!(self.alive, "{}", leader.as_raw_nonzero())
    }

    /// The process group. Its number is nobody else's for as long as this is there.
    pub(super) fn group(&self) -> Pid {
        self.group.unwrap_or_else(|| Pid::from_child(&self.process))
    }
}

impl Drop for Watchdog {
    /// The rest of the group has ended. The pipe is closed only once nobody reads it any more.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
