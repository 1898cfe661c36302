//! Conversations over JSON lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Start, deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};

pub(crate) struct Talk {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<std::process::ChildStdout>,
    seen: Vec<Value>,
}

impl Talk {
    pub(crate) fn start(root: &Path, home: &Path, server: &Server, args: &[&str]) -> Self {
        let mut command: Command = run(root, &server.address);
        command.env("HOME", home).args(["--json", "--input-format", "stream-json"]).args(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).start();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, seen: Vec::new() }
    }

    fn say(&mut self, line: &str) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{line}").unwrap();
    }

    pub(crate) fn user(&mut self, text: &str) {
        self.say(&json!({"type": "user", "text": text}).to_string());
    }

    /// The next event of a kind.
    pub(crate) fn until(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "no {kind} in {:?}", self.seen);
            let event: Value = serde_json::from_str(&line).unwrap();
            self.seen.push(event.clone());
            if event["type"] == kind {
                return event;
            }
        }
    }

    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.to.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.from, &mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

struct Place {
    root: tempfile::TempDir,
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), home: tempfile::tempdir().unwrap() }
    }

    fn start(&self, server: &Server, args: &[&str]) -> Talk {
        Talk::start(self.root.path(), self.home.path(), server, args)
    }
}

fn text(events: &[Value]) -> String {
    events.iter().filter(|event| event["type"] == "text_delta").filter_map(|event| event["text"].as_str()).collect()
}

