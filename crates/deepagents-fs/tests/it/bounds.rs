//! Small calls with large effects: each must end, and use little memory besides its result.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deepagents_fs::edit::{Edit, EditError};
use deepagents_fs::lines::LineRange;
use deepagents_fs::search::{GlobQuery, GrepQuery, PatternError};
use deepagents_fs::{FsError, LocalBackend, OverlayBackend, StateBackend};

use crate::suite::{Files, p};

/// Maximum memory of a call besides its result, in bytes.
const MOST: u64 = 64 << 20;

/// Measures a case in a child process, which runs this test again.
fn measured(name: &str, case: impl AsyncFnOnce(&Path) -> u64) {
    const ROLE: &str = "a_call_that_is_measured";
    let name = format!("bounds::{name}");
    let Some(directory) = std::env::var_os(ROLE) else {
        let dir = tempfile::tempdir().unwrap();
        let mut program = Command::new(std::env::current_exe().unwrap());
        let told = program.args([&name, "--exact", "--nocapture"]).env(ROLE, dir.path()).output().unwrap();
        assert!(
            told.status.success(),
            "{}{}",
            String::from_utf8_lossy(&told.stdout),
            String::from_utf8_lossy(&told.stderr)
        );
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let result = case(Path::new(&directory)).await;
        little_is_held(result);
    });
}

static BEFORE: AtomicU64 = AtomicU64::new(0);

/// Starts the measurement.
fn begin() {
    // Without this kernel file, the peak includes the preparations.
    let _ = fs::write("/proc/self/clear_refs", "5");
    BEFORE.store(memory("VmRSS:"), Ordering::Relaxed);
}

/// Checks the memory used since `begin`, besides a result of this size.
fn little_is_held(result: u64) {
    let grown = memory("VmHWM:").saturating_sub(BEFORE.load(Ordering::Relaxed)).saturating_sub(result);
    assert!(grown <= MOST, "the call took {} MB beside its result of {} MB", grown >> 20, result >> 20);
}

