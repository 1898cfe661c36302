//! Searching file contents.

use std::sync::Arc;
use std::time::Duration;

use deepagents_fs::FsError;
use deepagents_fs::search::{GlobQuery, GrepQuery, Truncation};

use super::{Files, p, shown};

async fn tree(mut files: Files) -> Files {
    files.write("/a.txt", "one\nTwo 2.0\nthree\nfour\n").await.unwrap();
    files.write("/d/b.txt", "two\r\none\r\n").await.unwrap();
    files.write("/d/c.rs", "one").await.unwrap();
    files.write("/.hid/x", "one").await.unwrap();
    files
}

fn regex(pattern: &str) -> GrepQuery {
    GrepQuery { regex: true, ..GrepQuery::new(pattern, p("/")) }
}

/// In a text search, a dot matches only a dot.
pub async fn text_is_taken_as_it_stands_unless_a_regular_expression_is_asked_for(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.lines_with(&GrepQuery::new("2.0", p("/"))).await, ["/a.txt:2:Two 2.0"]);
    assert_eq!(files.lines_with(&GrepQuery::new("o.0", p("/"))).await, Vec::<String>::new());
    assert_eq!(files.lines_with(&regex("o.2")).await, ["/a.txt:2:Two 2.0"]);
    assert_eq!(files.lines_with(&GrepQuery::new("-e", p("/"))).await, Vec::<String>::new());
    assert_eq!(files.lines_with(&GrepQuery::new("", p("/a.txt"))).await.len(), 4, "nothing is in every line");
}

/// `^` and `$` match at line ends of any kind.
pub async fn a_regular_expression_sees_the_ends_of_lines(files: Files) {
    let files = tree(files).await;
    let want = ["/a.txt:1:one", "/a.txt:4:four", "/d/b.txt:2:one", "/d/c.rs:1:one"];
    assert_eq!(files.lines_with(&regex("^(one|f.*)$")).await, want);
    assert_eq!(files.lines_with(&GrepQuery::new("one\r\n", p("/d"))).await.len(), 2, "people copy them along");
}

/// Matches are distinguished from context lines.
pub async fn lines_around_a_match_are_shown_once(files: Files) {
    let files = tree(files).await;
    let around = GrepQuery { context: 1, ..GrepQuery::new("three", p("/")) };
    assert_eq!(files.lines_with(&around).await, ["/a.txt-2-Two 2.0", "/a.txt:3:three", "/a.txt-4-four"]);
    let both = GrepQuery { context: 1, ..regex("one|three") };
    let lines = files.lines_with(&GrepQuery { scope: GrepQuery::new("", p("/a.txt")).scope, ..both }).await;
    assert_eq!(lines, ["/a.txt:1:one", "/a.txt-2-Two 2.0", "/a.txt:3:three", "/a.txt-4-four"]);
}

/// Dot files are searched only if the glob or the path names them.
pub async fn a_glob_and_the_place_narrow_a_search(files: Files) {
    let files = tree(files).await;
    let one = GrepQuery::new("one", p("/"));
    assert_eq!(files.lines_with(&one).await, ["/a.txt:1:one", "/d/b.txt:2:one", "/d/c.rs:1:one"]);
    assert_eq!(files.lines_with(&GrepQuery::new("one", p("/.hid"))).await, ["/.hid/x:1:one"]);
    let only = |glob: &str| one.clone().only(glob).unwrap();
    assert_eq!(files.lines_with(&only("*.txt")).await, ["/a.txt:1:one", "/d/b.txt:2:one"]);
    assert_eq!(files.lines_with(&only("d/*")).await, ["/d/b.txt:2:one", "/d/c.rs:1:one"]);
    assert_eq!(files.lines_with(&only(".hid/*")).await, ["/.hid/x:1:one"]);
}

/// Its siblings are not searched.
pub async fn a_file_as_the_place_is_searched_alone(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.lines_with(&GrepQuery::new("one", p("/d/c.rs"))).await, ["/d/c.rs:1:one"]);
    assert_eq!(files.lines_with(&GrepQuery::new("one", p("/.hid/x"))).await, ["/.hid/x:1:one"]);
}

