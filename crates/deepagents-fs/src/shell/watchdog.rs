//! An end for commands without a sandbox that holds when this program is killed.

use std::io::{PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Waits for a line. Where there is none and nobody is left to write one, the program was killed: the process group ends.
const SCRIPT: &str = r#"trap '' HUP INT QUIT TERM; read -r line || kill -s KILL -- "-$1""#;

/// A small process that ends a process group if this program ends before it has said that the group did. In a sandbox the
/// kernel sees to that; without one nobody else would be left to.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    line: Option<PipeWriter>,
}

impl Watchdog {
    /// Watches over a process group.
    pub(super) fn over(group: Pid) -> std::io::Result<Self> {
        let (input, line) = std::io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "deepagents-watchdog", &group.as_raw_nonzero().to_string()]);
        // A group of its own: what ends the program's own does not end it.
        let command = command.env_clear().stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self { process: command.spawn()?, line: Some(line) })
    }
}

impl Drop for Watchdog {
    /// The group has ended.
    fn drop(&mut self) {
        // Were the pipe closed without a line, a group of the same number could be ended.
        let told = self.line.as_mut().is_some_and(|line| line.write_all(b"\n").is_ok());
        if !told {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
