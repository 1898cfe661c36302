//! Recorded runs, replayed without model, files and network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};

fn write(path: &str) -> Reply {
    Reply::Call("write_file", json!({"file_path": path, "content": "one\n"}))
}

fn replay(file: &Path) -> Command {
    let mut command = deepagents();
    command.arg("replay").arg(file);
    command
}

/// The output without the cost line, whose time varies.
fn shown(finished: &Finished) -> Vec<&str> {
    finished.out.lines().filter(|line| !line.contains(" model call")).collect()
}

/// Events without generated values.
fn events(finished: &Finished) -> Vec<Value> {
    let mut events = finished.lines();
    for event in &mut events {
        let fields = event.as_object_mut().unwrap();
        fields.remove("run");
        fields.remove("time");
        fields.remove("message");
        if let Some(question) = fields.get_mut("question").and_then(Value::as_object_mut) {
            question.remove("asked_at");
        }
        if fields["type"] == "state_changed" {
            fields.remove("update");
        }
    }
    events
}

fn record(root: &Path, server: &Server, file: &Path) -> Command {
    let mut command = run(root, &server.address);
    command.arg("--record").arg(file);
    command
}

/// The agent's directory, and a file next to it.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (root, file) = (dir.path().join("root"), dir.path().join("run.jsonl"));
    fs::create_dir(&root).unwrap();
    (dir, root, file)
}

#[test]
fn a_recorded_run_replays_identically_without_server_and_files() {
    let (_dir, root, file) = place();
    fs::write(root.join("notes.txt"), "buy bread\n").unwrap();
    let todos = json!({"todos": [{"content": "look", "status": "completed"}]});
    let server = Server::start([
        Reply::Call("write_todos", todos),
        Reply::Call("read_file", json!({"file_path": "/notes.txt"})),
        write("/a.txt"),
        Reply::Call("task", json!({"description": "Think.", "subagent_type": "general-purpose"})),
        Reply::Text(vec!["I thought."]),
        Reply::Text(vec!["All ", "is ", "done."]),
    ]);
    let mut command = record(&root, &server, &file);
    let recorded = finish(command.env("DEEPAGENTS_API_KEY", "secret-key").args([
        "--no-save",
        "--system",
        "Be kind.",
        "--header",
        "X-Token: secret-header",
        "Work",
    ]));
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("buy bread") && !text.contains("secret"), "no key and no header is written");
    assert_eq!(server.requests().len(), 6);

    fs::remove_dir_all(&root).unwrap();
    let again = finish(&mut replay(&file));
    assert_eq!((again.code, again.err.as_str()), (Some(0), ""), "{again:?}");
    assert_eq!(shown(&again), shown(&recorded));
    assert!(!shown(&again).is_empty() && !root.exists());
    assert_eq!(server.requests().len(), 6, "nobody was asked");
    let quiet = finish(replay(&file).arg("-q"));
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (Some(0), "All is done.\n", ""));
}

#[test]
fn a_replay_has_the_recorded_events_and_decisions() {
    let (_dir, root, file) = place();
    let server = Server::start([write("/a.txt"), write("/b.txt"), Reply::Text(vec!["One ", "of two."])]);
    let mut command = record(&root, &server, &file);
    command.args(["--no-save", "--approve", "ask", "--json", "Write"]);
    let answers = ["0.0", "1.0"].map(|id| {
        let decision =
            if id == "0.0" { json!({"type": "approve"}) } else { json!({"type": "reject", "message": "no"}) };
        json!({"answer": id, "decision": decision}).to_string()
    });
    let recorded = finish_with(&mut command, &format!("{}\n", answers.join("\n")));
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let again = finish(replay(&file).arg("--json"));
    assert_eq!((again.code, again.err.as_str()), (Some(0), ""), "{again:?}");
    assert_eq!(events(&again), events(&recorded));
    assert!(!root.join("b.txt").exists());
}

#[test]
fn a_replay_exits_with_the_recorded_exit_code() {
    let cases: [(Vec<Reply>, &[&str], &str); 3] = [
        (vec![Reply::Call("ls", json!({"path": "/"}))], &["--max-turns", "1"], "limit of 1 model call"),
        (vec![Reply::Status(400, json!({"error": {"message": "no such thing"}}))], &[], "no such thing"),
        (vec![write("/a.txt")], &["--approve", "ask"], "awaiting a decision"),
    ];
    for (script, options, words) in cases {
        let (_dir, root, file) = place();
        let server = Server::start(script);
        let recorded = finish(record(&root, &server, &file).args(["--no-save"]).args(options).arg("Go"));
        assert_eq!(recorded.code, Some(1), "{recorded:?}");
        let again = finish(&mut replay(&file));
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(recorded.err.contains(words) && again.err.contains(words), "{recorded:?} {again:?}");
        assert!(!again.err.contains("diverges"), "{again:?}");
        assert_eq!(shown(&again), shown(&recorded));
    }
}

