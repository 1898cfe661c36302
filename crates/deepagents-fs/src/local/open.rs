//! Opens files and directories below the root.

use std::fmt::LowerHex;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, DirEntry, FileType, Mode, OFlags, Stat as HostStat, fstat};
use rustix::io::Errno;

use super::resolve::Last;
use super::{Links, Root};
use crate::{FsError, Kind, Stat, VPath, Version};

/// Do not block on the other end of a FIFO, do not become the controlling terminal, do not leak into child processes.
pub(super) const SAFE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a directory without following a link.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(SAFE);

impl Root {
    /// Opens a path, with or without following links that stay inside.
    pub(super) fn open(&self, path: &VPath, flags: OFlags, links: Links) -> Result<OwnedFd, FsError> {
        #[cfg(target_os = "linux")]
        let extra = if flags.contains(OFlags::PATH) { OFlags::CLOEXEC } else { SAFE };
        #[cfg(not(target_os = "linux"))]
        let extra = SAFE;
        #[cfg(target_os = "linux")]
        if self.options.kernel_resolution {
            use rustix::fs::{ResolveFlags, openat2};
            let relative = if path.is_root() { "." } else { path.relative() };
            let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            resolve.set(ResolveFlags::NO_SYMLINKS, links == Links::Refuse);
            match openat2(&self.fd, relative, flags | extra, Mode::empty(), resolve) {
                Ok(fd) => return Ok(fd),
                // Resolve step by step instead: `openat2` is unavailable, the path is too long for one call, an
                // absolute link may lead inside, the error should name the file in the way, or the call raced with a
                // rename.
                Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::XDEV | Errno::AGAIN | Errno::NOTDIR) => {}
                Err(errno) => return Err(failed(path, errno)),
            }
        }
        let place = self.locate(path, Last::Follow, links)?;
        let name = place.name_or_dot();
        rustix::fs::openat(&place.directory, name, flags | extra | OFlags::NOFOLLOW, Mode::empty()).at(path)
    }

    /// Opens a regular file for reading.
    pub(super) fn open_file(&self, path: &VPath) -> Result<(OwnedFd, Stat), FsError> {
        let fd = self.open(path, OFlags::RDONLY, self.links)?;
        let stat = stat_fd(path, &fd)?;
        stat.kind.require_file(path)?;
        Ok((fd, stat))
    }
}

/// Returns the metadata of an open file.
pub(super) fn stat_fd(path: &VPath, fd: impl AsFd) -> Result<Stat, FsError> {
    Ok(to_stat(&fstat(fd).at(path)?))
}

pub(super) fn to_stat(host: &HostStat) -> Stat {
    let kind = match FileType::from_raw_mode(host.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    };
    let size = if kind == Kind::File { u64::try_from(host.st_size).unwrap_or(0) } else { 0 };
    Stat { kind, size, version: version_of(host), modified: modified(host) }
}

pub(super) fn modified(host: &HostStat) -> Option<jiff::Timestamp> {
    timestamp(host.st_mtime, host.st_mtime_nsec)
}

fn timestamp(seconds: i64, nanoseconds: impl TryInto<i32>) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(seconds, nanoseconds.try_into().unwrap_or(0)).ok()
}

pub(super) fn version_of(host: &HostStat) -> Version {
    let (modified, changed) = ((host.st_mtime, host.st_mtime_nsec), (host.st_ctime, host.st_ctime_nsec));
    version(host.st_ino, host.st_size, modified, changed)
}

fn version<T: LowerHex + Copy>(inode: u64, size: impl LowerHex, modified: (i64, T), changed: (i64, T)) -> Version {
    Version::new(format!("{inode:x}-{size:x}-{:x}.{:x}-{:x}.{:x}", modified.0, modified.1, changed.0, changed.1))
}

/// Returns the metadata of a regular file that the kernel has cached, without disk or network access; `None` for
/// anything else.
#[cfg(target_os = "linux")]
pub(super) fn held_stat(fd: impl AsFd) -> Option<Stat> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let told = statx(fd, c"", flags, StatxFlags::BASIC_STATS).ok()?;
    let known = told.stx_mask & StatxFlags::BASIC_STATS.bits() == StatxFlags::BASIC_STATS.bits();
    let regular = FileType::from_raw_mode(told.stx_mode.into()) == FileType::RegularFile;
    let (modified, changed) = (told.stx_mtime, told.stx_ctime);
    let times = ((modified.tv_sec, modified.tv_nsec), (changed.tv_sec, changed.tv_nsec));
    (known && regular).then(|| Stat {
        kind: Kind::File,
        size: told.stx_size,
        version: version(told.stx_ino, told.stx_size, times.0, times.1),
        modified: timestamp(modified.tv_sec, modified.tv_nsec),
    })
}

/// Returns whether two open files are on the same mount. Device numbers do not tell: a directory bind-mounted within
/// its own file system keeps its device.
pub(crate) fn same_mount(one: impl AsFd, other: impl AsFd) -> rustix::io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let mount = |fd| {
            let told = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
            (told.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(told.stx_mnt_id)
        };
        if let (Some(one), Some(other)) = (mount(one.as_fd()), mount(other.as_fd())) {
            return Ok(one == other);
        }
    }
    Ok(fstat(one)?.st_dev == fstat(other)?.st_dev)
}

/// Returns the entries of a directory without `.` and `..`.
pub(super) fn entries(directory: Dir) -> impl Iterator<Item = rustix::io::Result<DirEntry>> {
    let is_dot = |entry: &DirEntry| matches!(entry.file_name().to_bytes(), b"." | b"..");
    directory.filter(move |entry| !entry.as_ref().is_ok_and(is_dot))
}

/// Adds the path to the error of a failed call.
pub(super) trait At<T> {
    fn at(self, path: &VPath) -> Result<T, FsError>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, path: &VPath) -> Result<T, FsError> {
        self.map_err(|errno| failed(path, errno))
    }
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &VPath) -> Result<T, FsError> {
        self.map_err(|error| FsError::from_io(path, &error))
    }
}

/// Treats the error `done` as success, for calls that may find their work already done.
pub(super) fn allow(done: Errno, result: Result<(), Errno>) -> Result<(), Errno> {
    if result == Err(done) { Ok(()) } else { result }
}

/// Converts the error of a failed call, without host paths.
pub(super) fn failed(path: &VPath, errno: Errno) -> FsError {
    let path = path.clone();
    match errno {
        Errno::LOOP => FsError::LinkLoop(path),
        Errno::XDEV => FsError::Outside(path),
        // A socket, or a FIFO or device without another end.
        Errno::NXIO | Errno::NODEV => FsError::Special(path),
        Errno::BUSY => FsError::Fixed(path),
        errno => FsError::from_io(&path, &errno.into()),
    }
}
