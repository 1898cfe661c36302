//! Runs that finish.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};

fn writes_a_file() -> Reply {
    Reply::Call("write_file", json!({"file_path": "/out/hello.txt", "content": "Hello\n"}))
}

#[test]
fn a_tool_call_writes_a_file_in_the_root_and_is_shown_with_answer_and_cost() {
    let server = Server::start([writes_a_file(), Reply::Text(vec!["The file ", "is written."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Write hello.txt"));
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""), "{finished:?}");
    assert_eq!(fs::read_to_string(dir.path().join("out/hello.txt")).unwrap(), "Hello\n");
    assert!(finished.out.starts_with("✓ write_file /out/hello.txt\n\nThe file is written.\n\n"), "{finished:?}");
    let last = finished.out.lines().last().unwrap();
    assert!(last.starts_with("2,400 tokens in (2,000 cached), 68 out · 2 model calls · "), "{last}");
    let request = &server.requests()[0];
    assert!(
        request.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .any(|m| m["content"].to_string().contains("Write hello.txt"))
    );
}

#[test]
fn piped_input_is_appended_to_the_task() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["-q", "--stdin"], &["--json", "--stdin"]] {
        let server = Server::start([Reply::Text(vec!["Fine."])]);
        let done = finish_with(run(dir.path(), &server.address).args(args).arg("Review this"), "+ a line\n");
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
        assert!(server.requests()[0].body["messages"].to_string().contains(r"Review this\n\n+ a line\n"), "{done:?}");
    }
    for (input, why) in [(vec![0xff, 0xfe], "not text in UTF-8"), (vec![b'x'; (1 << 20) + 1], "more than 1 MiB")] {
        let server = Server::start([]);
        let file = dir.path().join("input");
        fs::write(&file, input).unwrap();
        let mut command = run(dir.path(), &server.address);
        let refused = finish(command.arg("Review this").stdin(fs::File::open(&file).unwrap()));
        assert!(refused.one_message().contains(why), "{refused:?}");
    }
    // Empty input is ignored, even if stdin is never closed.
    let server = Server::start([Reply::Text(vec!["Fine."]), Reply::Text(vec!["Fine."])]);
    let empty = finish_with(run(dir.path(), &server.address).args(["-q", "Review this"]), "");
    assert_eq!((empty.code, empty.err.as_str()), (Some(0), ""), "{empty:?}");
    let mut command = run(dir.path(), &server.address);
    let open = command.args(["-q", "Review this"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut open = open.start();
    let held = open.stdin.take().unwrap();
    let done: Finished = open.wait_with_output().unwrap().into();
    drop(held);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "Fine.\n", ""), "{done:?}");
    assert!(server.requests()[1].body["messages"].to_string().contains("Review this"));
}

