//! Starts a server in its own session. Without a controlling terminal it cannot write escape sequences to the user's
//! terminal or read what is typed there.

use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{Access, access};
use tokio::process::Command;

/// The `setsid` program, if installed.
static SETSID: LazyLock<Option<&'static str>> =
    LazyLock::new(|| ["/usr/bin/setsid", "/bin/setsid"].into_iter().find(|path| is_program(Path::new(path))));

/// Returns a command that leads a process group, and also a session if `setsid` is installed.
pub(super) fn command(program: &str, path: Option<&str>, directory: Option<&Path>) -> Command {
    match *SETSID {
        // A missing program is started directly, so that the error names it.
        Some(setsid) if is_there(program, path, directory) => {
            let mut command = Command::new(setsid);
            command.arg(program);
            command
        }
        _ => {
            let mut command = Command::new(program);
            command.process_group(0);
            command
        }
    }
}

fn is_there(program: &str, path: Option<&str>, directory: Option<&Path>) -> bool {
    if program.starts_with('-') {
        return false;
    }
    if program.contains('/') {
        return is_program(&directory.unwrap_or(Path::new(".")).join(program));
    }
    path.unwrap_or_default().split(':').any(|place| !place.is_empty() && is_program(&Path::new(place).join(program)))
}

fn is_program(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}
