//! What a file has beside its content and its mode: who else may use it, and what people noted on it.

use std::fs::File;

use super::write::Target;

/// Who may do what, beyond the mode.
#[cfg(target_os = "linux")]
const ACCESS: &str = "system.posix_acl_access";
/// Bytes of names, and of a value.
#[cfg(target_os = "linux")]
const MOST: usize = 64 << 10;

/// Copies the attributes of the file that is there to another one; tells whether the same people may do the same with it. Not
/// among them is what lends rights to whoever runs the file: it was given to another content.
#[cfg(target_os = "linux")]
pub(super) fn copy(target: &Target<'_>, file: &File) -> bool {
    use std::os::fd::AsRawFd;

    use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, lgetxattr, llistxattr};
    use rustix::io::Errno;

    // By its name, since it need not be readable.
    let mut there = std::path::PathBuf::from(format!("/proc/self/fd/{}", target.directory.as_raw_fd()));
    there.push(target.name);
    let mut names = vec![0; MOST];
    match llistxattr(&there, names.as_mut_slice()) {
        Ok(length) => names.truncate(length),
        Err(Errno::NOTSUP) => return true,
        Err(_) => return false,
    }
    let mut value = vec![0; MOST];
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
    // A new file has the list that its directory says, which the other one need not have.
    kept && (has_list || matches!(fremovexattr(file, ACCESS), Ok(()) | Err(Errno::NODATA | Errno::NOTSUP)))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn copy(_: &Target<'_>, _: &File) -> bool {
    true
}
