//! Copies a file's access control list and extended attributes.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Attribute with the POSIX access control list (ACL).
#[cfg(target_os = "linux")]
const ACCESS: &str = "system.posix_acl_access";
/// Maximum size in bytes of the list of names, and of each value.
#[cfg(target_os = "linux")]
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Returns a path to what has a name in an open directory.
pub(crate) fn path_in(directory: impl AsFd, name: &OsStr) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd())).join(name)
}

/// Gives a file to a group. Returns whether it belongs to it afterwards.
pub(crate) fn give_group(file: &File, group: u32) -> bool {
    let has_group = || file.metadata().is_ok_and(|about| about.gid() == group);
    has_group() || std::os::unix::fs::fchown(file, None, Some(group)).is_ok()
}

/// Copies the attributes of an existing file, which need not be readable, to another. Returns whether access rights are
/// the same afterwards. Skips attributes that grant rights to whoever runs the file, as they were granted to the old
/// content.
#[cfg(target_os = "linux")]
pub(crate) fn copy(there: &Path, file: &File) -> bool {
    use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, lgetxattr, llistxattr};
    use rustix::io::Errno;

    let mut names = vec![0; MAX_ATTRIBUTE_BYTES];
    match llistxattr(there, names.as_mut_slice()) {
        Ok(length) => names.truncate(length),
        Err(Errno::NOTSUP) => return true,
        Err(_) => return false,
    }
    let mut value = vec![0; MAX_ATTRIBUTE_BYTES];
    let (mut kept, mut has_list) = (true, false);
    for name in names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        if name != ACCESS && name != "security.selinux" && !name.starts_with("user.") {
            continue;
        }
        has_list |= name == ACCESS;
        let read = lgetxattr(there, name, value.as_mut_slice());
        let read = read.ok().and_then(|length| value.get(..length));
        let copied = read.is_some_and(|value| fsetxattr(file, name, value, XattrFlags::empty()).is_ok());
        kept &= copied || name != ACCESS;
    }
    // A new file inherits an ACL from its directory's default; remove it if the old file has none.
    kept && (has_list || matches!(fremovexattr(file, ACCESS), Ok(()) | Err(Errno::NODATA | Errno::NOTSUP)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn copy(_: &Path, _: &File) -> bool {
    true
}
