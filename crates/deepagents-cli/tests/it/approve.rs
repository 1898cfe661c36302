//! Decisions before files are changed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Finished, finish, finish_with, run};
use crate::server::{Reply, Server};

fn writes() -> Reply {
    Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "one\n"}))
}

fn ask(root: &Path, server: &Server) -> Command {
    let mut command = run(root, &server.address);
    command.args(["--no-save", "--approve", "ask", "Write"]);
    command
}

#[test]
fn yes_lets_a_call_be_made() {
    let server = Server::start([writes(), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "y\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("? write_file /a.txt") && finished.err.contains("[y]es"), "{finished:?}");
    assert!(finished.out.starts_with("✓ write_file /a.txt\n\nDone.\n"), "{finished:?}");
    assert!(finished.out.contains("2,400 tokens in (2,000 cached), 68 out · 2 model calls"), "{finished:?}");
    assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), "one\n");
}

#[test]
fn no_keeps_a_call_from_being_made_and_the_reason_reaches_the_model() {
    let server = Server::start([writes(), Reply::Text(vec!["Then not."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "what?\nn use b.txt instead\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("answer with y, n, e or r"), "{finished:?}");
    assert!(!dir.path().join("a.txt").exists());
    assert!(server.requests()[1].body.to_string().contains("use b.txt instead"));
}

#[test]
fn a_call_can_be_edited_and_answered_by_hand() {
    let server = Server::start([writes(), writes(), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let input = "e\n{\"file_path\": \"/b.txt\", \"content\": \"two\\n\"}\nr it is there already\n";
    let finished = finish_with(&mut ask(dir.path(), &server), input);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!dir.path().join("a.txt").exists());
    assert_eq!(fs::read_to_string(dir.path().join("b.txt")).unwrap(), "two\n");
    assert!(server.requests()[2].body.to_string().contains("it is there already"));
}

#[test]
fn what_only_looks_is_not_asked_about() {
    let server = Server::start([Reply::Call("ls", json!({"path": "/"})), Reply::Text(vec!["Empty."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "");
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""), "{finished:?}");
}

#[test]
fn deny_rejects_every_change() {
    let server = Server::start([writes(), Reply::Text(vec!["I may not."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--approve", "deny", "Write"]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!dir.path().join("a.txt").exists());
    assert!(finished.out.contains("✗ write_file /a.txt") && finished.out.contains("I may not."), "{finished:?}");
}

#[test]
fn over_json_questions_are_events_and_answers_are_lines() {
    let server = Server::start([writes(), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let mut child = ask(dir.path(), &server)
        .arg("--json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut events: Vec<Value> = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["type"] == "asked" {
            let question = &event["question"];
            assert_eq!((&question["tool"], &question["args"]["file_path"]), (&json!("write_file"), &json!("/a.txt")));
            writeln!(to, "nonsense\n{}", json!({"answer": "9.9", "decision": {"type": "approve"}})).unwrap();
            writeln!(to, "{}", json!({"answer": question["id"], "decision": {"type": "approve"}})).unwrap();
        }
        events.push(event);
    }
    let finished: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.err.lines().count(), 2, "each wrong line is told: {finished:?}");
    let stops: Vec<&Value> = events.iter().filter(|e| e["type"] == "run_finished").map(|e| &e["stop"]).collect();
    assert_eq!(stops, ["waiting", "done"]);
    assert!(dir.path().join("a.txt").exists());
}

#[test]
fn a_run_that_nobody_decides_for_says_how_to_go_on_and_does() {
    let server = Server::start([writes(), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("threads.db");
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let mut command = run(&root, &server.address);
    let finished = finish_with(command.args(["--approve", "ask", "Write", "--db"]).arg(&db), "");
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let id = finished.err.split("--resume ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(!root.join("a.txt").exists());
    let mut command = run(&root, &server.address);
    let finished = finish_with(command.args(["--approve", "ask", "--resume", id, "--db"]).arg(&db), "yes\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.out.contains("Done.") && root.join("a.txt").exists(), "{finished:?}");
}

#[test]
fn the_task_cannot_come_from_where_the_answers_come_from() {
    let server = Server::start([]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--approve", "ask"]));
    assert!(finished.one_message().contains("give the task on the command line"));
}
