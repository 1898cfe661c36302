use std::sync::Arc;
use std::time::Duration;

use deepagents_core::state::State;
use deepagents_fs::search::{GlobQuery, GrepQuery, Pattern, PatternError, Truncation, glob, grep};
use deepagents_fs::{Backend, LocalBackend, StateBackend};
use deepagents_testing::skip::skip;
use proptest::prelude::*;

use crate::shell::ends;
use crate::spy::Spy;
use crate::suite::{Files, p, shown};

#[test]
fn all_globs_use_one_dialect() {
    for (pattern, path, want) in [
        ("*.py", "src/a.py", true),
        ("*.yml", ".github/ci.yml", false),
        (".github/**", ".github/w/ci.yml", true),
        ("*", ".a", false),
        ("*", "a/b", true),
        ("[.]a", ".a", false),
        ("{.a,b}", ".a", true),
        ("**/.env", ".env", true),
        ("**/.env", "a/.env", true),
        ("/a.py", "s/a.py", false),
        ("/a.py", "a.py", true),
        ("/**/a.py", "s/a.py", true),
        ("a**b", "axxb", true),
        ("/a**b", "a/x/b", false),
        ("*.{py}", "a.py", false),
        ("*.{py}", "a.{py}", true),
        ("*.{py", "a.{py", true),
        ("[!a].py", "b.py", true),
        ("[^a].py", "a.py", false),
        ("!*.py", "!a.py", true),
        ("\\*.py", "*.py", true),
        ("\\*.py", "a.py", false),
        ("?", "é", true),
        ("[a", "[a", true),
        ("**/*.yml", ".github/ci.yml", false),
        (".github/**/*.yml", ".github/w/ci.yml", true),
        (".github/**/*.yml", ".github/ci.yml", true),
        ("a/**", "a", false),
        ("a/**", "a/b", true),
        ("a/**", "a/b/c", true),
        ("a/**/b", "a/b", true),
        ("a/**/b", "a/x/y/b", true),
        ("**/", "a/b", false),
        ("a//b.py", "a/b.py", true),
        ("./a.py", "a.py", true),
        ("./a.py", "s/a.py", false),
        ("sub/", "sub", false),
        ("*/*.py", ".a/b.py", false),
        ("*/*.py", "a/b.py", true),
        ("*/*.py", "a/b/c.py", false),
        ("{1..3}.py", "2.py", true),
        ("{01..03}.py", "02.py", true),
        ("{01..03}.py", "2.py", false),
        ("{1..010}", "007", true),
        ("{010..1}", "010", true),
        ("{-01..1}", "000", true),
        ("{-01..1}", "-01", true),
        ("{0..10}", "7", true),
        ("{a..c}", "b", true),
        ("{3..1}", "2", true),
        ("{a,b/c}.rs", "b/c.rs", true),
        ("{a,{b,c}d}", "cd", true),
        ("x{,.bak}", "x.bak", true),
        ("x{,.bak}", "x", true),
        ("[[:alpha:]].py", "q.py", true),
        ("[[:digit:]x]", "7", true),
        ("[]a]", "]", true),
        ("[a-c]*", "bz", true),
        ("@(a)", "@(a)", true),
        ("a*b*c", "aXbXbYc", true),
        ("a*b*c", "aXbXbY", false),
        ("*.PY", "a.py", false),
        ("[slug].tsx", "s.tsx", true),
        ("\\[slug\\].tsx", "app/[slug].tsx", true),
        ("**/**/x", "a/x", true),
        ("**", "a/b", true),
        ("", "a", false),
        (".", "a", false),
        ("**/.", "a", false),
        ("**/.", "a/b", false),
        ("a/.", "a", false),
        ("./.", "a", false),
        ("./*", "a", true),
        ("{a,}", "a", true),
        ("{a,}", "b", false),
    ] {
        assert_eq!(Pattern::new(pattern).unwrap().matches(path), want, "{pattern} on {path}");
    }
    assert!(Pattern::with_dots("**").unwrap().matches(".a/.b"));
    assert_eq!(Pattern::new("a/../b").unwrap_err(), PatternError::Traversal);
    assert_eq!(Pattern::new(&"{a,b}".repeat(11)).unwrap_err(), PatternError::TooMany);
}

