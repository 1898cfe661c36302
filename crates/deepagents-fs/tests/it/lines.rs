use std::io::{Seek, SeekFrom, Write};

use deepagents_fs::lines::{LineRange, window};
use deepagents_fs::{Backend, LocalBackend, Version};
use proptest::prelude::*;

use crate::suite::Files;

fn read(content: &[u8], range: LineRange) -> deepagents_fs::lines::LineWindow {
    window(content, range, Version::new("v"))
}

#[test]
fn a_window_ends_before_the_line_that_would_exceed_it() {
    let content = b"aaaa\nbbbb\ncccc\n";
    let window = read(content, LineRange { max_bytes: 10, ..LineRange::new(0, 10) });
    assert_eq!(window.lines, ["aaaa", "bbbb"]);
    assert_eq!((window.next, window.cut, window.end, window.total), (Some(2), false, 10, Some(3)));
}

#[test]
fn an_overlong_first_line_is_cut_at_a_character_boundary() {
    let content = "first\nxé🦀🦀\nlast\n".as_bytes();
    let window = read(content, LineRange { max_bytes: 9, ..LineRange::new(1, 10) });
    assert_eq!(window.lines, ["xé🦀"]);
    assert!(window.cut && !window.lossy);
    assert_eq!(&content[usize::try_from(window.end).unwrap()..], "🦀\nlast\n".as_bytes());
    assert_eq!((window.next, window.total), (Some(2), Some(3)));
}

#[test]
fn invalid_utf8_is_replaced_and_reported() {
    let window = read(b"ok\nbad \xff\n", LineRange::new(0, 10));
    assert_eq!(window.lines, ["ok", "bad \u{fffd}"]);
    assert!(window.lossy);
}

#[test]
fn lines_after_a_large_files_window_are_not_counted() {
    let content = b"line\n".repeat(100);
    let range = LineRange { count_up_to: 10, ..LineRange::new(5, 3) };
    let window = read(&content, range);
    assert_eq!((window.lines.len(), window.total, window.next), (3, None, Some(8)));
}

#[tokio::test]
async fn no_lines_are_counted_after_an_early_window_of_a_huge_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(dir.path().join("huge.log")).unwrap();
    for n in 0..1000 {
        writeln!(file, "line {n}").unwrap();
    }
    // A sparse gigabyte that takes no space.
    file.seek(SeekFrom::Start(1 << 30)).unwrap();
    file.write_all(b"end\n").unwrap();
    let files = Files::new(std::sync::Arc::new(LocalBackend::open(dir.path()).unwrap()));
    // `bench files` measures the cost.
    let window = files.lines("/huge.log", 100, 100).await.unwrap();
    assert_eq!((window.lines.len(), window.lines[0].as_str()), (100, "line 100"));
    assert_eq!((window.next, window.total), (Some(200), None));
}

proptest! {
    #[test]
    fn consecutive_windows_add_up_to_the_file(
        content in prop::collection::vec(prop::sample::select(vec![b'a', b'\n', b'\r', 0xff, 0xc3, 0xa9]), 0..60),
        limit in 1_u64..5,
    ) {
        let whole = read(&content, LineRange::new(0, 1000));
        let total = whole.total.unwrap();
        prop_assert_eq!(total, whole.lines.len() as u64);
        prop_assert_eq!(total, content.iter().filter(|b| **b == b'\n').count() as u64
            + u64::from(content.last().is_some_and(|b| *b != b'\n')));
        let (mut pages, mut offset) = (Vec::new(), 0);
        loop {
            let page = read(&content, LineRange::new(offset, limit));
            pages.extend(page.lines);
            match page.next {
                Some(next) => { prop_assert_eq!(next, offset + limit); offset = next }
                None => break,
            }
        }
        prop_assert_eq!(pages, whole.lines);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn windows_deep_in_a_file_match_counting_every_line() {
    let directory = tempfile::tempdir().unwrap();
    let expected: Vec<String> = (0..9000).map(|n| format!("{n}{}", "x".repeat(n * 7 % 90))).collect();
    for end in ["", "\n"] {
        std::fs::write(directory.path().join("long.txt"), expected.join("\n") + end).unwrap();
        let files = deepagents_fs::LocalBackend::open(directory.path()).unwrap();
        let path = deepagents_fs::VPath::parse("/long.txt").unwrap();
        for offset in (0..9100).step_by(97).chain([8999, 9000]) {
            let state = deepagents_core::state::State::default();
            let window = files.read_lines(&state, &path, LineRange::new(offset, 3)).await.unwrap();
            let wanted: Vec<&String> = expected.iter().skip(usize::try_from(offset).unwrap()).take(3).collect();
            assert_eq!(window.lines.iter().collect::<Vec<_>>(), wanted, "at {offset}");
            assert_eq!(window.total, Some(9000), "at {offset}");
        }
    }
}
