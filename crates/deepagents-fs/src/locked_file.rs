//! Files of the user's own that several programs read and change, such as settings and records.
//!
//! These are files of the machine, and none of a [`Backend`](crate::Backend). What is done here blocks.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a mode that are kept, and those of a file that is the user's alone.
#[cfg(unix)]
const MODE: u32 = 0o777;
const SECRET: u32 = 0o600;

/// Has a file for itself until it is dropped: whoever takes it before reading the file and holds it until the file is written
/// loses nothing that another program writes meanwhile.
///
/// ```
/// use deepagents_fs::locked_file::{FileLock, replace};
/// # let dir = tempfile::tempdir()?;
/// # let file = dir.path().join("settings.json");
/// let _lock = FileLock::take(&file)?;
/// let settings = std::fs::read_to_string(&file).unwrap_or_default();
/// replace(&file, format!("{settings}\n").as_bytes())?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileLock {
    _open: File,
}

impl FileLock {
    /// Waits until no other program has the file. The file itself is replaced, so the lock is another one beside it, which
    /// stays.
    ///
    /// # Errors
    /// When there cannot be a file beside it.
    pub fn take(file: &Path) -> io::Result<Self> {
        make_directory(directory(file))?;
        let mut name = file.as_os_str().to_owned();
        name.push(".lock");
        let open = private().create(true).truncate(false).write(true).open(PathBuf::from(name))?;
        open.lock()?;
        Ok(Self { _open: open })
    }
}

/// Writes a file whole. One that is there keeps its mode; a new one has 0600, in a directory with 0700 where that is made. What
/// a link leads to is changed, and the link stays.
///
/// # Errors
/// When it cannot be written; it is as it was then.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    put(file, bytes, mode_of(file).unwrap_or(SECRET))
}

/// The same for a file that holds secrets, which is the user's alone whatever it was before.
///
/// # Errors
/// As for [`replace`].
pub fn replace_secret(file: &Path, bytes: &[u8]) -> io::Result<()> {
    put(file, bytes, SECRET)
}

fn put(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let file = led_to(file);
    let directory = directory(&file);
    make_directory(directory)?;
    let (new, mut open) = new_beside(&file)?;
    let written = open
        .write_all(bytes)
        .and_then(|()| set_mode(&open, mode))
        .and_then(|()| open.sync_all())
        .and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        // What could not be written may not be removed either.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Where a file is written: where a link leads, also where nothing is there yet.
fn led_to(file: &Path) -> PathBuf {
    let absent = |_| fs::read_link(file).map_or_else(|_| file.to_owned(), |target| directory(file).join(target));
    file.canonicalize().unwrap_or_else(absent)
}

/// A new file in the directory of another one. A name that a killed process has left is passed over.
fn new_beside(file: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{}-{}.new", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        match private().create_new(true).write(true).open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((PathBuf::from(&name), opened?)),
        }
    }
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, SECRET);
    options
}

#[cfg(unix)]
fn mode_of(file: &Path) -> Option<u32> {
    let about = file.metadata().ok()?;
    Some(std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & MODE)
}

#[cfg(not(unix))]
fn mode_of(_: &Path) -> Option<u32> {
    None
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}
