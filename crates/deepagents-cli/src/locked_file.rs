//! Files of the user's that several programs change.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Has a file for itself until this is dropped: whoever reads it, changes it and writes it loses nothing that another program
/// has written meanwhile.
#[derive(Debug)]
pub(crate) struct Lock {
    _open: File,
}

/// Waits until no other program changes a file. The file itself is replaced, so the lock is another one that stays.
///
/// # Errors
/// When there cannot be a file beside it.
pub(crate) fn lock(file: &Path) -> io::Result<Lock> {
    make_directory(directory(file))?;
    let mut name = file.as_os_str().to_owned();
    name.push(".lock");
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(PathBuf::from(name))?;
    open.lock()?;
    Ok(Lock { _open: open })
}

/// Writes a file whole. One that is there keeps its mode; a new one has 0600, in a directory with 0700 where that is made.
///
/// # Errors
/// When it cannot be written; it is as it was then.
pub(crate) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mode = file.metadata().ok().map(|about| about.permissions().mode() & 0o777);
    put(file, bytes, mode.unwrap_or(0o600))
}

/// The same for a file that holds secrets, which is the user's alone whatever it was before.
///
/// # Errors
/// As for [`replace`].
pub(crate) fn replace_secret(file: &Path, bytes: &[u8]) -> io::Result<()> {
    put(file, bytes, 0o600)
}

fn put(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // What a link leads to is changed, and the link stays.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let directory = directory(&file);
    make_directory(directory)?;
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(bytes)?;
    new.as_file().set_permissions(Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist(&file).map_err(|error| error.error)?;
    Ok(())
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}