#[test]
fn a_reversed_character_class_is_rejected() {
    let error = Pattern::new("src/[z-a].rs").unwrap_err();
    assert!(matches!(&error, PatternError::Component { text, .. } if text == "[z-a].rs"), "{error}");
}

#[test]
fn non_ascii_characters_count_as_single_characters() {
    for (pattern, path, want) in [
        ("第?章.md", "第三章.md", true),
        ("第?章.md", "第十三章.md", false),
        ("[äö]*", "öl", true),
        ("[!äö]l", "öl", false),
        ("[ä-ü]", "é", true),
        ("*章*", "docs/第三章", true),
    ] {
        assert_eq!(Pattern::new(pattern).unwrap().matches(path), want, "{pattern} on {path}");
    }
}

#[test]
fn no_glob_takes_unbounded_time() {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let stars = Pattern::new(&format!("{}b", "*a".repeat(200))).unwrap().matches(&"a".repeat(10_000));
        let folders = Pattern::new(&format!("{}x", "**/a/".repeat(100))).unwrap().matches(&"a/".repeat(2000));
        tell.send((stars, folders)).unwrap();
    });
    // A backtracking matcher would never finish.
    assert_eq!(told.recv_timeout(Duration::from_secs(120)), Ok((false, false)));
}

#[tokio::test]
async fn links_are_followed_only_in_the_querys_own_path() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("real")).unwrap();
    std::fs::write(dir.path().join("real/file"), "hit").unwrap();
    std::os::unix::fs::symlink("real", dir.path().join("dirlink")).unwrap();
    std::os::unix::fs::symlink("real/file", dir.path().join("filelink")).unwrap();
    std::os::unix::fs::symlink(".", dir.path().join("real/loop")).unwrap();
    let files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    assert_eq!(files.found("/", "*").await, ["/real/file"]);
    assert_eq!(files.found("/dirlink", "*").await, ["/dirlink/file"]);
    assert_eq!(files.lines_with(&GrepQuery::new("hit", p("/filelink"))).await, ["/filelink:1:hit"]);
    assert_eq!(
        shown(&grep(&*files.backend, &files.state, &GrepQuery::new("hit", p("/"))).await.unwrap()),
        ["/real/file:1:hit"]
    );
}

#[tokio::test]
async fn names_in_a_pattern_limit_the_directories_searched() {
    let spy = Arc::new(Spy::on(StateBackend::new()));
    let mut files = Files::new(spy.clone());
    for path in ["/src/a/x.rs", "/src/b/y.rs", "/src/b/c/z.rs", "/target/x.rs", "/src.rs", "/.git/x.rs"] {
        files.write(path, "hit").await.unwrap();
    }
    for (place, pattern, listed) in [
        ("/", "src/b/**/*.rs", &["list /", "list /src", "list /src/b", "list /src/b/c"][..]),
        ("/", "/src/a/x.rs", &["list /", "list /src", "list /src/a"]),
        ("/src", "b/*.rs", &["list /src", "list /src/b"]),
        ("/", "{src/a,target}/*", &["list /", "list /src", "list /src/a", "list /target"]),
        ("/", "/*.rs", &["list /"]),
    ] {
        let found = files.found(place, pattern).await;
        assert!(!found.is_empty(), "{pattern}");
        assert_eq!(spy.take(), listed, "{pattern}");
    }
    let only = GrepQuery::new("hit", p("/")).only("src/a/*").unwrap();
    assert_eq!(files.lines_with(&only).await, ["/src/a/x.rs:1:hit"]);
    assert_eq!(spy.take(), ["list /", "list /src", "list /src/a", "read /src/a/x.rs"]);
}

#[tokio::test]
async fn names_in_a_pattern_limit_the_directories_searched_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["src/a", "other/deep"] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join(name).join("x.rs"), "hit").unwrap();
    }
    // The access time shows when a directory was last read, unless the disk has none.
    let old = std::fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH + Duration::from_secs(1));
    for name in ["src", "other"] {
        std::fs::File::open(dir.path().join(name)).unwrap().set_times(old).unwrap();
    }
    let files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    assert_eq!(files.found("/", "src/**/*.rs").await, ["/src/a/x.rs"]);
    let read = |name: &str| {
        std::fs::metadata(dir.path().join(name)).unwrap().accessed().unwrap()
            > std::time::UNIX_EPOCH + Duration::from_secs(2)
    };
    if !read("src") {
        skip("times of access", "this disk keeps none");
        return;
    }
    assert!(!read("other"), "a directory that cannot match was read");
}

