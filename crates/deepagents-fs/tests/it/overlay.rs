use std::sync::Arc;

use deepagents_fs::edit::Edit;
use deepagents_fs::search::GrepQuery;
use deepagents_fs::{FsError, LocalBackend, OverlayBackend, OverlayChangeKind, ReadOnly, StateBackend, WriteMode};

use crate::suite::{Files, p};

fn draft() -> (Files, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("src/sub")).unwrap();
    for (path, content) in [("README", "old\n"), ("src/a", "one\n"), ("src/b", "two\n"), ("src/sub/c", "three\n")] {
        std::fs::write(dir.path().join(path), content).unwrap();
    }
    let lower = Arc::new(LocalBackend::open(dir.path()).unwrap());
    (Files::new(Arc::new(OverlayBackend::new(Arc::new(StateBackend::new()), lower))), dir)
}

#[tokio::test]
async fn an_overlay_shows_changes_and_leaves_the_project_untouched() {
    let (mut files, dir) = draft();
    files.edit("/src/a", &[Edit::new("one", "1")]).await.unwrap();
    files.write("/src/new", "new\n").await.unwrap();
    files.delete("/src/b").await.unwrap();
    files.delete("/README").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/src/"]);
    assert_eq!(files.list("/src").await.unwrap(), ["/src/a", "/src/new", "/src/sub/"]);
    assert_eq!(files.read("/src/a").await.unwrap(), b"1\n");
    assert_eq!(files.read("/src/b").await.unwrap_err(), FsError::NotFound(p("/src/b")));
    assert_eq!(files.found("/", "*").await, ["/src/a", "/src/new", "/src/sub/c"]);
    assert_eq!(files.lines_with(&GrepQuery { regex: true, ..GrepQuery::new(".", p("/")) }).await.len(), 3);
    assert_eq!(std::fs::read(dir.path().join("src/a")).unwrap(), b"one\n");
    assert_eq!(std::fs::read_dir(dir.path().join("src")).unwrap().count(), 3);
}

#[tokio::test]
async fn a_deleted_tree_stays_deleted_when_part_of_it_is_recreated() {
    let (mut files, _dir) = draft();
    files.delete("/src").await.unwrap();
    assert!(files.list("/").await.unwrap() == ["/README"]);
    assert_eq!(files.delete("/src").await.unwrap_err(), FsError::NotFound(p("/src")));
    files.write("/src/a", "again").await.unwrap();
    assert_eq!(files.list("/src").await.unwrap(), ["/src/a"]);
    files.delete("/src/a").await.unwrap();
    files.write("/src", "a file now").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/README", "/src"]);
}

#[tokio::test]
async fn write_conditions_apply_across_both_layers() {
    let (mut files, dir) = draft();
    let taken = files.write_mode("/README", "x", WriteMode::Create).await.unwrap_err();
    assert_eq!(taken, FsError::AlreadyExists(p("/README")));
    let version = files.version("/README").await;
    std::fs::write(dir.path().join("README"), "changed on disk\n").unwrap();
    let late = files.write_mode("/README", "x", WriteMode::IfVersion(version)).await.unwrap_err();
    assert_eq!(late, FsError::Changed(p("/README")));
    assert_eq!(files.write("/README/x", "").await.unwrap_err(), FsError::NotADirectory(p("/README")));
    assert_eq!(files.write("/src", "").await.unwrap_err(), FsError::IsDirectory(p("/src")));
    assert!(matches!(files.write("/src/.wh.a", "").await.unwrap_err(), FsError::BadName { .. }));
}

#[tokio::test]
async fn read_only_files_are_read_only() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "x").unwrap();
    let inner = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let mut files = Files::new(Arc::new(ReadOnly::new(inner)));
    assert_eq!(files.read("/f").await.unwrap(), b"x");
    assert_eq!(files.found("/", "*").await, ["/f"]);
    assert_eq!(files.write("/g", "x").await.unwrap_err(), FsError::ReadOnly(p("/g")));
    assert_eq!(files.delete("/f").await.unwrap_err(), FsError::ReadOnly(p("/f")));
    assert!(!files.backend.capabilities().write && !files.backend.capabilities().delete);
}

#[tokio::test]
async fn a_file_that_cannot_be_marked_deleted_keeps_its_changes() {
    let (below, above) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A name too long to append the marker's suffix.
    let name = "x".repeat(252);
    std::fs::write(below.path().join(&name), "old").unwrap();
    let open = |dir: &tempfile::TempDir| Arc::new(LocalBackend::open(dir.path()).unwrap());
    let mut files = Files::new(Arc::new(OverlayBackend::new(open(&above), open(&below))));
    let path = format!("/{name}");
    files.write(&path, "new").await.unwrap();
    files.delete(&path).await.unwrap_err();
    assert_eq!(files.read(&path).await.unwrap(), b"new");
}

#[tokio::test]
async fn changes_lists_what_differs_from_the_files_below() {
    use OverlayChangeKind::{Added, Deleted, Modified};

    let (below, above) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(below.path().join("gone/deep")).unwrap();
    for path in ["same", "edited", "gone/a", "gone/deep/b", "kept"] {
        std::fs::write(below.path().join(path), "old").unwrap();
    }
    std::os::unix::fs::symlink(".", below.path().join("circle")).unwrap();
    let open = |dir: &tempfile::TempDir| LocalBackend::open(dir.path()).unwrap();
    let overlay = OverlayBackend::new(open(&above), open(&below));
    let mut files = Files::new(Arc::new(overlay.clone()));
    assert_eq!(overlay.changes(&files.state).await.unwrap(), []);

    files.write("/same", "new").await.unwrap();
    files.write("/same", "old").await.unwrap();
    files.write("/edited", "new").await.unwrap();
    files.write("/made/here", "new").await.unwrap();
    files.write("/made/briefly", "new").await.unwrap();
    files.delete("/made/briefly").await.unwrap();
    files.delete("/gone").await.unwrap();
    files.write("/gone/a", "again").await.unwrap();
    files.delete("/circle").await.unwrap();
    let found = overlay.changes(&files.state).await.unwrap();
    let found: Vec<_> = found.iter().map(|change| (change.path.as_str(), change.kind)).collect();
    let expected = [
        ("/circle", Deleted),
        ("/edited", Modified),
        ("/gone/a", Modified),
        ("/gone/deep/b", Deleted),
        ("/made/here", Added),
    ];
    assert_eq!(found, expected);
    assert_eq!(std::fs::read(below.path().join("edited")).unwrap(), b"old");

    std::fs::write(below.path().join("edited"), "new").unwrap();
    files.write("/gone/deep/b", "old").await.unwrap();
    assert_eq!(overlay.changes(&files.state).await.unwrap().len(), 3, "compared with the files below as they are now");
}