#[test]
fn a_failed_tool_shows_the_first_line_of_its_error() {
    let server = Server::start([
        Reply::Call("read_file", json!({"file_path": "/none.txt"})),
        Reply::Text(vec!["It is not there."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Read it"));
    assert!(finished.out.starts_with("✗ read_file /none.txt  /none.txt does not exist\n"), "{finished:?}");
    assert_eq!(finished.code, Some(0));
}

#[test]
fn the_agent_cannot_leave_its_root() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(dir.path().join("secret.txt"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret.txt", root.join("link")).unwrap();
    let server = Server::start([Reply::Call("read_file", json!({"file_path": "/link"})), Reply::Text(vec!["No."])]);
    let finished = finish(run(&root, &server.address).arg("Read the link"));
    assert!(finished.out.contains("✗ read_file /link"), "{finished:?}");
    assert!(!server.requests()[1].body.to_string().contains("secret\""));
}

#[test]
fn text_is_streamed_to_stdout_before_the_answer_is_complete() {
    let (open, gate) = channel();
    let server = Server::start([Reply::Gated("Hello", gate, " world".to_owned())]);
    let dir = tempfile::tempdir().unwrap();
    let mut child = run(dir.path(), &server.address).arg("Greet").stdout(Stdio::piped()).start();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 5];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"Hello");
    open.send(()).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with(" world\n"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_continues_while_nobody_reads_its_output() {
    let write = |file: &str, content: &str| Reply::Call("write_file", json!({"file_path": file, "content": content}));
    // More than a pipe holds.
    let big = "x".repeat(300_000);
    let server = Server::start([write("/big.txt", &big), write("/done.txt", "done"), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(dir.path(), &server.address);
    let mut child = command.args(["--json", "Write them"]).stdout(Stdio::piped()).start();
    for _ in 0..3 {
        server.wait();
    }
    assert_eq!(fs::read_to_string(dir.path().join("done.txt")).unwrap(), "done");
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(out.contains(&big) && out.contains("Done."), "{} bytes", out.len());
}

#[test]
fn quiet_prints_only_the_final_answer() {
    let server = Server::start([writes_a_file(), Reply::Text(vec!["All ", "done.\n"])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--quiet", "Write it"]));
    assert_eq!((finished.code, finished.out.as_str(), finished.err.as_str()), (Some(0), "All done.\n", ""));
}

#[test]
fn the_task_can_be_read_from_stdin() {
    let server = Server::start([Reply::Text(vec!["one"]), Reply::Text(vec!["two"])]);
    let dir = tempfile::tempdir().unwrap();
    let absent = finish_with(run(dir.path(), &server.address).arg("-q"), "the first task\n");
    let dash = finish_with(run(dir.path(), &server.address).args(["-q", "-"]), "the second task\n");
    assert_eq!((absent.out.as_str(), dash.out.as_str()), ("one\n", "two\n"), "{absent:?} {dash:?}");
    let requests = server.requests();
    assert!(requests[0].body.to_string().contains("the first task"));
    assert!(requests[1].body.to_string().contains("the second task"));
}

#[test]
fn options_reach_the_request() {
    let server = Server::start([Reply::Text(vec!["ok"])]);
    let dir = tempfile::tempdir().unwrap();
    let prompt = dir.path().join("prompt.md");
    fs::write(&prompt, "You are a lighthouse keeper.\n").unwrap();
    let finished = finish(
        run(dir.path(), &server.address)
            .args([
                "-q",
                "--no-todos",
                "--no-stream",
                "--max-answer-tokens",
                "77",
                "--header",
                "X-Team: blue",
                "--system",
            ])
            .arg(format!("@{}", prompt.display()))
            .arg("Hello"),
    );
    assert_eq!(finished.out, "ok\n", "{finished:?}");
    let request = &server.requests()[0];
    assert!(request.head.contains(&"x-team: blue".to_owned()), "{:?}", request.head);
    let body = request.body.to_string();
    assert!(body.contains("You are a lighthouse keeper.") && !body.contains("write_todos"), "{body}");
    assert_eq!(request.body["max_tokens"], 77);
    assert_ne!(request.body["stream"], true);
}

#[test]
fn an_unknown_models_context_window_is_asked_for_or_given_or_a_warning_shown() {
    let dir = tempfile::tempdir().unwrap();
    let lists = |window: Value| Some(json!({"data": [{"id": "test-model", "max_model_len": window}]}));
    for (models, option, told) in [
        (lists(json!(32_768)), None, false),
        (None, Some("32768"), false),
        (lists(Value::Null), None, true),
        (None, None, true),
    ] {
        let server = Server::with_models([Reply::Text(vec!["ok"])], models);
        let mut command = run(dir.path(), &server.address);
        command.args(option.iter().flat_map(|window| ["--context-window", window]));
        let finished = finish(command.arg("Hello"));
        assert!(finished.out.starts_with("ok\n"), "{finished:?}");
        let remark = "so conversations are compacted at 170,000 tokens; set it with --context-window";
        assert_eq!(finished.err.contains(remark), told, "{finished:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn consecutive_answers_are_separated() {
    let pending = json!({"todos": [{"content": "look", "status": "pending"}]});
    let server = Server::start([
        Reply::Call("write_todos", pending),
        Reply::Text(vec!["The first ", "answer."]),
        Reply::Text(vec!["The second ", "answer."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Look"));
    assert!(finished.out.contains("The first answer.\n\nThe second answer.\n\n"), "{finished:?}");
}

#[test]
fn todo_updates_show_only_what_changed() {
    let todos = |first: &str, second: &str| {
        Reply::Call(
            "write_todos",
            json!({"todos": [{"content": "look", "status": first}, {"content": "act", "status": second}]}),
        )
    };
    let server = Server::start([
        todos("in_progress", "pending"),
        todos("completed", "in_progress"),
        todos("completed", "completed"),
        Reply::Text(vec!["Done."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let finished: Finished = finish(run(dir.path(), &server.address).arg("Plan"));
    let expected = "\
Todos 0/2
  ◐ look
  ☐ act
Todos 1/2
  ☑ look
  ◐ act
Todos 2/2
  ☑ act

Done.
";
    assert!(finished.out.starts_with(expected), "{}", finished.out);
}

#[test]
fn redacted_text_reaches_neither_the_model_nor_the_reader() {
    let server = Server::start([
        Reply::Call("read_file", json!({"file_path": "/who.txt"})),
        Reply::Text(vec!["Write to bob@", "example.org."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("who.txt"), "carl@example.org from 10.1.2.3, 4111 1111 1111 1111").unwrap();
    let finished =
        finish(run(dir.path(), &server.address).args(["-q", "--redact", "email,credit-card", "I am ann@example.org."]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(0), "Write to [REDACTED_EMAIL].\n"), "{finished:?}");
    let told = server.requests()[1].body.to_string();
    assert!(!told.contains("@example.org") && !told.contains("4111"), "{told}");
    assert!(told.contains("[REDACTED_CREDIT_CARD]") && told.contains("10.1.2.3"), "{told}");
}

#[test]
fn commands_can_share_a_shell_and_conflicting_options_are_refused() {
    let call = |text: &str| Reply::Call("execute", json!({"command": text}));
    let server =
        Server::start([call("mkdir below; cd below; one=1"), call("echo $one > made"), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let options = ["--no-save", "--sandbox", "unconfined", "--shell-session"];
    let finished = finish(run(dir.path(), &server.address).args(options).arg("Go"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(fs::read_to_string(dir.path().join("below/made")).unwrap(), "1\n");
    for (other, why) in [
        (["--approve", "allow-list"], "--shell-session cannot be used with --approve allow-list"),
        (["--keep-commands", "--quiet"], "cannot be used with"),
    ] {
        let refused = finish(run(dir.path(), &server.address).args(options).args(other).arg("Go"));
        assert!(refused.code == Some(2) && refused.err.contains(why), "{refused:?}");
    }
    let idle = finish(run(dir.path(), &server.address).args(["--shell-session", "Go"]));
    assert!(idle.code == Some(2) && idle.err.contains("--shell-session only affects commands"), "{idle:?}");
}

#[test]
fn command_line_errors_contain_no_control_or_hidden_characters() {
    let hidden = "x\u{1b}]0;T\u{7}\u{9b}31m\u{202e}y";
    for args in [&[hidden][..], &["run", "--approve", hidden], &["run", &format!("--no{hidden}")]] {
        let finished = finish(deepagents().args(args));
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(!finished.err.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{finished:?}");
        assert!(finished.err.contains("--help"), "{finished:?}");
    }
}