#[tokio::test]
async fn an_abandoned_search_makes_no_further_requests() {
    let spy = Arc::new(Spy { meet: Some(Arc::new(tokio::sync::Barrier::new(2))), ..Spy::on(StateBackend::new()) });
    let mut files = Files::new(spy.clone());
    files.fill(&[("/a/x", "hit"), ("/b/x", "hit")]).await;
    let query = GrepQuery::new("hit", p("/"));
    {
        let mut search = std::pin::pin!(files.grep(&query));
        assert!(futures_util::poll!(search.as_mut()).is_pending());
    }
    tokio::task::yield_now().await;
    assert_eq!(spy.take(), ["list /"]);
}

#[tokio::test]
async fn a_search_stops_when_nobody_awaits_it() {
    let dir = tempfile::tempdir().unwrap();
    // Reading a sparse terabyte would take minutes.
    std::fs::write(dir.path().join("huge"), "text\n".repeat(2000)).unwrap();
    std::fs::OpenOptions::new().write(true).open(dir.path().join("huge")).unwrap().set_len(1 << 40).unwrap();
    let files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    let mut query = GrepQuery::new("needle", p("/"));
    query.scope.deadline = None;
    let waited = tokio::time::timeout(Duration::from_millis(50), files.grep(&query)).await;
    assert!(waited.is_err());
    query.scope.deadline = Some(Duration::from_millis(50));
    let out = ends(files.grep(&query)).await.unwrap();
    assert!(out.truncation.is_some() || out.errors.count > 0);
    // Dropping the runtime waits for blocking tasks, so this test ends only if the first search did.
}

fn tree() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop::sample::select(vec!["a", "a-b", "b", ".h", "x.rs", "y.rs", "[z]"]);
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let content = prop::collection::vec(prop::sample::select(vec!["hit", "\n", "\r\n", "é", "\u{0}"]), 0..8);
    prop::collection::vec((path, content.prop_map(|parts| parts.concat())), 0..20)
}