#[test]
fn two_messages_are_two_turns_of_one_thread() {
    let server = Server::start([Reply::Text(vec!["First", "."]), Reply::Text(vec!["Second", "."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &[]);
    talk.user("one");
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(text(&talk.seen), "First.");
    talk.user("two");
    talk.until("run_finished");
    let threads: Vec<Value> =
        talk.seen.iter().filter(|event| event["type"] == "run_started").map(|event| event["thread"].clone()).collect();
    assert!(threads.len() == 2 && threads[0] == threads[1], "{threads:?}");
    assert_eq!(talk.end(), (Some(0), String::new()));
    let listed = finish(deepagents().env("HOME", place.home.path()).args(["threads", "list"]));
    assert!(listed.out.trim_end().ends_with("one"), "it is called by its first message: {listed:?}");
    let last = server.requests()[1].body.to_string();
    assert!(last.contains("one") && last.contains("First.") && last.contains("two"), "{last}");
}

#[test]
fn answers_may_come_in_any_order_and_an_invalid_line_changes_nothing() {
    let write = |name: &str| json!({"file_path": format!("/{name}.txt"), "content": "x\n"});
    let server = Server::start([Reply::Call("write_file", write("a")), Reply::Text(vec!["Decided."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--approve", "ask"]);
    talk.user("go");
    let question = talk.until("asked")["question"].clone();
    talk.say("no JSON");
    talk.say(r#"{"type":"dance"}"#);
    talk.say(r#"{"answer":"99.99","decision":{"type":"approve"}}"#);
    talk.say(&json!({"answer": question["id"], "decision": {"type": "perhaps"}}).to_string());
    let edit = json!({"type": "edit", "args": {"file_path": "/b.txt", "content": "y\n"}});
    talk.say(&json!({"answer": question["id"], "decision": edit}).to_string());
    while talk.until("run_finished")["stop"] != "done" {}
    let (code, problems) = talk.end();
    assert_eq!((code, problems.lines().count()), (Some(0), 4), "{problems}");
    assert!(!place.root.path().join("a.txt").exists() && place.root.path().join("b.txt").exists());
}

#[test]
fn input_without_a_usable_line_is_refused_on_stdout_and_by_the_exit_code() {
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let place = Place::new();
    let converse = |lines: &str| {
        let mut command = run(place.root.path(), &server.address);
        command.env("HOME", place.home.path()).args(["--json", "--input-format", "stream-json"]);
        finish_with(&mut command, lines)
    };
    let refused = converse("garbage\n{\"type\":\"user\"}\n");
    assert_eq!((refused.code, refused.lines().len(), refused.err.lines().count()), (Some(2), 2, 2), "{refused:?}");
    for event in refused.lines() {
        assert_eq!(event["type"], "input_refused");
        assert!(event["reason"].as_str().unwrap().contains("a line on stdin is not one of"), "{event}");
    }
    let message = json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}});
    let done = converse(&format!("garbage\n{message}\n"));
    assert_eq!((done.code, text(&done.lines()).as_str()), (Some(0), "Hello."), "{done:?}");
    assert_eq!(server.requests()[0].body["messages"].as_array().unwrap().last().unwrap()["content"], "hi");
}

#[test]
fn an_interrupt_ends_the_turn_and_the_next_message_starts_another() {
    let (gate, rest) = std::sync::mpsc::channel();
    let server = Server::start([Reply::Gated("Slow", rest, String::new()), Reply::Text(vec!["Next", "."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &[]);
    talk.say(r#"{"type":"interrupt"}"#);
    talk.user("slowly");
    talk.until("text_delta");
    talk.say(r#"{"type":"interrupt"}"#);
    assert_eq!(talk.until("run_finished")["stop"], "cancelled");
    drop(gate);
    talk.user("next");
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(talk.end().0, Some(0));
    let last = server.requests()[1].body["messages"].clone();
    let said: Vec<&Value> = last.as_array().unwrap().iter().rev().take(3).map(|message| &message["content"]).collect();
    assert!(said[1].to_string().contains("Slow") && said[1].to_string().contains("interrupted"), "{last}");
    assert!(said[2].to_string().contains("slowly") && said[0].to_string().contains("next"), "{last}");
}

#[test]
fn an_invalid_edit_leaves_the_question_open() {
    let write = json!({"file_path": "/a.txt", "content": "x\n"});
    let server = Server::start([Reply::Call("write_file", write), Reply::Text(vec!["Written."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--approve", "ask"]);
    talk.user("write it");
    let question = talk.until("asked")["question"]["id"].clone();
    talk.say(&json!({"answer": question, "decision": {"type": "edit", "args": {"nope": 1}}}).to_string());
    talk.say(&json!({"answer": question, "decision": {"type": "approve"}}).to_string());
    while talk.until("run_finished")["stop"] != "done" {}
    let (code, problems) = talk.end();
    assert_eq!((code, problems.lines().count()), (Some(0), 1), "{problems}");
    assert!(problems.contains("does not take these arguments") && place.root.path().join("a.txt").exists());
}

#[test]
fn messages_to_an_interrupted_turn_come_before_the_next_message() {
    let (gate, rest) = std::sync::mpsc::channel();
    let slow = Reply::Gated("Slow", rest, String::new());
    let server = Server::start([slow, Reply::Text(vec!["Steered."]), Reply::Text(vec!["After."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &[]);
    talk.user("slowly");
    talk.until("text_delta");
    talk.user("steer me");
    talk.say(r#"{"type":"interrupt"}"#);
    talk.user("said afterwards");
    assert_eq!(talk.until("run_finished")["stop"], "cancelled");
    drop(gate);
    assert_eq!(talk.end().0, Some(0));
    // The last message may be read when the interrupted turn has ended, and then steers the turn that follows it.
    let requests = server.requests();
    let last = requests[requests.len() - 1].body["messages"].to_string();
    assert_eq!((last.matches("steer me").count(), last.matches("said afterwards").count()), (1, 1), "{last}");
    assert!(last.find("steer me") < last.find("said afterwards"), "{last}");
}

#[test]
fn a_message_to_a_waiting_turn_is_delivered_once_however_it_continues() {
    let (gate, rest) = std::sync::mpsc::channel();
    let write = || Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "x\n"}));
    let server = Server::start([Reply::Gated("Well", rest, ".".to_owned()), write(), Reply::Text(vec!["After."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--approve", "ask"]);
    talk.user("one");
    talk.until("text_delta");
    // A turn about to end handles the message first, and then waits.
    talk.user("first");
    gate.send(()).unwrap();
    talk.until("asked");
    assert_eq!(talk.until("run_finished")["stop"], "waiting");
    talk.say(r#"{"type":"interrupt"}"#);
    assert_eq!(talk.until("run_finished")["stop"], "cancelled");
    talk.user("second");
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(talk.end().0, Some(0));
    let last = server.requests()[2].body["messages"].to_string();
    assert_eq!((last.matches("first").count(), last.matches("second").count()), (1, 1), "{last}");
}

#[test]
fn limits_span_all_turns_and_end_the_program_as_they_end_a_run() {
    let server = Server::start([Reply::Text(vec!["One."]), Reply::Text(vec!["never asked"])]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--max-turns", "1"]);
    talk.user("one");
    assert_eq!(talk.until("run_finished")["stop"], "done");
    talk.user("two");
    assert_eq!(talk.until("run_finished")["stop"], "step_limit");
    let (code, problems) = talk.end();
    assert!(code == Some(1) && problems.contains("--max-turns"), "{problems}");
    assert_eq!(server.requests().len(), 1);

    let server = Server::start([Reply::Hang]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--timeout", "1s"]);
    talk.user("one");
    assert_eq!(talk.until("run_finished")["stop"], "deadline");
    let (code, problems) = talk.end();
    assert!(code == Some(124) && problems.contains("--timeout"), "{problems}");
}

#[test]
fn background_tasks_are_awaited_between_turns_and_at_the_end() {
    let server = Server::by_rule(|body| {
        let messages = body["messages"].to_string();
        let text = |text| Reply::Text(vec![text]);
        match () {
            () if messages.contains("COUNT the birds") && !messages.contains("start_async_task") => {
                text("Three birds.")
            }
            () if messages.contains("Three birds.") => text("All told."),
            () if messages.contains("\"tool_calls\"") => text("Started."),
            () => {
                let args = json!({"description": "COUNT the birds", "subagent_type": "general-purpose"});
                Reply::Call("start_async_task", args)
            }
        }
    });
    let place = Place::new();
    let mut talk = place.start(&server, &["--background", "--wait-background"]);
    talk.user("go");
    // No further input is sent.
    while !text(&talk.seen).contains("All told.") {
        talk.until("text_delta");
    }
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(talk.end(), (Some(0), String::new()));
    let mut talk = place.start(&server, &["--background", "--wait-background"]);
    talk.user("go");
    drop(talk.to.take());
    while !text(&talk.seen).contains("All told.") {
        talk.until("text_delta");
    }
    assert_eq!(talk.end(), (Some(0), String::new()));
}

#[test]
fn the_end_of_input_finishes_the_turn_and_leaves_questions_open() {
    let server = Server::start([Reply::Text(vec!["Done", "."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &[]);
    talk.user("one");
    assert_eq!(talk.end().0, Some(0));
    assert_eq!(server.requests().len(), 1);

    let server = Server::start([Reply::Call("delete", json!({"file_path": "/a"})), Reply::Text(vec!["Then not."])]);
    let mut talk = place.start(&server, &["--approve", "ask"]);
    talk.user("delete it");
    talk.until("asked");
    let (code, problems) = talk.end();
    assert!(
        code == Some(0) && problems.contains("1 call awaiting a decision") && problems.contains("--resume"),
        "{problems}"
    );
    assert!(problems.contains(" --approve ask --json --input-format stream-json --root "), "{problems}");
}

/// Two calls, of which one is rejected, and a message for the next turn.
fn half_decided(place: &Place, server: &Server) -> Talk {
    let mut talk = place.start(server, &["--approve", "ask"]);
    talk.user("go");
    let first = talk.until("asked")["question"]["id"].clone();
    assert_eq!(talk.until("run_finished")["stop"], "waiting");
    talk.say(&json!({"answer": first, "decision": {"type": "reject", "message": "NO TO A"}}).to_string());
    talk.user("meanwhile");
    // The error about this line shows that those before were read.
    talk.say("no JSON");
    let mut problem = [0; 16];
    talk.child.stderr.as_mut().unwrap().read_exact(&mut problem).unwrap();
    talk
}

fn two_writes() -> Reply {
    let write = |name: &str| ("write_file", json!({"file_path": format!("/{name}.txt"), "content": "x\n"}));
    Reply::Calls(vec![write("a"), write("b")])
}

#[test]
fn decisions_and_messages_before_end_of_input_or_a_signal_are_kept() {
    for by_signal in [false, true] {
        let server = Server::start([two_writes(), Reply::Text(vec!["Written."])]);
        let place = Place::new();
        let mut talk = half_decided(&place, &server);
        if by_signal {
            let pid = talk.child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            // Stdin is closed only after the process has ended.
            talk.child.wait().unwrap();
            assert_eq!(talk.end().0, Some(130));
        } else {
            let (code, problems) = talk.end();
            let kept = problems.contains("1 call awaiting a decision; 1 message saved with the thread");
            assert!(code == Some(0) && kept, "{problems}");
        }
        let mut talk = place.start(&server, &["--approve", "ask", "--continue"]);
        let second = talk.until("asked")["question"].clone();
        assert!(second["args"]["file_path"] == "/b.txt", "{second}");
        assert_eq!(talk.until("run_finished")["stop"], "waiting");
        assert_eq!(talk.seen.iter().filter(|event| event["type"] == "asked").count(), 1);
        talk.say(&json!({"answer": second["id"], "decision": {"type": "approve"}}).to_string());
        assert_eq!(talk.until("run_finished")["stop"], "done");
        assert_eq!(talk.end(), (Some(0), String::new()));
        assert!(!place.root.path().join("a.txt").exists() && place.root.path().join("b.txt").exists());
        let last = server.requests()[1].body["messages"].to_string();
        assert!(last.contains("NO TO A") && last.matches("meanwhile").count() == 1, "{last}");
    }
}

#[test]
fn decisions_before_an_interrupt_are_reported_with_the_next_message() {
    let server = Server::start([two_writes(), Reply::Text(vec!["Next."])]);
    let place = Place::new();
    let mut talk = half_decided(&place, &server);
    talk.say(r#"{"type":"interrupt"}"#);
    assert_eq!(talk.until("run_finished")["stop"], "cancelled");
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(talk.end().0, Some(0));
    assert!(!place.root.path().join("a.txt").exists() && !place.root.path().join("b.txt").exists());
    let last = server.requests()[1].body["messages"].to_string();
    assert!(last.contains("NO TO A") && last.contains("cancelled") && last.contains("meanwhile"), "{last}");
}

#[test]
fn a_question_left_by_a_killed_process_is_asked_again_and_answered() {
    let write = json!({"file_path": "/a.txt", "content": "x\n"});
    let server = Server::start([Reply::Call("write_file", write), Reply::Text(vec!["Written."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--approve", "ask"]);
    talk.user("write it");
    let question = talk.until("asked")["question"].clone();
    talk.child.kill().unwrap();
    talk.child.wait().unwrap();

    let mut talk = place.start(&server, &["--approve", "ask", "--continue"]);
    assert_eq!(talk.until("asked")["question"], question);
    assert_eq!(talk.until("run_finished")["stop"], "waiting");
    assert!(!place.root.path().join("a.txt").exists());
    talk.say(&json!({"answer": question["id"], "decision": {"type": "approve"}}).to_string());
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(talk.end(), (Some(0), String::new()));
    assert!(place.root.path().join("a.txt").exists());
}

#[test]
fn interrupting_a_pending_question_ends_the_turn_and_the_next_message_works() {
    let write = json!({"file_path": "/a.txt", "content": "x\n"});
    let server = Server::start([Reply::Call("write_file", write), Reply::Text(vec!["Next."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--approve", "ask"]);
    talk.user("write it");
    assert_eq!(talk.until("run_finished")["stop"], "waiting");
    talk.say(r#"{"type":"interrupt"}"#);
    assert_eq!(talk.until("run_finished")["stop"], "cancelled");
    talk.user("something else");
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(talk.end(), (Some(0), String::new()));
    assert!(!place.root.path().join("a.txt").exists());
    let last = server.requests()[1].body.to_string();
    assert!(last.contains("cancelled") && last.contains("something else"), "{last}");
}

#[test]
fn a_failed_turn_ends_like_any_other_and_the_next_message_works() {
    let refused = Reply::Status(401, json!({"error": {"message": "who are you"}}));
    let server = Server::start([refused, Reply::Text(vec!["Now."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &[]);
    talk.user("one");
    let failed = talk.until("run_failed");
    let end = talk.until("run_finished");
    assert_eq!((&end["stop"], &end["run"], &end["model_calls"]), (&json!("failed"), &failed["run"], &json!(0)));
    assert_eq!(end["seq"], json!(failed["seq"].as_u64().unwrap() + 1));
    talk.user("two");
    assert_eq!(talk.until("run_finished")["stop"], "done");
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn a_task_argument_or_a_conflicting_option_is_a_usage_error() {
    let server = Server::start([]);
    let place = Place::new();
    let (code, problems) = place.start(&server, &["a task"]).end();
    assert!(code == Some(2) && problems.contains("messages are read from stdin"), "{problems}");
    let (code, problems) = place.start(&server, &["--no-save"]).end();
    assert!(code == Some(2) && problems.contains("remove --no-save"), "{problems}");
}

#[test]
fn an_agents_question_lists_its_choices_and_is_answered_with_a_line() {
    let asks = json!({"question": "Which colour?", "choices": ["red", "blue"], "several": true});
    let server = Server::start([Reply::Call("ask_user", asks), Reply::Text(vec!["Painted."])]);
    let place = Place::new();
    let mut talk = place.start(&server, &["--approve", "ask"]);
    talk.user("Paint it.");
    let question = talk.until("asked")["question"].clone();
    assert_eq!(question["form"], json!({"type": "choices", "choices": ["red", "blue"], "several": true}));
    let decision = json!({"type": "respond", "message": "2, 1"});
    talk.say(&json!({"answer": question["id"], "decision": decision}).to_string());
    while talk.until("run_finished")["stop"] != "done" {}
    assert_eq!(talk.end().0, Some(0));
    assert!(server.requests()[1].body.to_string().contains("The user chose: blue, red"));
}
