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
fn changes_through_a_link_and_by_the_files_own_name_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("dotfiles/count"), dir.path().join("count"));
    std::os::unix::fs::symlink("dotfiles/count", &link).unwrap();
    thread::scope(|scope| {
        for name in [&file, &link, &file, &link] {
            scope.spawn(move || {
                for _ in 0..25 {
                    let _lock = FileLock::take(name).unwrap();
                    let count: u32 = fs::read_to_string(name).map_or(0, |text| text.parse().unwrap());
                    replace(name, (count + 1).to_string().as_bytes()).unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), "100");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the lock is beside the target");
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
fn replacing_through_dangling_links_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("dotfiles")).unwrap();
    let links = [("dotfiles/other", "link"), ("settings", "dotfiles/other")];
    for (target, link) in links {
        std::os::unix::fs::symlink(target, dir.path().join(link)).unwrap();
    }
    replace(&dir.path().join("link"), b"a").unwrap();
    assert!(links.iter().all(|(_, link)| dir.path().join(link).is_symlink()));
    assert_eq!(fs::read(dir.path().join("dotfiles/settings")).unwrap(), b"a");
}

#[cfg(unix)]
#[test]
fn links_that_lead_to_each_other_are_an_error_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    for (target, link) in [("b", "a"), ("a", "b")] {
        std::os::unix::fs::symlink(target, dir.path().join(link)).unwrap();
    }
    replace(&dir.path().join("a"), b"x").unwrap_err();
    assert!(dir.path().join("a").is_symlink() && dir.path().join("b").is_symlink());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
