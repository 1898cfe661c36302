//! Runs an unconfined command in its own process session, without a terminal. It can neither write control sequences to
//! the user's terminal nor read what is typed there. Programs that prompt on the terminal, for example for a password,
//! find none and fail.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use rustix::fs::{Access, access};

/// Program that starts another one in a new session.
static SETSID: LazyLock<Option<&'static str>> =
    LazyLock::new(|| ["/usr/bin/setsid", "/bin/setsid"].into_iter().find(|path| is_program(Path::new(path))));

/// Waits for a line on standard error, which arrives once the watchdog is ready, and then executes the command. If this
/// program has already ended, the command is not run.
const GATE: &str = r#"read -r _deepagents_gate <&2 || exit 125; unset _deepagents_gate; exec "$@" 2>&1"#;

/// Returns the command that runs a program as a session leader, and whether it waits for a line on its standard error.
/// If the system has no `setsid`, the program stays in this program's session.
pub(super) fn command(program: &Path) -> (Command, bool) {
    match *SETSID {
        // A missing program is reported when it is started.
        Some(setsid) if program.is_absolute() && is_program(program) => {
            let mut command = Command::new(setsid);
            command.args(["/bin/sh", "-c", GATE, "deepagents-gate"]).arg(program);
            (command, true)
        }
        _ => (Command::new(program), false),
    }
}

fn is_program(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}