#[test]
fn an_interrupted_run_replays_up_to_the_interruption() {
    let (_dir, root, file) = place();
    let server = Server::start([write("/a.txt"), Reply::Hang]);
    let child = record(&root, &server, &file)
        .args(["--no-save", "Write"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start();
    server.wait();
    server.wait();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let recorded: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(recorded.code, Some(130), "{recorded:?}");
    let again = finish(&mut replay(&file));
    assert_eq!(again.code, Some(130), "{again:?}");
    assert!(again.out.contains("✓ write_file /a.txt"), "{again:?}");
    assert!(again.err.contains("the recorded run was interrupted here"), "{again:?}");
    let events = finish(replay(&file).arg("--json")).lines();
    assert_eq!(events.last().unwrap()["stop"], "cancelled");
}

#[test]
fn a_timed_out_run_replays_up_to_the_timeout() {
    let (_dir, root, file) = place();
    let server = Server::start([write("/a.txt"), Reply::Hang]);
    let recorded = finish(record(&root, &server, &file).args(["--no-save", "--timeout", "1", "Write"]));
    assert_eq!(recorded.code, Some(124), "{recorded:?}");
    let again = finish(replay(&file).arg("--json"));
    assert_eq!((again.code, &again.lines().last().unwrap()["stop"]), (Some(124), &json!("deadline")), "{again:?}");
    assert!(again.err.contains("the recorded run reached its time limit here"), "{again:?}");
}

#[test]
fn a_killed_run_replays_as_far_as_it_was_recorded() {
    let (_dir, root, file) = place();
    let server = Server::start([write("/a.txt"), Reply::Hang]);
    let mut child =
        record(&root, &server, &file).args(["--no-save", "Write"]).stdout(Stdio::null()).stderr(Stdio::null()).start();
    server.wait();
    server.wait();
    child.kill().unwrap();
    child.wait().unwrap();
    let again = finish(&mut replay(&file));
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.out.contains("✓ write_file /a.txt"), "{again:?}");
    assert!(again.err.contains("the recording ends here, before its run ended"), "{again:?}");

    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.trim_end().strip_suffix('}').unwrap()).unwrap();
    let again = finish(&mut replay(&file));
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("the last line of the recording is incomplete"), "{again:?}");
}

#[test]
fn a_replay_whose_requests_differ_says_where() {
    let (_dir, root, file) = place();
    let server = Server::start([write("/a.txt"), Reply::Text(vec!["Done."])]);
    let recorded = finish(record(&root, &server, &file).args(["--no-save", "Write"]));
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    // As if it had been recorded with another system prompt.
    let text = fs::read_to_string(&file).unwrap();
    let other = text.replacen("\"no_todos\":false", "\"no_todos\":false,\"system\":\"Be quick.\"", 1);
    assert_ne!(text, other);
    fs::write(&file, other).unwrap();
    let again = finish(&mut replay(&file));
    assert_eq!(again.code, Some(1), "{again:?}");
    let words = "the replay diverges from the recording: turn 0 of main: the request differs at system[0].text: ";
    assert!(again.err.contains(words) && again.err.contains("Be quick."), "{again:?}");
}

#[test]
fn what_cannot_be_replayed_or_recorded_is_refused_with_the_reason() {
    let (dir, root, file) = place();
    let none = dir.path().join("none.jsonl");
    assert!(finish(&mut replay(&none)).wrong_usage().contains("none.jsonl` cannot be opened"));
    fs::write(&file, "{\"hello\":1}\n").unwrap();
    assert!(finish(&mut replay(&file)).wrong_usage().contains("this is not a recording"));
    let server = Server::start([]);
    let finished = finish(record(&root, &server, &file).args(["--no-save", "Write"]));
    assert!(finished.wrong_usage().contains("exists already and is not overwritten"), "{finished:?}");
    assert_eq!(server.requests().len(), 0, "no model is asked for a run that cannot be recorded");
    let newer = "{\"kind\":\"recording\",\"v\":3}\n";
    fs::write(&file, newer).unwrap();
    assert!(
        finish(&mut replay(&file)).wrong_usage().contains("has version 3, but this program reads versions up to 2")
    );
    let header = json!({"kind": "run_recording", "v": 1, "program": "other", "agent": "a", "model": "m:m", "profile": {"cache_marks": true}});
    fs::write(&file, format!("{header}\n")).unwrap();
    assert!(finish(&mut replay(&file)).wrong_usage().contains("not made with `deepagents run --record`"));
    let resumed = finish(run(&root, &server.address).args(["--record", "x.jsonl", "--continue", "Go"]));
    assert_eq!(resumed.code, Some(2), "{resumed:?}");
}

#[test]
fn a_run_that_cannot_be_stored_is_not_recorded_and_vice_versa() {
    let (dir, root, file) = place();
    let server = Server::start([]);
    let foreign = dir.path().join("notes.txt");
    fs::write(&foreign, "these are my notes, not a database, and they are long enough to be looked at").unwrap();
    let unkept = finish(record(&root, &server, &file).arg("--db").arg(&foreign).arg("Go"));
    assert!(unkept.one_message().contains("not a database"), "{unkept:?}");
    assert!(!file.exists());

    fs::write(&file, "mine").unwrap();
    let db = dir.path().join("t.db");
    let unrecorded = finish(record(&root, &server, &file).arg("--db").arg(&db).arg("Go"));
    assert!(unrecorded.wrong_usage().contains("exists already and is not overwritten"), "{unrecorded:?}");
    let listed = finish(deepagents().args(["threads", "list", "--db"]).arg(&db));
    assert_eq!(listed.out, "there are no threads yet\n");
    assert_eq!((fs::read_to_string(&file).unwrap().as_str(), server.requests().len()), ("mine", 0));
}
