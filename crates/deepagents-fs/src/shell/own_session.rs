//! A session of its own for a command without a sandbox: it has no terminal, so that it writes no sequence to that of the
//! person and reads nothing that is typed there. What asks at a terminal, such as for a password, finds none and fails.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use rustix::fs::{Access, access};

/// What starts a program in a session.
static SETSID: LazyLock<Option<&'static str>> =
    LazyLock::new(|| ["/usr/bin/setsid", "/bin/setsid"].into_iter().find(|path| is_program(Path::new(path))));

/// Waits until what ends the command with this program is there, which a line on its standard error says, and becomes the
/// command. When this program has ended before, nothing does.
const GATE: &str = r#"read -r _deepagents_gate <&2 || exit 125; unset _deepagents_gate; exec "$@" 2>&1"#;

/// A program that is to lead a session, and whether it waits for a line on its standard error before it begins. Where the
/// system cannot see to that, it stays in the session of this program.
pub(super) fn command(program: &Path) -> (Command, bool) {
    match *SETSID {
        // What is not there is told by starting it.
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
