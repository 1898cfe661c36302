//! A session of its own for a server: it has no terminal, so that it writes no sequence to that of the person and reads
//! nothing that is typed there.

use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{Access, access};
use tokio::process::Command;

/// What starts a program in a session.
static SETSID: LazyLock<Option<&'static str>> =
    LazyLock::new(|| ["/usr/bin/setsid", "/bin/setsid"].into_iter().find(|path| is_program(Path::new(path))));

/// A command that leads a process group, and a session where the system can see to that.
pub(super) fn command(program: &str, path: Option<&str>, directory: Option<&Path>) -> Command {
    match *SETSID {
        // What is not there is told by starting it.
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