/// This holds for plain text and regular expressions.
pub async fn upper_and_lower_case_differ_unless_told_otherwise(files: Files) {
    let files = tree(files).await;
    assert_eq!(files.lines_with(&GrepQuery::new("TWO", p("/"))).await, Vec::<String>::new());
    let fold = GrepQuery { ignore_case: true, ..GrepQuery::new("TWO", p("/")) };
    assert_eq!(files.lines_with(&fold).await, ["/a.txt:2:Two 2.0", "/d/b.txt:1:two"]);
}

/// Searching a missing path is an error, not an empty result.
pub async fn a_search_of_what_is_missing_is_an_error(files: Files) {
    let files = tree(files).await;
    let missing = files.grep(&GrepQuery::new("one", p("/none"))).await.unwrap_err();
    assert_eq!(missing, FsError::NotFound(p("/none")));
}

/// The error states the reason.
pub async fn patterns_that_cannot_be_used_are_refused(files: Files) {
    assert!(matches!(files.grep(&regex("(")).await, Err(FsError::Pattern { .. })));
    assert!(matches!(files.grep(&GrepQuery::new("a\nb", p("/"))).await, Err(FsError::Pattern { .. })));
    assert!(matches!(GrepQuery::new("a", p("/")).only("../x"), Err(FsError::Pattern { .. })));
    for large in [r"(?:\pL{100}){100}".to_owned(), r"((.{100}){100}){100}".to_owned(), "a".repeat(1 << 20)] {
        assert!(matches!(files.grep(&regex(&large)).await, Err(FsError::Pattern { .. })));
    }
}

/// The context is limited, however much is requested.
pub async fn of_lines_around_a_match_there_are_a_few_hundred_at_most(mut files: Files) {
    files.write("/f", format!("{}hit\n{}", "before\n".repeat(5_000), "after\n".repeat(5_000))).await.unwrap();
    let found = files.grep(&GrepQuery { context: usize::MAX, ..GrepQuery::new("hit", p("/")) }).await.unwrap();
    let numbers: Vec<u64> = found.files[0].lines.iter().map(|line| line.number).collect();
    assert_eq!(numbers, (4_801..=5_201).collect::<Vec<_>>());
}

/// The result is truncated only if there is at least one more match.
pub async fn exactly_as_many_as_allowed_are_all(mut files: Files) {
    for file in 0..50 {
        files.write(&format!("/d{}/f{file:02}", file % 3), "hit\nmiss\nhit\n").await.unwrap();
    }
    let all = shown(&files.grep(&GrepQuery::new("hit", p("/"))).await.unwrap());
    assert_eq!(all.len(), 100);
    for max in [0, 1, 2, 3, 99, 100, 101] {
        let out = files.grep(&GrepQuery { max_count: Some(max), ..GrepQuery::new("hit", p("/")) }).await.unwrap();
        assert_eq!(shown(&out), all[..max.min(100)], "{max}");
        assert_eq!((out.matches, out.truncation), (max.min(100), (max < 100).then_some(Truncation::Limit)), "{max}");
    }
    let first = files.grep(&GrepQuery { max_per_file: Some(1), ..GrepQuery::new("hit", p("/")) }).await.unwrap();
    assert_eq!((first.matches, first.files.len(), first.truncation), (50, 50, None));
}

/// A hidden file is treated as if it did not exist.
pub async fn what_may_not_be_seen_takes_nothing_from_a_limit(mut files: Files) {
    for file in 0..9 {
        files.write(&format!("/d{}/f{file}", file % 3), "hit\n").await.unwrap();
    }
    let mut hidden = GrepQuery { max_count: Some(3), ..GrepQuery::new("hit", p("/")) };
    hidden.scope.visible = Some(Arc::new(|path| path.as_str().starts_with("/d2")));
    let out = files.grep(&hidden).await.unwrap();
    assert_eq!(shown(&out), ["/d2/f2:1:hit", "/d2/f5:1:hit", "/d2/f8:1:hit"]);
    assert_eq!(out.truncation, None);
    let names = GlobQuery { scope: hidden.scope, max_files: Some(3), ..GlobQuery::new("*", p("/")).unwrap() };
    let out = files.glob(&names).await.unwrap();
    assert_eq!((out.files.len(), out.truncation), (3, None));
}

