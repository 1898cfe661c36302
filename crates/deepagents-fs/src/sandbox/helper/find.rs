//! Scans the workspace before each command for repositories, other names of protected places, and sockets of outside
//! programs.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::permissions::{beginning, is_repository, repository_entry};
use crate::sandbox::protocol::GuardedName;

/// Maximum number of bytes read of a `.git` file.
const MAX_POINTER_BYTES: u64 = 4096;
/// The object directory of a repository: many files, all of them committed content.
const OBJECTS: &str = "objects";

/// What to look for in a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    /// Names, repositories and sockets.
    All,
    /// Sockets only. The directory is protected as a whole, but that does not prevent connections to its sockets.
    Sockets,
}

/// Finds everything below a root that has one of the names or that git takes for a repository. Returns paths relative
/// to the root. If a match is a file that points to a directory, as git writes it, the directory is returned too.
///
/// [Closed](Closed) directories, and sockets of outside programs if `sockets` is set, are returned without a name.
/// Directories that match are searched only for such sockets.
pub(in crate::sandbox) fn find<'a>(
    root: &Path,
    named: &'a [GuardedName],
    sockets: bool,
) -> Vec<(PathBuf, Option<&'a GuardedName>)> {
    let mut found = Vec::new();
    let mut todo = if named.is_empty() && !sockets { Vec::new() } else { vec![(PathBuf::new(), Search::All)] };
    while let Some((directory, search)) = todo.pop() {
        let (before, mut marks) = (todo.len(), Vec::new());
        let Ok(entries) = entries(&root.join(&directory)) else {
            found.push((directory, None));
            continue;
        };
        for entry in entries {
            let (name, path) = (entry.file_name(), directory.join(entry.file_name()));
            let kind = entry.file_type().ok();
            let is_directory = kind.is_some_and(|kind| kind.is_dir());
            marks.extend(name.to_str().and_then(repository_entry));
            let called = named.iter().find(|named| name.eq_ignore_ascii_case(&named.name));
            match called.filter(|_| search == Search::All) {
                Some(named) => {
                    let pointed = kind.filter(|kind| kind.is_file()).and_then(|_| pointed_to(&root.join(&path)));
                    let pointed = pointed.and_then(|target| Some(target.strip_prefix(root).ok()?.to_owned()));
                    found.extend(pointed.map(|target| (target, Some(named))));
                    if is_directory && sockets {
                        todo.push((path.clone(), Search::Sockets));
                    }
                    found.push((path, Some(named)));
                }
                None if is_directory && (search == Search::All || name != OBJECTS) => todo.push((path, search)),
                None if sockets && kind.is_some_and(|kind| kind.is_socket()) && is_listened_to(&root.join(&path)) => {
                    found.push((path, None));
                }
                None => {}
            }
        }
        let git = named.iter().find(|named| named.name == ".git").filter(|_| search == Search::All);
        if let Some(named) = git.filter(|_| is_repository(|name| marks.contains(&name))) {
            let below = todo.split_off(before).into_iter().filter(|(path, _)| sockets && !path.ends_with(OBJECTS));
            todo.extend(below.map(|(path, _)| (path, Search::Sockets)));
            found.push((directory, Some(named)));
        }
    }
    found
}

/// Returns whether a program accepts connections at a socket; it must be outside the sandbox. A stale socket is left
/// alone, so that it can be removed.
fn is_listened_to(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let address = SocketAddrUnix::new(path);
    match (socket, address) {
        (Ok(socket), Ok(address)) => connect(&socket, &address) != Err(Errno::CONNREFUSED),
        // The path is too long to connect to.
        _ => true,
    }
}

/// A directory that cannot be read now, but that a command could make readable because it owns it. Nothing in it could
/// be guarded, so all of it is hidden.
pub(super) struct Closed;

/// Lists a directory. An unreadable directory of another user counts as empty, as commands cannot change its contents
/// either.
pub(super) fn entries(directory: &Path) -> Result<impl Iterator<Item = fs::DirEntry> + use<>, Closed> {
    let denied = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    let listed = fs::read_dir(directory);
    // Examining the entries takes another permission than listing them.
    let unseen =
        listed.as_ref().is_err_and(denied) || directory.join(".").symlink_metadata().is_err_and(|e| denied(&e));
    let own = |found: Metadata| found.uid() == rustix::process::getuid().as_raw();
    if unseen && directory.symlink_metadata().is_ok_and(own) {
        return Err(Closed);
    }
    Ok(listed.into_iter().flatten().flatten())
}

/// Returns the directory that a file points to in git's format: `gitdir: path`.
fn pointed_to(file: &Path) -> Option<PathBuf> {
    let content = beginning(file, MAX_POINTER_BYTES)?;
    let target = content.strip_prefix(b"gitdir:")?.trim_ascii();
    file.parent()?.join(std::ffi::OsStr::from_bytes(target)).canonicalize().ok()
}
