//! Programs that tests make and then run.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a program with this text, or these bytes. Another process writes it: while this one has a file open for writing,
/// another test may start a process that holds it a moment longer, and a file that is being written cannot be run.
pub(crate) fn make(path: &Path, text: impl AsRef<[u8]>) {
    let script = "cat > \"$0\" && chmod 755 \"$0\"";
    let mut writer = Command::new("sh").args(["-c", script]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
    assert!(writer.wait().unwrap().success());
}
