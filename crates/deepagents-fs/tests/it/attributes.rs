//! Permissions of rewritten files.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

use deepagents_fs::{Backend, LocalBackend, PortableBackend, locked_file};
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

const WRITERS: [&str; 3] = ["LocalBackend", "PortableBackend", "locked_file"];

/// Writes the name of the writer to a file.
async fn rewrite(writer: &'static str, directory: &Path, name: &str) {
    let backend: Arc<dyn Backend> = match writer {
        "LocalBackend" => Arc::new(LocalBackend::open(directory).unwrap()),
        "PortableBackend" => Arc::new(PortableBackend::open(directory).unwrap()),
        _ => return locked_file::replace(&directory.join(name), writer.as_bytes()).unwrap(),
    };
    Files::new(backend).write(&format!("/{name}"), writer).await.unwrap();
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
    for writer in WRITERS {
        rewrite(writer, dir.path(), "shared.txt").await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), writer);
        assert_eq!(attribute(&file, "user.note"), b"mine", "{writer}");
        assert_eq!(attribute(&file, "system.posix_acl_access"), acl, "{writer}");
        assert_eq!(mode(&file), before, "{writer}");
    }
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
    for writer in WRITERS {
        rewrite(writer, dir.path(), "mine.txt").await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), writer);
        assert_eq!(attribute(&file, "system.posix_acl_access"), b"", "{writer}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o660, "{writer}");
    }
    // A new file inherits the ACL of the directory.
    rewrite("LocalBackend", dir.path(), "new.txt").await;
    assert_ne!(attribute(&dir.path().join("new.txt"), "system.posix_acl_access"), b"");
}

#[tokio::test]
async fn a_rewritten_file_keeps_its_group_and_the_groups_rights() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shared.txt");
    std::fs::write(&file, "one").unwrap();
    let group = std::fs::metadata(&file).unwrap().gid() + 1;
    if let Err(error) = chown(&file, None, Some(group)) {
        return skip("groups", error);
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o664)).unwrap();
    for writer in WRITERS {
        rewrite(writer, dir.path(), "shared.txt").await;
        let about = std::fs::metadata(&file).unwrap();
        assert_eq!((about.gid(), about.mode() & 0o777), (group, 0o664), "{writer}");
    }
}
