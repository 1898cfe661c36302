//! Reading small files that somebody else may have placed.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum size in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the text of a file; `None` if it does not exist.
///
/// # Errors
/// Returns an error if it is not a regular file (a pipe or a device may never end), is larger than 1 MB, is not UTF-8,
/// or cannot be read.
pub(crate) fn read(file: &Path) -> io::Result<Option<String>> {
    let damaged = || io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    let text = |bytes| String::from_utf8(bytes).map_err(|_| damaged());
    bytes(file, MAX_BYTES)?.map(text).transpose()
}

/// Strips the byte order mark that some editors write.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads the bytes of a file of at most `most` bytes; `None` if it does not exist.
///
/// # Errors
/// Returns an error as [`read`] does, except that any bytes are accepted.
pub(crate) fn bytes(file: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    // A pipe without a writer then opens at once and can be refused.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let open = match OpenOptions::new().read(true).custom_flags(nonblocking).open(file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        opened => opened?,
    };
    if !open.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    open.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {} MB", most >> 20)));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_and_large_files_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(read(&at("none")).unwrap().is_none());
        std::fs::write(at("small"), "text").unwrap();
        assert_eq!(read(&at("small")).unwrap().as_deref(), Some("text"));
        assert!(read(&at("small/below")).unwrap().is_none());
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        std::fs::File::create(at("large")).unwrap().set_len(8 << 30).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        for name in ["pipe", "large", "device", "."] {
            assert!(read(&at(name)).is_err(), "{name}");
        }
    }
}
