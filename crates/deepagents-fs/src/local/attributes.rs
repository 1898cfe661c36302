//! Copies a file's access control list and extended attributes.

use std::fs::File;

use super::write::Target;

/// Attribute with the POSIX access control list (ACL).
#[cfg(target_os = "linux")]
const ACCESS: &str = "system.posix_acl_access";
/// Maximum size in bytes of the list of names, and of each value.
#[cfg(target_os = "linux")]
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Copies the attributes of the existing file to another. Returns whether access rights are the same afterwards. Skips
/// attributes that grant rights to whoever runs the file, as they were granted to the old content.
#[cfg(target_os = "linux")]
pub(super) fn copy(target: &Target<'_>, file: &File) -> bool {
    use std::os::fd::AsRawFd;

    use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, lgetxattr, llistxattr};
    use rustix::io::Errno;

    // Access it by name, since the file need not be readable.
    let mut there = std::path::PathBuf::from(format!("/proc/self/fd/{}", target.directory.as_raw_fd()));
    there.push(target.name);
    let mut names = vec![0; MAX_ATTRIBUTE_BYTES];
    match llistxattr(&there, names.as_mut_slice()) {
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
        let read = lgetxattr(&there, name, value.as_mut_slice());
        let read = read.ok().and_then(|length| value.get(..length));
        let copied = read.is_some_and(|value| fsetxattr(file, name, value, XattrFlags::empty()).is_ok());
        kept &= copied || name != ACCESS;
    }
    // A new file inherits an ACL from its directory's default; remove it if the old file has none.
    kept && (has_list || matches!(fremovexattr(file, ACCESS), Ok(()) | Err(Errno::NODATA | Errno::NOTSUP)))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn copy(_: &Target<'_>, _: &File) -> bool {
    true
}
