//! The sandbox helper for programs that are not their own. It is started by them and of no use to people.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    deepagents_fs::sandbox::init();
    let _ = writeln!(std::io::stderr(), "this program is started by deepagents to run commands in a sandbox");
    ExitCode::from(2)
}