/// Partial results are returned.
pub async fn a_search_out_of_time_gives_what_it_has_and_says_so(mut files: Files) {
    files.fill(&[("/a", "hit\n"), ("/b", "hit\n"), ("/c", "hit\n")]).await;
    let mut over = GrepQuery::new("hit", p("/"));
    over.scope.deadline = Some(Duration::ZERO);
    let out = files.grep(&over).await.unwrap();
    assert_eq!((out.matches, out.truncation), (0, Some(Truncation::Deadline)));
    let names = GlobQuery { scope: over.scope, ..GlobQuery::new("*", p("/")).unwrap() };
    assert_eq!(files.glob(&names).await.unwrap().truncation, Some(Truncation::Deadline));
    // The deadline passes while the second file is searched. Longer deadlines give a slow machine more time to get
    // there.
    for deadline in [100, 500, 2_500, 12_500].map(Duration::from_millis) {
        let mut slow = GrepQuery::new("hit", p("/"));
        slow.scope.deadline = Some(deadline);
        slow.scope.visible = Some(Arc::new(move |path| {
            if path.as_str() == "/b" {
                std::thread::sleep(deadline);
            }
            true
        }));
        let out = files.grep(&slow).await.unwrap();
        assert_eq!(out.truncation, Some(Truncation::Deadline));
        let lines = shown(&out);
        assert!(!lines.contains(&"/c:1:hit".to_owned()), "{out:?}");
        if lines.first().is_some_and(|line| line == "/a:1:hit") {
            return;
        }
        assert!(lines.is_empty(), "{out:?}");
    }
    panic!("the first file was never looked at in time");
}

/// One NUL makes a file binary.
pub async fn what_is_not_text_is_passed_over_and_counted(mut files: Files) {
    files.write("/bad", &b"x\n\xff needle \xfe\n"[..]).await.unwrap();
    files.write("/bin", &b"needle\n\0"[..]).await.unwrap();
    files.write("/empty", "").await.unwrap();
    let out = files.grep(&GrepQuery::new("needle", p("/"))).await.unwrap();
    assert_eq!((out.binary, out.errors.count), (1, 0));
    assert_eq!(shown(&out), ["/bad:2:\u{fffd} needle \u{fffd}"]);
}

/// The text of the lines is the same, too.
pub async fn lines_have_the_numbers_that_reading_gives_them(mut files: Files) {
    let mut large = "filler line\n".repeat(200_000);
    large.push_str("needle at the end");
    for (path, content) in [
        ("/bom", "\u{feff}needle\r\n"),
        ("/cr", "a\rneedle\rb\x0c\n\u{2028}needle\u{85}\n"),
        ("/crlf", "\r\n\r\nneedle\r\n"),
        ("/large", &large),
        ("/plain", "\n\nneedle"),
    ] {
        files.write(path, content.to_owned()).await.unwrap();
    }
    let out = files.grep(&GrepQuery::new("needle", p("/"))).await.unwrap();
    assert_eq!(out.files.len(), 5);
    for file in &out.files {
        for line in &file.lines {
            let window = files.lines(file.path.as_str(), line.number - 1, 1).await.unwrap();
            assert_eq!(window.lines, [line.text.as_str()], "{}", file.path);
        }
    }
}

/// The start of the line would not show the match.
pub async fn a_very_long_line_is_shown_around_its_match(mut files: Files) {
    files.write("/long", format!("{}needle{}\n", "é".repeat(5000), "z".repeat(9000))).await.unwrap();
    let out = files.grep(&GrepQuery::new("needle", p("/"))).await.unwrap();
    let long = &out.files[0].lines[0];
    assert!(long.clipped && long.text.len() <= 4096 && long.text.contains("éneedlez"));
}

/// The rules are the same as for globs.
pub async fn ignore_files_count_when_asked(mut files: Files) {
    files.fill(&[("/.gitignore", "*.log\n"), ("/a.log", "hit"), ("/a.txt", "hit"), ("/s/b.log", "hit")]).await;
    let mut query = GrepQuery::new("hit", p("/"));
    assert_eq!(files.lines_with(&query).await.len(), 3);
    query.scope.respect_gitignore = true;
    assert_eq!(files.lines_with(&query).await, ["/a.txt:1:hit"]);
    let mut below = GrepQuery::new("hit", p("/s"));
    below.scope.respect_gitignore = true;
    assert_eq!(files.lines_with(&below).await, Vec::<String>::new());
}
