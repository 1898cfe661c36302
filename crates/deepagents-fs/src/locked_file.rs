//! Files of the user that several programs read and change, such as settings and records.
//!
//! These are host files, not files of a [`Backend`](crate::Backend). All functions here block.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Permission bits that are preserved, and the mode of a file that only the user may access.
#[cfg(unix)]
const MODE: u32 = 0o777;
const SECRET: u32 = 0o600;
/// Maximum number of links followed to a file that does not exist, as in the kernel.
const MAX_LINKS: usize = 40;

/// Exclusive lock on a file, released on drop. A program that acquires it before reading the file and holds it until
/// the write is complete does not lose updates by other programs.
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
    /// Acquires the lock, waiting for any other holder. Writing replaces the file, so the lock is held on a separate
    /// lock file beside it, which is not removed. If the path is a symbolic link, the lock is that of its target, so it
    /// excludes holders that reach the file by another name.
    ///
    /// # Errors
    /// Returns an error if the lock file cannot be created.
    pub fn take(file: &Path) -> io::Result<Self> {
        let file = resolve_target(file)?;
        make_directory(directory(&file))?;
        let mut name = file.into_os_string();
        name.push(".lock");
        let open = private().create(true).truncate(false).write(true).open(PathBuf::from(name))?;
        open.lock()?;
        Ok(Self { _open: open })
    }
}

/// Replaces the content of a file atomically and durably: it is the new one also after a loss of power. An existing file
/// keeps its mode; a new one gets 0600, and directories created for it 0700. If the path is a symbolic link, this
/// replaces its target and keeps the link.
///
/// # Errors
/// Returns an error if the file cannot be written; it is unchanged then, unless only its directory could not be stored.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    put(file, bytes, mode_of(file))
}

/// Like [`replace`], for a file that holds secrets: the file is always given mode 0600.
///
/// # Errors
/// Returns an error in the same cases as [`replace`].
pub fn replace_secret(file: &Path, bytes: &[u8]) -> io::Result<()> {
    put(file, bytes, None)
}

/// Writes a file that only the user may access, or that has the access rights of the existing file, which has a mode.
fn put(file: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let file = resolve_target(file)?;
    let directory = directory(&file);
    make_directory(directory)?;
    let (new, mut open) = new_beside(&file)?;
    let written = open
        .write_all(bytes)
        .and_then(|()| set_mode(&open, mode.map_or(SECRET, |mode| mode & rights(&file, &open))))
        .and_then(|()| open.sync_all())
        .and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        // Removing it may fail for the same reason as the write.
        let _ = fs::remove_file(&new);
    }
    written?;
    sync_directory(directory)
}

/// Stores a directory's entries on the disk, so that a renamed file is found there after a loss of power. File systems
/// that cannot do that for directories are not an error.
#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    let open = File::open(directory);
    match open.and_then(|open| open.sync_all()) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the path to write: what symbolic links lead to, even if it does not exist yet.
fn resolve_target(file: &Path) -> io::Result<PathBuf> {
    let mut file = file.to_owned();
    for _ in 0..MAX_LINKS {
        let error = match file.canonicalize() {
            Ok(real) => return Ok(real),
            Err(error) => error,
        };
        match file.read_link() {
            Ok(target) if error.kind() == io::ErrorKind::NotFound => file = directory(&file).join(target),
            Ok(_) => return Err(error),
            Err(_) => return Ok(file),
        }
    }
    Err(io::Error::other(format!("{} is at the end of too many symbolic links", file.display())))
}

/// Creates a new file beside another.
fn new_beside(file: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{:016x}.new", fastrand::u64(..)));
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

/// Gives a file the group and the access control list of another. Returns the permission bits that it may have then: if
/// that failed, those of its group would give access to others.
#[cfg(unix)]
fn rights(there: &Path, file: &File) -> u32 {
    use crate::attributes::{copy, give_group};

    let group = there.metadata().map(|about| std::os::unix::fs::MetadataExt::gid(&about));
    let has_group = group.is_ok_and(|group| give_group(file, group));
    if copy(there, file) && has_group { MODE } else { MODE & !0o070 }
}

#[cfg(not(unix))]
fn rights(_: &Path, _: &File) -> u32 {
    SECRET
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}
