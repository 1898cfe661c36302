//! Mounts, and making them read-only recursively.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount, mount_bind_recursive, mount_remount};

use super::failure::{At, Failure};

/// Mounts a file system in memory.
pub(super) fn memory(target: &Path, bytes: u64, mode: &str) -> Result<(), Failure> {
    let options = CString::new(format!("size={bytes},mode={mode}")).at("mount")?;
    mount("tmpfs", target, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .on("mount an in-memory file system", target.display())
}

/// Bind-mounts a tree at a second path.
pub(super) fn bind(source: &Path, target: &Path) -> Result<(), Failure> {
    mount_bind_recursive(source, target).on("show a directory", target.display())
}

/// Restriction of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// A device: readable and writable, but with a fixed mode, owner and timestamps.
    Device,
}

/// Makes every mount at or below these paths read-only, or leaves it writable, as the nearest path above it says. Reads
/// the mount table once.
pub(super) fn read_only_below(paths: &BTreeMap<PathBuf, bool>, table: &Path) -> Result<(), Failure> {
    if paths.is_empty() {
        return Ok(());
    }
    let is_closed = |at: &Path| at.ancestors().find_map(|above| paths.get(above)) == Some(&true);
    restrict_where(is_closed, Access::Read, table)
}

/// Restricts every mount at or below a path: no set-user-ID programs, no devices, and no writing unless allowed.
pub(super) fn restrict(target: &Path, access: Access, table: &Path) -> Result<(), Failure> {
    restrict_where(|at| at.starts_with(target), access, table)
}

fn restrict_where(applies: impl Fn(&Path) -> bool, access: Access, table: &Path) -> Result<(), Failure> {
    let table = fs::read(table).on("read the mounts", table.display())?;
    for (at, held) in table.split(|byte| *byte == b'\n').filter_map(parse).filter(|(at, _)| applies(at)) {
        let mut flags = MountFlags::BIND | MountFlags::NOSUID | held;
        flags |= if access == Access::Device { MountFlags::NOEXEC } else { MountFlags::NODEV };
        flags.set(MountFlags::RDONLY, access != Access::Write || held.contains(MountFlags::RDONLY));
        mount_remount(&at, flags, "").on("restrict a mount", at.display())?;
    }
    Ok(())
}

/// Parses the mount point and flags of a line in a mount table. A remount must repeat the current flags, because a user
/// namespace may not drop them.
fn parse(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = PathBuf::from(OsString::from_vec(unescape(fields.nth(4)?)));
    let options = fields.next()?;
    let mut flags = MountFlags::empty();
    for option in options.split(|byte| *byte == b',') {
        flags |= match option {
            b"ro" => MountFlags::RDONLY,
            b"nosuid" => MountFlags::NOSUID,
            b"nodev" => MountFlags::NODEV,
            b"noexec" => MountFlags::NOEXEC,
            b"noatime" => MountFlags::NOATIME,
            b"nodiratime" => MountFlags::NODIRATIME,
            b"relatime" => MountFlags::RELATIME,
            b"nosymfollow" => MountFlags::NOSYMFOLLOW,
            _ => MountFlags::empty(),
        };
    }
    if !flags.intersects(MountFlags::NOATIME | MountFlags::RELATIME) {
        flags |= MountFlags::STRICTATIME;
    }
    Some((at, flags))
}

/// Decodes the octal escapes that the kernel uses for spaces, tabs, newlines and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                out.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => out.push(*first),
        }
    }
    out
}

/// Prefixes a path with another root: `/usr` below `/new` is `/new/usr`.
pub(super) fn below(root: &str, path: &Path) -> PathBuf {
    let mut out = OsString::from(root);
    out.push(std::ffi::OsStr::from_bytes(path.as_os_str().as_bytes()));
    PathBuf::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_table_line_is_parsed_into_mount_point_and_flags() {
        let line = br"36 35 98:0 / /mnt/a\040b\134c rw,nosuid,noatime shared:1 - ext4 /dev/root rw";
        let (at, flags) = parse(line).unwrap();
        assert_eq!(at, Path::new(r"/mnt/a b\c"));
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::NOATIME);
    }
}
