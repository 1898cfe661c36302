//! Writing.

use deepagents_fs::{FsError, Kind, WriteMode};

use super::{Files, p};

/// The previous content is replaced completely.
pub async fn a_write_replaces_a_file_whole_and_makes_directories(mut files: Files) {
    files.write("/a/b/c/file", "a long content").await.unwrap();
    files.write("/a/b/c/file", "short").await.unwrap();
    assert_eq!(files.read("/a/b/c/file").await.unwrap(), b"short");
    assert_eq!(files.list("/a/b").await.unwrap(), ["/a/b/c/"]);
}

/// This holds even if nobody reads in between.
pub async fn every_write_is_another_version(mut files: Files) {
    let mut seen = Vec::new();
    for content in ["1", "2", "3", "4"] {
        let version = files.write("/f", content).await.unwrap();
        assert_eq!(files.version("/f").await, version);
        assert!(!seen.contains(&version), "{version:?} in {seen:?}");
        seen.push(version);
    }
}

/// Whichever exists first is kept.
pub async fn a_path_is_a_file_or_a_directory(mut files: Files) {
    files.fill(&[("/a", "x"), ("/d/f", "x")]).await;
    let in_the_way = FsError::NotADirectory(p("/a"));
    assert_eq!(files.write("/a/b", "x").await.unwrap_err(), in_the_way);
    assert_eq!(files.write("/a/b/c", "x").await.unwrap_err(), in_the_way);
    assert_eq!(files.write("/d", "x").await.unwrap_err(), FsError::IsDirectory(p("/d")));
    let new = files.write_mode("/d", "x", WriteMode::Create).await.unwrap_err();
    assert_eq!(new, FsError::IsDirectory(p("/d")));
    assert_eq!(files.read("/a").await.unwrap(), b"x");
    assert_eq!(files.list("/").await.unwrap(), ["/a", "/d/"]);
}

/// This holds for every spelling of the root.
pub async fn the_root_is_no_file(mut files: Files) {
    files.write("/a", "x").await.unwrap();
    for root in ["/", "", ".", "//"] {
        assert_eq!(files.write(root, "x").await.unwrap_err(), FsError::IsDirectory(p("/")));
    }
    assert_eq!(files.backend.stat(&files.state, &p("/")).await.unwrap().kind, Kind::Directory);
    assert_eq!(files.list("/").await.unwrap(), ["/a"]);
}

/// An existing file is unchanged.
pub async fn a_file_is_created_only_where_none_is(mut files: Files) {
    files.write_mode("/f", "1", WriteMode::Create).await.unwrap();
    let taken = files.write_mode("/f", "2", WriteMode::Create).await.unwrap_err();
    assert_eq!(taken, FsError::AlreadyExists(p("/f")));
    assert_eq!(files.read("/f").await.unwrap(), b"1");
}

/// An older version, or a file that does not exist, is rejected.
pub async fn a_write_under_a_version_needs_that_version(mut files: Files) {
    let first = files.write("/f", "1").await.unwrap();
    let second = files.write_mode("/f", "2", WriteMode::IfVersion(first.clone())).await.unwrap();
    assert_ne!(first, second);
    let late = files.write_mode("/f", "3", WriteMode::IfVersion(first)).await.unwrap_err();
    assert_eq!(late, FsError::Changed(p("/f")));
    assert_eq!(files.read("/f").await.unwrap(), b"2");
    files.delete("/f").await.unwrap();
    let gone = files.write_mode("/f", "3", WriteMode::IfVersion(second)).await.unwrap_err();
    assert_eq!(gone, FsError::Changed(p("/f")));
    assert!(files.list("/").await.unwrap().is_empty());
}
