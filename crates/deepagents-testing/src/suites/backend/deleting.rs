//! Deleting.

use deepagents_fs::FsError;

use super::{Files, p};

/// Paths match by component, not by string prefix.
pub async fn a_directory_goes_with_what_it_holds_and_nothing_beside_it(mut files: Files) {
    for path in ["/a/b/c", "/a/b/d/e", "/a/b/.hidden", "/a-b", "/ab", "/a/x"] {
        files.write(path, "x").await.unwrap();
    }
    files.delete("/a/b").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/a/", "/a-b", "/ab"]);
    assert_eq!(files.list("/a").await.unwrap(), ["/a/x"]);
    files.delete("/a/").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/a-b", "/ab"]);
}

/// The contents of the root stay as well.
pub async fn the_root_stays(mut files: Files) {
    files.write("/a/b", "x").await.unwrap();
    for root in ["/", "", ".", "//"] {
        assert_eq!(files.delete(root).await.unwrap_err(), FsError::Fixed(p("/")));
    }
    assert_eq!(files.read("/a/b").await.unwrap(), b"x");
}

/// Deleting a missing path is an error, including below a file.
pub async fn what_is_missing_is_not_deleted(mut files: Files) {
    files.write("/d/f", "x").await.unwrap();
    for path in ["/none", "/no/ne", "/d/none"] {
        assert_eq!(files.delete(path).await.unwrap_err(), FsError::NotFound(p(path)));
    }
    assert_eq!(files.delete("/d/f/g").await.unwrap_err(), FsError::NotADirectory(p("/d/f")));
    assert_eq!(files.read("/d/f").await.unwrap(), b"x");
}

/// A file may take the place of a deleted directory, and the reverse.
pub async fn a_name_that_was_deleted_is_free(mut files: Files) {
    files.write("/a/b", "x").await.unwrap();
    files.delete("/a").await.unwrap();
    files.write("/a", "now a file").await.unwrap();
    assert_eq!(files.list("/").await.unwrap(), ["/a"]);
    files.delete("/a").await.unwrap();
    files.write("/a/c", "a directory again").await.unwrap();
    assert_eq!(files.list("/a").await.unwrap(), ["/a/c"]);
}
