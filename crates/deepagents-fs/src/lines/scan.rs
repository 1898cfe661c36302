//! Reads windows of lines from a file in chunks.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use super::{LineRange, LineWindow, Scanner};
use crate::search::Control;
use crate::{FsError, Stat, VPath};

/// Number of bytes read from a file at a time.
const CHUNK: usize = 64 << 10;
/// Time limit for finding a window of lines.
pub(crate) const SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a window of lines from a file that is positioned at its start.
pub(crate) fn scan(
    path: &VPath,
    mut file: impl Read,
    stat: &Stat,
    range: LineRange,
    control: &Control,
) -> Result<LineWindow, FsError> {
    let mut scanner = Scanner::new(range, stat.size);
    let mut chunk = vec![0; CHUNK];
    loop {
        if control.stopped() {
            let reason = format!(
                "its lines up to number {} take longer to pass over than {} s; search it with grep instead",
                range.offset.saturating_add(1),
                SCAN_TIMEOUT.as_secs()
            );
            return Err(FsError::TimedOut { path: path.clone(), reason });
        }
        match file.read(&mut chunk) {
            Ok(0) => {
                scanner.finish_file();
                break;
            }
            Ok(n) if scanner.feed(chunk.get(..n).unwrap_or_default()) => {}
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(FsError::from_io(path, &error)),
        }
    }
    Ok(scanner.into_window(stat.version.clone()))
}
