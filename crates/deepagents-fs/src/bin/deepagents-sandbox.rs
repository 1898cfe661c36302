//! The sandbox helper for programs that are not their own helper. Run manually, it prints what the sandbox provides on
//! this machine.

use std::io::Write;
use std::process::ExitCode;

use deepagents_fs::sandbox::{Level, Sandbox, init};

fn main() -> ExitCode {
    init();
    let report = Sandbox::new().probe();
    let told = writeln!(std::io::stdout(), "{report}");
    if told.is_err() || report.level == Level::None { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
