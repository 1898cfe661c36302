//! Permissions of rewritten files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use deepagents_fs::LocalBackend;
use deepagents_testing::skip::skip;
use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::suite::Files;

/// A POSIX ACL in the kernel's format: owner and one user may read and write, the group may do nothing.
fn only_for_one_user() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 6, 1000), (4, 0, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, u32::MAX)];
    let entries = entries.iter().flat_map(|(tag, may, id)| {
        [tag.to_le_bytes().to_vec(), may.to_le_bytes().to_vec(), id.to_le_bytes().to_vec()].concat()
    });
    2u32.to_le_bytes().into_iter().chain(entries).collect()
}

fn attribute(file: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 1000];
    let length = getxattr(file, name, value.as_mut_slice()).unwrap_or(0);
    value.truncate(length);
    value
}

#[tokio::test]
async fn a_rewritten_file_keeps_its_attributes_and_gains_no_readers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shared.txt");
    std::fs::write(&file, "one").unwrap();
    let acl = only_for_one_user();
    let set = |name: &str, value: &[u8]| setxattr(&file, name, value, XattrFlags::empty());
    if let Err(error) = set("user.note", b"mine").and_then(|()| set("system.posix_acl_access", &acl)) {
        return skip("attributes", error);
    }
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    let before = mode(&file);
    let mut files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    files.write("/shared.txt", "two").await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
    assert_eq!(attribute(&file, "user.note"), b"mine");
    assert_eq!(attribute(&file, "system.posix_acl_access"), acl);
    assert_eq!(mode(&file), before);
}

#[tokio::test]
async fn a_rewritten_file_does_not_inherit_its_directorys_default_acl() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.txt");
    std::fs::write(&file, "one").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o660)).unwrap();
    let list = only_for_one_user();
    if let Err(error) = setxattr(dir.path(), "system.posix_acl_default", &list, XattrFlags::empty()) {
        return skip("attributes", error);
    }
    let mut files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    files.write("/mine.txt", "two").await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
    assert_eq!(attribute(&file, "system.posix_acl_access"), b"");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o660);
    // A new file inherits the ACL of the directory.
    files.write("/new.txt", "one").await.unwrap();
    assert_ne!(attribute(&dir.path().join("new.txt"), "system.posix_acl_access"), b"");
}