fn glob_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "é",
        ".",
        "*",
        "?",
        "**",
        "/",
        "[",
        "]",
        "[!",
        "-",
        "\\",
        "{",
        "}",
        ",",
        "..",
        "1",
        "[a-c]",
        "[[:alpha:]]",
    ]);
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_a_valid_glob_or_rejected(text in prop_oneof![glob_text(), "\\PC{0,30}"], path in "[aé./c1-]{0,10}") {
        if let (Ok(plain), Ok(dots)) = (Pattern::new(&text), Pattern::with_dots(&text)) {
            prop_assert!(!plain.matches(&path) || dots.matches(&path));
            prop_assert_eq!(plain.as_str(), text);
        }
    }

    #[test]
    fn a_fully_escaped_path_matches_only_itself(path in "[^/\\\\\u{0}]{1,8}(/[^/\\\\\u{0}]{1,8}){0,2}", other in "[a-z]{1,3}") {
        prop_assume!(path.split('/').all(|name| name != "." && name != ".."));
        let glob: String = path.chars().flat_map(|c| if c == '/' { vec![c] } else { vec!['\\', c] }).collect();
        let pattern = Pattern::new(&format!("/{glob}")).unwrap();
        prop_assert!(pattern.matches(&path));
        let longer = format!("{path}{other}");
        prop_assert!(!pattern.matches(&longer));
    }

    #[test]
    fn a_question_mark_matches_one_character(name in "[^/\u{0}]{1,12}") {
        let (same, more) = ("?".repeat(name.chars().count()), "?".repeat(name.chars().count() + 1));
        prop_assert!(Pattern::with_dots(&same).unwrap().matches(&name));
        prop_assert!(!Pattern::with_dots(&more).unwrap().matches(&name));
    }

    #[test]
    fn braces_match_each_alternative(parts in prop::collection::vec("[a-c*?./]{0,3}", 4), path in "[abc./]{1,8}") {
        let [before, one, two, after] = &parts[..] else { unreachable!() };
        let matches = |text: String| Pattern::new(&text).map(|pattern| pattern.matches(&path));
        let (one, two) = (matches(format!("/{before}{one}{after}")), matches(format!("/{before}{two}{after}")));
        let both = matches(format!("/{}{{{},{}}}{}", before, parts[1], parts[2], after));
        match (one, two) {
            (Ok(one), Ok(two)) => prop_assert_eq!(both, Ok(one || two)),
            _ => prop_assert!(both.is_err()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_fast_search_agrees_with_the_simple_one(
        tree in tree(), kernel in any::<bool>(),
        pattern in prop::sample::select(vec!["*", "**/*.rs", "a/**", "*/x.rs", ".h/*", "{a,b}/**/[xy].rs", "/\\[z\\]"]),
        max in prop::option::of(0_usize..6), context in 0_usize..2,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            for (path, content) in &tree {
                let path = dir.path().join(path);
                let _ = std::fs::create_dir_all(path.parent().unwrap());
                let _ = std::fs::write(path, content);
            }
            let options = deepagents_fs::LocalOptions { kernel_resolution: kernel, ..deepagents_fs::LocalOptions::default() };
            let files = LocalBackend::open_with(dir.path(), options).unwrap();
            let state = State::default();
            let query = GlobQuery { max_files: max, ..GlobQuery::new(pattern, p("/")).unwrap() };
            let (quick, plain) = (files.glob(&state, &query).await.unwrap(), glob(&files, &state, &query).await.unwrap());
            assert_eq!((&quick.files, quick.truncation), (&plain.files, plain.truncation));
            assert!(quick.files.is_sorted());
            let query = GrepQuery { max_count: max, context, ..GrepQuery::new("hit", p("/")).only(pattern).unwrap() };
            let (quick, plain) = (files.grep(&state, &query).await.unwrap(), grep(&files, &state, &query).await.unwrap());
            assert_eq!((shown(&quick), quick.truncation), (shown(&plain), plain.truncation));
        });
    }
}

#[tokio::test]
async fn deep_directories_hide_neither_their_own_nor_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let depth = 300;
    for branch in ["a", "b"] {
        let mut at = dir.path().join(branch);
        for level in 0..depth {
            std::fs::create_dir_all(at.join(if level % 2 == 0 { "even" } else { "odd" })).unwrap();
            std::fs::write(at.join("needle"), "needle\n").unwrap();
            at.push("d");
            std::fs::create_dir(&at).unwrap();
        }
    }
    std::fs::create_dir(dir.path().join("z")).unwrap();
    std::fs::write(dir.path().join("z/needle"), "needle\n").unwrap();
    for kernel_resolution in [true, false] {
        let options = deepagents_fs::LocalOptions { kernel_resolution, ..deepagents_fs::LocalOptions::default() };
        let files = LocalBackend::open_with(dir.path(), options).unwrap();
        let found = files.glob(&State::default(), &GlobQuery::new("**/needle", p("/")).unwrap()).await.unwrap();
        assert_eq!((found.files.len(), found.truncation), (2 * depth + 1, None));
        let found = files.grep(&State::default(), &GrepQuery::new("needle", p("/"))).await.unwrap();
        assert_eq!(found.files.len(), 2 * depth + 1);
    }
}

#[test]
fn the_reason_why_a_long_pattern_is_invalid_is_not_behind_all_of_it() {
    let error = GlobQuery::new(&"{".repeat(5_000), p("/")).unwrap_err().to_string();
    assert!(error.len() < 600 && error.starts_with("invalid pattern `{{{"), "{error}");
}