/// A memory statistic of this process, in bytes.
fn memory(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn open(directory: &Path) -> Files {
    Files::new(Arc::new(LocalBackend::open(directory).unwrap()))
}

#[test]
fn edits_that_double_a_file_forty_times_are_refused() {
    measured("edits_that_double_a_file_forty_times_are_refused", async |directory| {
        fs::write(directory.join("f"), "aaaa").unwrap();
        let mut files = open(directory);
        begin();
        let error = files.edit("/f", &vec![Edit::new("a", "aa").all(); 40]).await.unwrap_err();
        // A slow machine may time out first.
        assert!(matches!(error, EditError::TooLarge { .. } | EditError::Fs(FsError::TimedOut { .. })), "{error}");
        assert_eq!(fs::read(directory.join("f")).unwrap(), b"aaaa");
        0
    });
}

#[test]
fn editing_a_large_file_holds_only_a_few_copies_of_it() {
    measured("editing_a_large_file_holds_only_a_few_copies_of_it", async |directory| {
        const SIZE: usize = 9 << 20;
        fs::write(directory.join("letters"), vec![b'a'; SIZE]).unwrap();
        fs::write(directory.join("lines"), "\r\n".repeat(SIZE / 2)).unwrap();
        fs::write(directory.join("larger"), vec![b'a'; 17 << 20]).unwrap();
        let mut files = open(directory);
        begin();
        files.edit("/letters", &[Edit::new("a", "b").all()]).await.unwrap();
        files.edit("/lines", &[Edit::new("\n", "\n").all()]).await.unwrap();
        let error = files.edit("/larger", &[Edit::new("a", "b").all()]).await.unwrap_err();
        assert!(matches!(error, EditError::Fs(FsError::TooLarge { .. })), "{error}");
        2 * SIZE as u64
    });
}

#[test]
fn patterns_that_expand_too_much_are_refused() {
    measured("patterns_that_expand_too_much_are_refused", async |directory| {
        fs::write(directory.join("f"), "x").unwrap();
        let files = open(directory);
        begin();
        let long = "x".repeat(3000);
        for pattern in [
            "{a,".repeat(1300),
            format!("{}{}", "{a,".repeat(1000), "}".repeat(1000)),
            "{a,b}".repeat(800),
            "{".repeat(4000),
            format!("{}{}", "{".repeat(2000), "{a,b}".repeat(9)),
            "{1..999}{1..999}".to_owned(),
            format!("{{1..1000}}{long}"),
            format!("{{1..1000}}{}", "?*".repeat(1500)),
            format!("{{1..900}}{}", "**/a/".repeat(700)),
            "*".repeat(1 << 20),
            format!("{{a,{}}}", "b".repeat(1 << 20)),
        ] {
            let query = GlobQuery::new(&pattern, p("/"));
            if let Ok(query) = query {
                files.glob(&query).await.unwrap();
            }
        }
        assert!(matches!(
            deepagents_fs::search::Pattern::new(&"a".repeat(5000)),
            Err(PatternError::TooLong { bytes: 5000, .. })
        ));
        0
    });
}

#[test]
fn a_search_with_a_billion_context_lines_uses_little_memory() {
    measured("a_search_with_a_billion_context_lines_uses_little_memory", async |directory| {
        for number in 0..150 {
            fs::write(directory.join(format!("{number:03}")), format!("hit\n{}", "line\n".repeat(200_000))).unwrap();
        }
        fs::write(directory.join("large"), "a hit in a line\n".repeat(4 << 20)).unwrap();
        let files = open(directory);
        begin();
        let query = GrepQuery { context: 1_000_000_000, ..GrepQuery::new("hit", p("/")) };
        let found = files.grep(&query).await.unwrap();
        assert!(found.matches > 100);
        0
    });
}

#[test]
fn expensive_regular_expressions_are_refused_or_searched_within_limits() {
    measured("expensive_regular_expressions_are_refused_or_searched_within_limits", async |directory| {
        fs::write(directory.join("long"), "ab".repeat(400_000)).unwrap();
        fs::write(directory.join("short"), "abcab\n".repeat(50_000)).unwrap();
        let files = open(directory);
        begin();
        for pattern in [
            r"(?:\pL{1,100}){1,100}".to_owned(),
            r"((((.{100}){100}){100}){100})".to_owned(),
            r"\w{1000}{10}".to_owned(),
            "(?:.?){2000}x".to_owned(),
            format!("({}", "(".repeat(200)),
            "a|".repeat(8_000),
            "[ab]*a[ab]{200}c".to_owned(),
        ] {
            let mut query = GrepQuery { regex: true, max_count: Some(1000), ..GrepQuery::new(pattern, p("/")) };
            query.scope.deadline = Some(Duration::from_millis(200));
            let _ = files.grep(&query).await;
        }
        let legal = GrepQuery { regex: true, ..GrepQuery::new(r"(?i)\bABC\w{1,60}\b", p("/short")) };
        assert_eq!(files.grep(&legal).await.unwrap().matches, 50_000);
        0
    });
}

#[test]
fn lines_of_any_length_are_searched() {
    measured("lines_of_any_length_are_searched", async |directory| {
        const LONG: usize = 80 << 20;
        let mut text = vec![b'x'; LONG];
        text[LONG / 2..LONG / 2 + 6].copy_from_slice(b"needle");
        text[(8 << 20) - 3..(8 << 20) + 3].copy_from_slice(b"needle");
        text.extend_from_slice(b"\nshort needle\n");
        fs::write(directory.join("f"), &text).unwrap();
        drop(text);
        let files = open(directory);
        begin();
        for regex in [false, true] {
            let found = files.grep(&GrepQuery { regex, ..GrepQuery::new("needle", p("/")) }).await.unwrap();
            assert_eq!(found.errors.count, 0, "{:?}", found.errors);
            let lines: Vec<_> = found.files[0].lines.iter().map(|line| (line.number, line.clipped)).collect();
            assert_eq!(lines, [(1, true), (2, false)]);
            assert!(found.files[0].lines[0].text.contains("needle"));
        }
        0
    });
}

#[test]
fn windows_hold_few_lines_in_memory_and_stop_in_time() {
    measured("windows_hold_few_lines_in_memory_and_stop_in_time", async |directory| {
        fs::write(directory.join("empty-lines"), "\n".repeat(20 << 20)).unwrap();
        File::create(directory.join("huge")).unwrap().set_len(1 << 42).unwrap();
        let files = open(directory);
        begin();
        let window = files.lines("/empty-lines", 0, u64::MAX).await.unwrap();
        assert!(window.next.is_some());
        let range = LineRange { column: u64::MAX, max_bytes: usize::MAX, ..LineRange::new(u64::MAX, u64::MAX) };
        let error = files.window("/huge", range).await.unwrap_err();
        assert!(matches!(error, FsError::TimedOut { .. }), "{error}");
        0
    });
}

#[test]
fn searching_a_backend_that_reads_whole_files_skips_large_ones() {
    measured("searching_a_backend_that_reads_whole_files_skips_large_ones", async |directory| {
        fs::write(directory.join("large"), "hit\n".repeat(25 << 20)).unwrap();
        fs::write(directory.join("small"), "hit\n").unwrap();
        let lower = Arc::new(LocalBackend::open(directory).unwrap());
        let files = Files::new(Arc::new(OverlayBackend::new(Arc::new(StateBackend::new()), lower)));
        begin();
        let found = files.grep(&GrepQuery::new("hit", p("/"))).await.unwrap();
        assert_eq!((found.matches, found.errors.count), (1, 1));
        0
    });
}

/// Random arguments of all kinds, large and nested.
#[test]
fn no_request_uses_much_memory() {
    measured("no_request_uses_much_memory", async |directory| {
        for name in ["a", "b/c", "b/d/e", ".h/i"] {
            fs::create_dir_all(directory.join(name).parent().unwrap()).unwrap();
            fs::write(directory.join(name), "abc ABC 123 hit\r\n".repeat(30_000)).unwrap();
        }
        let mut files = open(directory);
        let mut random = fastrand::Rng::with_seed(7);
        // The result of an edit contains the file before and after.
        let result = 2 * deepagents_fs::edit::MAX_BYTES;
        for _ in 0..120 {
            // Measured per call, without the memory that the allocator retains from earlier calls.
            begin();
            let text = random_text(&mut random);
            let number = *random.choice(&[0_u64, 1, 50, 1 << 20, 1 << 40, u64::MAX]).unwrap();
            let short = usize::try_from(number).unwrap_or(usize::MAX);
            match random.u8(0..5) {
                0 => {
                    if let Ok(query) = GlobQuery::new(&text, p("/")) {
                        files.glob(&query).await.unwrap();
                    }
                }
                1 | 2 => {
                    let mut query = GrepQuery::new(text, p("/"));
                    query.scope.deadline = Some(Duration::from_millis(200));
                    (query.regex, query.ignore_case, query.context) = (random.bool(), random.bool(), short);
                    query.max_count = random.bool().then_some(short);
                    let _ = files.grep(&query).await;
                }
                3 => {
                    let range = LineRange { column: number, max_bytes: short, ..LineRange::new(number / 3, number) };
                    let _ = files.window("/b/c", LineRange { max_bytes: range.max_bytes.min(8 << 20), ..range }).await;
                }
                _ => {
                    let old = random.choice(&["a", "hit", "\r\n", " "]).unwrap();
                    let edits = vec![Edit::new(*old, text).all(); random.usize(1..20)];
                    let _ = files.edit("/a", &edits).await;
                    fs::write(directory.join("a"), "abc hit\r\n").unwrap();
                }
            }
            little_is_held(result);
        }
        result
    });
}

fn random_text(random: &mut fastrand::Rng) -> String {
    const PIECES: [&str; 24] = [
        "a", "b", "hit", "*", "**", "/", "?", "[a-z]", "[!a]", "{a,b}", "{", "}", ",", "{1..9}", "(", ")", "|", "+",
        "{50}", "\\w", "\\pL", ".*", "^", "$",
    ];
    let mut text = String::new();
    for _ in 0..random.usize(1..8) {
        let piece: String = (0..random.usize(1..4)).map(|_| *random.choice(&PIECES).unwrap()).collect();
        let times = *random.choice(&[1, 1, 1, 2, 10, 100, 1000]).unwrap();
        let _ = write!(text, "{}", piece.repeat(times));
    }
    text
}

/// A chain of directories with long names, with files or directories at its end. The paths exceed the system's limit,
/// so each directory is created relative to its parent.
fn deep(directory: &Path, levels: usize, ends: usize) {
    let name = "d".repeat(250);
    let mut at = rustix::fs::open(directory, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    let all = rustix::fs::Mode::RWXU;
    for _ in 0..levels {
        rustix::fs::mkdirat(&at, &*name, all).unwrap();
        at = rustix::fs::openat(&at, &*name, rustix::fs::OFlags::DIRECTORY, all).unwrap();
    }
    for number in 0..ends {
        drop(rustix::fs::openat(&at, format!("f{number}"), rustix::fs::OFlags::CREATE, all).unwrap());
        rustix::fs::mkdirat(&at, format!("s{number}"), all).unwrap();
    }
}

#[test]
fn paths_of_any_length_are_searched_and_deleted_within_bounds() {
    measured("paths_of_any_length_are_searched_and_deleted_within_bounds", async |directory| {
        deep(&directory.join("."), 1000, 2000);
        let mut files = open(directory);
        begin();
        let found = files.backend.glob(&files.state, &GlobQuery::new("**/*", p("/")).unwrap()).await.unwrap();
        assert_eq!((found.files.len(), found.errors.count), (0, 1), "{:?}", found.errors);
        assert!(
            found.errors.errors[0].to_string().ends_with("what lies deeper than 16384 bytes of path is not looked at")
        );
        let found = files.backend.grep(&files.state, &GrepQuery::new("x", p("/"))).await.unwrap();
        assert_eq!((found.files.len(), found.errors.count), (0, 1));
        files.delete(&format!("/{}", "d".repeat(250))).await.unwrap();
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
        0
    });
}

#[test]
fn a_file_in_many_new_directories_is_written_with_little_memory() {
    measured("a_file_in_many_new_directories_is_written_with_little_memory", async |directory| {
        let mut files = open(directory);
        let above = "/a".repeat(1000);
        begin();
        files.write(&format!("{above}/f"), "x").await.unwrap();
        files.write(&format!("{above}/new/{}", "n".repeat(256)), "x").await.unwrap_err();
        assert_eq!(files.list(&above).await.unwrap(), [format!("{above}/f")]);
        files.delete("/a").await.unwrap();
        assert!(deepagents_fs::VPath::parse(&"/a".repeat(100_000)).is_err());
        0
    });
}

#[test]
fn ignore_file_rules_are_applied_within_limits() {
    measured("ignore_file_rules_are_applied_within_limits", async |directory| {
        let mut at = directory.to_owned();
        for level in 0..4 {
            let rules = (0..200_000).map(|number| format!("x{number}\n")).collect::<String>();
            fs::write(at.join(".gitignore"), format!("hidden{level}\n{rules}")).unwrap();
            fs::write(at.join(format!("hidden{level}")), "").unwrap();
            fs::write(at.join("shown"), "").unwrap();
            at = at.join("d");
            fs::create_dir(&at).unwrap();
        }
        fs::write(at.join(".gitignore"), format!("{}\n", "*?".repeat(100_000))).unwrap();
        let files = open(directory);
        begin();
        let mut query = GlobQuery::new("**/*", p("/")).unwrap();
        query.scope.respect_gitignore = true;
        let found = files.backend.glob(&files.state, &query).await.unwrap();
        let names: Vec<_> = found.files.iter().filter_map(|path| path.name()).collect();
        assert!(!names.contains(&"hidden0") && names.contains(&"shown"), "{names:?}");
        insta::assert_snapshot!(found.errors.errors[0], @"/.gitignore: only 5000 rules of up to 1000 bytes are applied, the rest is not");
        0
    });
}
