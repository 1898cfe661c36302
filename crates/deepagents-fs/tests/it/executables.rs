//! Programs that tests create and run.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Creates an executable with this content. A child process writes it: a process forked by another test could inherit
/// our descriptor, and a file that is open for writing cannot be executed.
pub(crate) fn make(path: &Path, text: impl AsRef<[u8]>) {
    let script = "cat > \"$0\" && chmod 755 \"$0\"";
    let mut writer = Command::new("sh").args(["-c", script]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
    assert!(writer.wait().unwrap().success());
}
