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
    let damaged = || io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    let text = |bytes| String::from_utf8(bytes).map_err(|_| damaged());
    bytes(file, MOST)?.map(text).transpose()
}

/// A text without the byte order mark that some editors put before it.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The bytes of a file, which may be this many; nothing where there is none.
///
/// # Errors
/// As for [`read`].
pub(crate) fn bytes(file: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    // A pipe without a writer is opened at once this way, to be refused.
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
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {} MB", most >> 20)));
    }
    Ok(Some(bytes))
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
