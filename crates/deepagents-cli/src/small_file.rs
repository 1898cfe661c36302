//! Small files that somebody else may have put where they are looked for.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of such a file.
const MOST: u64 = 1 << 20;

/// The text of a file; nothing where there is none.
///
/// # Errors
/// When it is no file but a pipe or a device, which may never end, when it has more than 1 MB, or cannot be read.
pub(crate) fn read(file: &Path) -> io::Result<Option<String>> {
    // A pipe without a writer is opened at once this way, to be refused.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let open = match OpenOptions::new().read(true).custom_flags(nonblocking).open(file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        opened => opened?,
    };
    if !open.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = String::new();
    open.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it has more than 1 MB"));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_small_file_is_refused_at_once() {
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