#[tokio::test]
async fn the_pieces_that_a_long_line_is_searched_in_have_no_ends_of_a_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), format!("over\n{}\nunder\n", "abc".repeat(1 << 20))).unwrap();
    let files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    let found = async |pattern: &str, context| {
        let query = GrepQuery { regex: true, context, ..GrepQuery::new(pattern, p("/f")) };
        let found = files.grep(&query).await.unwrap();
        let lines = found.files.into_iter().flat_map(|file| file.lines);
        lines.map(|line| (line.number, line.matched)).collect::<Vec<_>>()
    };
    for pattern in ["^[bc]", "[ab]$", r"\b[bc]", r"[ab]\b", "^.{9,99}$"] {
        assert_eq!(found(pattern, 0).await, [], "{pattern}");
        assert_eq!(found(pattern, 1).await, [], "{pattern}");
    }
    for pattern in ["^abc", "abc$", "abc", r"\Babc"] {
        assert_eq!(found(pattern, 0).await, [(2, true)], "{pattern}");
    }
    assert_eq!(found("abc$", 1).await, [(2, true), (3, false)]);
    assert_eq!(found("^under", 0).await, [(3, true)]);
}

#[tokio::test]
async fn a_slow_regular_expression_is_stopped_within_a_line() {
    let mut random = fastrand::Rng::with_seed(1);
    let line: String = (0..4 << 20).map(|_| if random.bool() { 'a' } else { 'b' }).collect();
    let content = format!("{line}\nneedle\n");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), &content).unwrap();
    let local = LocalBackend::open(dir.path()).unwrap();
    let mut query = GrepQuery { regex: true, ..GrepQuery::new("[ab]*a(?:a|b|ab|ba){60}c|needle", p("/f")) };
    query.scope.deadline = Some(Duration::from_millis(200));
    let started = std::time::Instant::now();
    for found in [local.grep(&State::default(), &query).await, grep(&local, &State::default(), &query).await] {
        let found = found.unwrap();
        assert_eq!((found.matches, found.truncation), (0, Some(Truncation::Deadline)));
    }
    // Without the limit, it takes minutes.
    assert!(started.elapsed() < Duration::from_secs(90), "{:?}", started.elapsed());
}

#[tokio::test]
async fn complex_expressions_find_whole_lines_of_some_thousand_characters() {
    let dir = tempfile::tempdir().unwrap();
    let prose = "seven words are in here and more ".repeat(900);
    std::fs::write(dir.path().join("f"), format!("one\n{prose}\ntwo\n{}\nthree\n", "x ".repeat(300_000))).unwrap();
    let files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    let found = async |pattern: &str, context| {
        let query = GrepQuery { regex: true, context, ..GrepQuery::new(pattern, p("/f")) };
        let lines = files.grep(&query).await.unwrap().files.into_iter().flat_map(|file| file.lines);
        lines.map(|line| (line.number, line.matched, line.clipped)).collect::<Vec<_>>()
    };
    for pattern in [r"^(\w+ ){6}.*$", r"seven.{0,3000}more", r"(?x) seven \ words"] {
        assert_eq!(found(pattern, 0).await, [(2, true, true)], "{pattern}");
    }
    let long_words = ["a", "b", "c", "d", "words"].map(|word| word.repeat(60)).join("|");
    assert_eq!(found(&format!("{long_words}|two"), 0).await, [(3, true, false)]);
    assert_eq!(found("^two$", 1).await, [(2, false, true), (3, true, false), (4, false, true)]);
    assert_eq!(found(r"^x( \w){6}", 1).await, [(3, false, false), (4, true, true), (5, false, false)]);
}

#[tokio::test]
async fn large_utf16_files_are_searched_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let filler = "🦀é\r\n".repeat(300_000);
    let text = format!("{filler}needle 🦀\r\n{filler}");
    let units = || std::iter::once(0xfeff).chain(text.encode_utf16());
    let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    std::fs::write(dir.path().join("big"), &big).unwrap();
    std::fs::write(dir.path().join("cut"), &little[..little.len() - 1]).unwrap();
    std::fs::write(dir.path().join("little"), &little).unwrap();
    std::fs::write(dir.path().join("not-text"), [&[0xff, 0xfe, 0, 0xdc][..], &little].concat()).unwrap();
    let files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    for (pattern, regex) in [("needle 🦀", false), ("^needle 🦀$", true)] {
        let found = files.grep(&GrepQuery { regex, ..GrepQuery::new(pattern, p("/")) }).await.unwrap();
        let want = ["big", "cut", "little"].map(|name| format!("/{name}:300001:needle 🦀"));
        assert_eq!((shown(&found), found.binary), (want.to_vec(), 1));
    }
}
