//! Opening what a path leads to, below the root.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat as HostStat, fstat};
use rustix::io::Errno;

use super::resolve::Last;
use super::{Links, Root};
use crate::{FsError, Kind, Stat, VPath, Version};

/// Never waits for the other end of a FIFO, never becomes the controlling terminal, never leaks into a child.
pub(super) const SAFE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a directory, and nothing that a link leads to.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(SAFE);

impl Root {
    /// Opens what is at a path.
    pub(super) fn open(&self, path: &VPath, flags: OFlags) -> Result<OwnedFd, FsError> {
        self.open_by(path, flags, self.links)
    }

    /// Opens what is at a path, following links that stay inside or none.
    pub(super) fn open_by(&self, path: &VPath, flags: OFlags, links: Links) -> Result<OwnedFd, FsError> {
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
                // Not available, too long for one call, an absolute link that may lead inside, a file in the way that
                // the error should name, or a race with a
                // rename: resolved step by step.
                Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::XDEV | Errno::AGAIN | Errno::NOTDIR) => {}
                Err(errno) => return Err(failed(path, errno)),
            }
        }
        let place = self.locate_by(path, Last::Follow, links)?;
        let name = place.name_or_dot();
        rustix::fs::openat(&place.directory, name, flags | extra | OFlags::NOFOLLOW, Mode::empty()).at(path)
    }

    /// Opens a regular file for reading.
    pub(super) fn open_file(&self, path: &VPath) -> Result<(OwnedFd, Stat), FsError> {
        let fd = self.open(path, OFlags::RDONLY)?;
        let stat = stat_fd(path, &fd)?;
        stat.kind.require_file(path)?;
        Ok((fd, stat))
    }
}

/// The facts about an open file.
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
    jiff::Timestamp::new(host.st_mtime, i32::try_from(host.st_mtime_nsec).unwrap_or(0)).ok()
}

pub(super) fn version_of(host: &HostStat) -> Version {
    Version::new(format!(
        "{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
        host.st_ino, host.st_size, host.st_mtime, host.st_mtime_nsec, host.st_ctime, host.st_ctime_nsec
    ))
}

/// The facts about a regular file as the kernel holds them, without asking the disk or another machine; none about
/// anything else.
#[cfg(target_os = "linux")]
pub(super) fn held_stat(fd: impl AsFd) -> Option<Stat> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let told = statx(fd, c"", flags, StatxFlags::BASIC_STATS).ok()?;
    let known = told.stx_mask & StatxFlags::BASIC_STATS.bits() == StatxFlags::BASIC_STATS.bits();
    let regular = FileType::from_raw_mode(told.stx_mode.into()) == FileType::RegularFile;
    let (changed, renewed) = (told.stx_mtime, told.stx_ctime);
    // As `version_of` and `modified` say it of the same file.
    (known && regular).then(|| Stat {
        kind: Kind::File,
        size: told.stx_size,
        version: Version::new(format!(
            "{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
            told.stx_ino, told.stx_size, changed.tv_sec, changed.tv_nsec, renewed.tv_sec, renewed.tv_nsec
        )),
        modified: jiff::Timestamp::new(changed.tv_sec, i32::try_from(changed.tv_nsec).unwrap_or(0)).ok(),
    })
}

/// Whether two open files are on one mount. A directory that is mounted in another place of its own file system has its device.
pub(super) fn same_mount(one: impl AsFd, other: impl AsFd) -> rustix::io::Result<bool> {
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

/// Names the path that a failed call was about.
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

/// A call that may find its work done already, which this error says.
pub(super) fn allow(done: Errno, result: Result<(), Errno>) -> Result<(), Errno> {
    if result == Err(done) { Ok(()) } else { result }
}

/// The error for a failed call, in words without host paths.
pub(super) fn failed(path: &VPath, errno: Errno) -> FsError {
    let path = path.clone();
    match errno {
        Errno::LOOP => FsError::LinkLoop(path),
        Errno::XDEV => FsError::Outside(path),
        // A socket, or a FIFO or device without its other end.
        Errno::NXIO | Errno::NODEV => FsError::Special(path),
        Errno::BUSY => FsError::Fixed(path),
        errno => FsError::from_io(&path, &errno.into()),
    }
}
