//! Finding files by name.

use deepagents_fs::FsError;
use deepagents_fs::search::{GlobQuery, Truncation};

use super::{Files, p};

async fn tree(mut files: Files) -> Files {
    for path in ["/a.py", "/s/a.py", "/s/b.rs", "/s/t/a.py", "/s-x/a.py", "/.hid/a.py", "/s/.env", "/s/.d/x.py", "/z"] {
        files.write(path, "").await.unwrap();
    }
    files
}

/// Such a pattern matches the last component only.
pub async fn a_pattern_without_a_slash_matches_at_any_depth(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.found("/", "*.py").await, ["/a.py", "/s-x/a.py", "/s/a.py", "/s/t/a.py"]);
    assert_eq!(files.found("/s", "*.py").await, ["/s/a.py", "/s/t/a.py"]);
    assert_eq!(files.found("/", "**").await, ["/a.py", "/s-x/a.py", "/s/a.py", "/s/b.rs", "/s/t/a.py", "/z"]);
}

/// A leading slash makes no difference.
pub async fn a_pattern_with_a_slash_matches_from_the_place_of_the_search(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.found("/", "/*.py").await, ["/a.py"]);
    assert_eq!(files.found("/", "s/**/*.py").await, ["/s/a.py", "/s/t/a.py"]);
    assert_eq!(files.found("/s", "t/*").await, ["/s/t/a.py"]);
    assert_eq!(files.found(".", "s/*.rs").await, ["/s/b.rs"]);
    assert_eq!(files.found("", "./s//*.rs").await, ["/s/b.rs"]);
}

/// The path may appear in the pattern with its leading slash.
pub async fn the_place_may_be_repeated_in_the_pattern(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.found("/s", "/s/*.py").await, ["/s/a.py"]);
    assert_eq!(files.found("/s/t", "/s/t/*").await, ["/s/t/a.py"]);
}

/// A wildcard does not name a dot file.
pub async fn names_with_a_dot_are_found_where_pattern_or_place_names_them(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.found("/", "**/*.env").await, Vec::<String>::new());
    assert_eq!(files.found("/", ".env").await, ["/s/.env"]);
    assert_eq!(files.found("/", "**/.env").await, ["/s/.env"]);
    assert_eq!(files.found("/", ".hid/*.py").await, ["/.hid/a.py"]);
    assert_eq!(files.found("/.hid", "*.py").await, ["/.hid/a.py"]);
    assert_eq!(files.found("/s", ".d/*").await, ["/s/.d/x.py"]);
}

/// Directories are not found.
pub async fn files_alone_are_found(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.found("/", "s").await, Vec::<String>::new());
    assert_eq!(files.found("/", "s/").await, Vec::<String>::new());
    assert_eq!(files.found("/s", "t/**").await, ["/s/t/a.py"]);
}

/// The file is found if its name matches.
pub async fn a_file_may_be_the_place_of_a_search(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.found("/s/a.py", "*.py").await, ["/s/a.py"]);
    assert_eq!(files.found("/s/a.py", "*.rs").await, Vec::<String>::new());
}

/// They work as in shells.
pub async fn alternatives_and_classes_are_understood(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.found("/", "{a.py,*.rs}").await.len(), 5);
    assert_eq!(files.found("/", "s/[a-c].{py,rs}").await, ["/s/a.py", "/s/b.rs"]);
    assert_eq!(files.found("/", "[!az]").await, Vec::<String>::new());
    assert_eq!(files.found("/", "?").await, ["/z"]);
}

/// The pattern is rejected before any search.
pub async fn patterns_that_climb_or_stand_for_too_many_are_refused(_: Files) {
    for bad in ["../x", "a/../b", "{1..2000}", "{a,b}{c,d}{a,b}{c,d}{a,b}{c,d}{a,b}{c,d}{a,b}{c,d}"] {
        assert!(matches!(GlobQuery::new(bad, p("/")), Err(FsError::Pattern { .. })), "{bad}");
    }
    for (piece, times) in [("{a,", 1_000_000), ("{a,b}", 800), ("x", 5_000), ("**/a/", 5_000)] {
        let refused = GlobQuery::new(&format!("{}{}", piece.repeat(times), "}".repeat(times)), p("/"));
        assert!(matches!(refused, Err(FsError::Pattern { .. })), "{piece}");
    }
}

/// Searching a missing path is an error, not an empty result.
pub async fn a_search_of_what_is_missing_is_an_error(files: Files) {
    let files = tree(files).await;
    let none = files.glob(&GlobQuery::new("*", p("/none")).unwrap()).await.unwrap_err();
    assert_eq!(none, FsError::NotFound(p("/none")));
}

/// The result is truncated only if there is at least one more file.
pub async fn a_limit_keeps_the_first_and_says_that_there_is_more(mut files: Files) {
    for file in 0..50 {
        files.write(&format!("/d{}/f{file:02}", file % 3), "").await.unwrap();
    }
    let names = files.found("/", "*").await;
    assert!(names.is_sorted());
    for max in [0, 1, 49, 50, 51] {
        let out =
            files.glob(&GlobQuery { max_files: Some(max), ..GlobQuery::new("*", p("/")).unwrap() }).await.unwrap();
        let found: Vec<String> = out.files.iter().map(ToString::to_string).collect();
        assert_eq!(found, names[..max.min(50)]);
        assert_eq!(out.truncation, (max < 50).then_some(Truncation::Limit));
    }
}

/// Ignore files of parent directories apply, too.
pub async fn ignore_files_count_when_asked(mut files: Files) {
    files.write("/.gitignore", "*.log\n/target\n!keep.log\n").await.unwrap();
    files.write("/sub/.gitignore", "!deep.log\nown/\n").await.unwrap();
    for path in ["/a.log", "/keep.log", "/target/x", "/sub/target/y", "/sub/deep.log", "/sub/own/z", "/sub/b.log"] {
        files.write(path, "hit").await.unwrap();
    }
    assert_eq!(files.found("/", "*").await.len(), 7, "by default nothing is ignored");
    for (place, want) in
        [("/", &["/keep.log", "/sub/deep.log", "/sub/target/y"][..]), ("/sub", &["/sub/deep.log", "/sub/target/y"])]
    {
        let mut query = GlobQuery::new("*", p(place)).unwrap();
        query.scope.respect_gitignore = true;
        let kept: Vec<_> = files.glob(&query).await.unwrap().files.iter().map(ToString::to_string).collect();
        assert_eq!(kept, want);
    }
}
