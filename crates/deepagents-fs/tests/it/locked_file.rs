//! User files that several programs change.

use std::fs;
use std::thread;

use deepagents_fs::locked_file::{FileLock, replace, replace_secret};

#[test]
fn concurrent_locked_changes_are_all_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("made/count");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let _lock = FileLock::take(&file).unwrap();
                    let count: u32 = fs::read_to_string(&file).map_or(0, |text| text.parse().unwrap());
                    replace(&file, (count + 1).to_string().as_bytes()).unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), "100");
    let left: Vec<_> = fs::read_dir(dir.path().join("made")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[cfg(unix)]
#[test]
fn replacing_a_file_keeps_its_mode_and_link_and_secrets_are_private() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    let mode = |file: &std::path::Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
    replace(&file, b"a").unwrap();
    assert_eq!(mode(&file), 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    symlink(&file, &link).unwrap();
    replace(&link, b"b").unwrap();
    assert!(link.is_symlink());
    assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"b".to_vec(), 0o644));
    replace_secret(&file, b"c").unwrap();
    assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"c".to_vec(), 0o600));
    assert!(replace(&dir.path().join("file/below"), b"d").is_err());
}

#[cfg(unix)]
#[test]
fn replacing_through_a_dangling_link_keeps_the_link() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("dotfiles")).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("dotfiles/settings", &link).unwrap();
    replace(&link, b"a").unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::read(dir.path().join("dotfiles/settings")).unwrap(), b"a");
}
