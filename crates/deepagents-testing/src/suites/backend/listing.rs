//! Listing directories.

use deepagents_fs::FsError;

use super::{Files, p};

/// The root always exists.
pub async fn an_empty_workspace_lists_nothing(files: Files) {
    assert!(files.list("/").await.unwrap().is_empty());
    assert!(files.list(".").await.unwrap().is_empty());
}

/// Each child is listed once, with its size, including dot files.
pub async fn a_listing_has_the_direct_children_in_order(mut files: Files) {
    for path in ["/b/x", "/b/y/z", "/b/y/zz", "/b-c", "/b.txt", "/a", "/.hidden", "/bb"] {
        files.write(path, "12345").await.unwrap();
    }
    assert_eq!(files.list("/").await.unwrap(), ["/.hidden", "/a", "/b/", "/b-c", "/b.txt", "/bb"]);
    assert_eq!(files.list("/b/").await.unwrap(), ["/b/x", "/b/y/"]);
    let listing = files.backend.list(&files.state, &p("/b")).await.unwrap();
    assert_eq!(listing.entries.iter().map(|e| (e.size, e.link)).collect::<Vec<_>>(), [(5, false), (0, false)]);
    assert_eq!(listing.unnameable, 0);
}

/// A directory contains what is below it, not siblings whose names start with its name.
pub async fn names_that_begin_alike_are_kept_apart(mut files: Files) {
    for path in ["/a/x", "/a-b/y", "/ab/z", "/a b/w", "/a0/v"] {
        files.write(path, "").await.unwrap();
    }
    assert_eq!(files.list("/a").await.unwrap(), ["/a/x"]);
    assert_eq!(files.found("/a", "*").await, ["/a/x"]);
    assert_eq!(files.list("/").await.unwrap(), ["/a/", "/a b/", "/a-b/", "/a0/", "/ab/"]);
}

/// Listing such a path is an error, not an empty listing.
pub async fn what_is_missing_or_a_file_is_not_listed(mut files: Files) {
    files.write("/d/f", "x").await.unwrap();
    assert_eq!(files.list("/none").await.unwrap_err(), FsError::NotFound(p("/none")));
    assert_eq!(files.list("/d/none").await.unwrap_err(), FsError::NotFound(p("/d/none")));
    assert_eq!(files.list("/d/f").await.unwrap_err(), FsError::NotADirectory(p("/d/f")));
}
