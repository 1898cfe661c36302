//! The demo.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::program::{Start, deepagents, finish};

#[test]
fn the_demo_needs_no_key_and_leaves_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("flat");
    let demo = finish(deepagents().args(["demo", "--fast", "--dir"]).arg(&place));
    assert_eq!((demo.code, demo.err.as_str()), (Some(0), ""), "{demo:?}");
    for shown in ["fixed script", "Todos 0/4", "Todos 4/4", "✓ read_file /expenses.csv", "✓ write_file /report.md"]
    {
        assert!(demo.out.contains(shown), "{shown} is missing:\n{}", demo.out);
    }
    assert!(demo.out.contains("✗ read_file ../bank/march.csv"), "{}", demo.out);
    assert_eq!(demo.out.matches('✗').count(), 1, "{}", demo.out);
    assert!(!demo.out.contains('\x1b'), "no colours where stdout is no terminal");
    let report = fs::read_to_string(place.join("report.md")).unwrap();
    assert!(report.contains("Tom pays Mia 57.46"));
    assert!(fs::read_to_string(place.join("notes.md")).unwrap().contains("- [x] settle March"));
    assert!(demo.out.contains(&format!("cat {}/report.md", place.display())));
}

#[test]
fn the_demo_creates_its_own_directory_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let demo = finish(deepagents().args(["demo", "--fast"]).env("TMPDIR", dir.path()));
    assert_eq!(demo.code, Some(0), "{demo:?}");
    let made: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(made.len(), 1);
    assert!(made[0].join("report.md").is_file());
}

#[test]
fn the_demo_never_mixes_its_files_with_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine.txt"), "mine").unwrap();
    let demo = finish(deepagents().args(["demo", "--dir"]).arg(dir.path()));
    assert!(demo.wrong_usage().contains("is not empty"), "{demo:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Sends a request. Returns the response, with its head.
fn request(host: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_web_demo_shows_its_files_and_story_and_asks_before_editing() {
    let mut demo = deepagents().args(["demo", "--web", "--fast"]).stdout(Stdio::piped()).start();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find(|line| line.starts_with("http://")).unwrap();
    let (host, path) = address.trim_start_matches("http://").split_once('/').unwrap();
    let page = request(host, &format!("GET /{path}"), "");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<div id=\"root\">"), "{page}");
    let thread = path.rsplit('=').next().unwrap();
    let run = |body: &str| request(host, &format!("POST /threads/{thread}/runs/wait"), body);
    let asked = run(
        r#"{"assistant_id": "demo", "input": {"messages": [{"role": "user", "content": "Settle our expenses."}]}}"#,
    );
    for shown in ["/expenses.csv", "Tom pays Mia 57.46", "__interrupt__", "edit_file"] {
        assert!(asked.contains(shown), "{shown} is missing:\n{asked}");
    }
    let ended = run(r#"{"assistant_id": "demo", "command": {"resume": {"decisions": [{"type": "approve"}]}}}"#);
    for shown in ["- [x] settle March", "they add up to zero", "March is settled"] {
        assert!(ended.contains(shown), "{shown} is missing:\n{ended}");
    }
    demo.kill().unwrap();
    demo.wait().unwrap();
}

#[test]
fn the_web_demo_is_reachable_only_from_this_machine() {
    let demo = finish(deepagents().args(["demo", "--web", "--listen", "0.0.0.0:0"]));
    assert!(demo.wrong_usage().contains("only listens on local addresses"), "{demo:?}");
}
