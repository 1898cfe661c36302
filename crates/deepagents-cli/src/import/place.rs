//! The target of an import: new files below a directory.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::part::{NEW, Part};

/// The directory that files are imported into.
///
/// No link below a project is followed: its author may have placed links that would make the import create or change
/// the user's files. Links in the user's own directories are followed.
pub(super) struct Place {
    root: PathBuf,
    links: OFlags,
    is_user: bool,
}

/// What exists at the path of a file.
pub(super) enum Existing {
    /// Nothing.
    Nothing,
    /// The same content.
    Same,
    /// Different content.
    Other,
    /// A link, at the path or on the way to it.
    Link(PathBuf),
    /// Something on the way that is not a directory, or at the path that is not a file.
    Odd(PathBuf),
}

/// The directory of a file, as far as it exists, or what is in the way.
type Ancestor<'a> = Result<(Option<OwnedFd>, &'a OsStr), Existing>;

impl Place {
    pub(super) fn new(root: &Path, is_user: bool) -> Self {
        let links = if is_user { OFlags::empty() } else { OFlags::NOFOLLOW };
        Self { root: root.to_owned(), links, is_user }
    }

    /// Whether a path leads out of the directory through links on the way or at its end. The user's own paths may.
    pub(super) fn leads_outside(&self, path: &Path) -> bool {
        let inside = |path: PathBuf| self.root.canonicalize().is_ok_and(|root| path.starts_with(root));
        !self.is_user && path.canonicalize().is_ok_and(|real| !inside(real))
    }

    /// Returns what exists at the path of a file with these bytes.
    pub(super) fn inspect(&self, to: &Path, bytes: &[u8]) -> io::Result<Existing> {
        match self.open_parent(to, false)? {
            Ok((Some(directory), name)) => self.compare(&directory, name, to, bytes),
            Ok((None, _)) => Ok(Existing::Nothing),
            Err(there) => Ok(there),
        }
    }

    /// Creates a file, whole or not at all, unless the program is killed on a file system without hard links. Any result
    /// but `Existing::Nothing` means that something was in the way.
    pub(super) fn make(&self, to: &Path, bytes: &[u8], mode: Mode) -> io::Result<Existing> {
        let (directory, name) = match self.open_parent(to, true)? {
            Ok((Some(directory), name)) => (directory, name),
            Ok((None, _)) => return Err(io::ErrorKind::NotFound.into()),
            Err(there) => return Ok(there),
        };
        // A later import would take a part of the file for a file of the user's.
        let mut part = Part::create(&directory, mode)?;
        let mut named = part.file.write_all(bytes).map(|()| part.link(name));
        drop(part);
        // On a file system without hard links, the file is written where it belongs.
        if matches!(named, Ok(Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS))) {
            named = match openat(&directory, name, NEW, mode) {
                Ok(file) => {
                    let written = File::from(file).write_all(bytes);
                    if written.is_err() {
                        let _ = unlinkat(&directory, name, AtFlags::empty());
                    }
                    written.map(Ok)
                }
                Err(error) => Ok(Err(error)),
            };
        }
        match named? {
            Ok(()) => Ok(Existing::Nothing),
            // Another process was faster, or it is a dangling link.
            Err(Errno::EXIST) => match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(about) if kind(&about) == FileType::Symlink => Ok(Existing::Link(to.to_owned())),
                _ => Ok(Existing::Other),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the directory of a file, creating missing parts if `make` is set.
    fn open_parent<'a>(&self, to: &'a Path, make: bool) -> io::Result<Ancestor<'a>> {
        let odd = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a path below the directory");
        let below = to.strip_prefix(&self.root).map_err(|_| odd())?;
        let (Some(above), Some(name)) = (below.parent(), below.file_name()) else { return Err(odd()) };
        let mode = if self.is_user { Mode::RWXU } else { Mode::RWXU | Mode::RWXG | Mode::RWXO };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, &self.root, flags, Mode::empty())?;
        let mut path = self.root.clone();
        for part in above.components() {
            let Component::Normal(part) = part else { return Err(odd()) };
            path.push(part);
            let open = |at: &OwnedFd| openat(at, part, flags | self.links, Mode::empty());
            let opened = match open(&at) {
                Err(Errno::NOENT) if make => {
                    match mkdirat(&at, part, mode) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    open(&at)
                }
                opened => opened,
            };
            at = match opened {
                Ok(next) => next,
                Err(Errno::NOENT) if !make => return Ok(Ok((None, name))),
                Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => {
                    let is_link = kind(&statat(&at, part, AtFlags::SYMLINK_NOFOLLOW)?) == FileType::Symlink;
                    return Ok(Err(if is_link { Existing::Link(path) } else { Existing::Odd(path) }));
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Ok((Some(at), name)))
    }

    fn compare(&self, directory: &OwnedFd, name: &OsStr, to: &Path, bytes: &[u8]) -> io::Result<Existing> {
        let about = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => about,
            Err(Errno::NOENT) => return Ok(Existing::Nothing),
            Err(error) => return Err(error.into()),
        };
        match kind(&about) {
            FileType::RegularFile => {}
            FileType::Symlink if self.is_user => {}
            FileType::Symlink => return Ok(Existing::Link(to.to_owned())),
            _ => return Ok(Existing::Odd(to.to_owned())),
        }
        // A pipe behind a link of the user's then opens at once.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | self.links;
        let file = match openat(directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP) => return Ok(Existing::Link(to.to_owned())),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Ok(Existing::Odd(to.to_owned()));
        }
        let mut there = Vec::new();
        file.take(bytes.len() as u64 + 1).read_to_end(&mut there)?;
        Ok(if there == bytes { Existing::Same } else { Existing::Other })
    }
}

fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}
