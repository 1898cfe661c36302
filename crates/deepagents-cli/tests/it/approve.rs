//! Approvals before files are changed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, finish_with, run};
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
fn yes_approves_a_call() {
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
fn no_rejects_a_call_and_the_reason_reaches_the_model() {
    let server = Server::start([writes(), Reply::Text(vec!["Then not."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "what?\nn use b.txt instead\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("answer with y, a, n, e or r"), "{finished:?}");
    assert!(!dir.path().join("a.txt").exists());
    assert!(server.requests()[1].body.to_string().contains("use b.txt instead"));
}

#[test]
fn a_call_can_be_edited_or_answered_by_hand() {
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
fn an_invalid_edit_is_reported_and_the_question_stays_open() {
    let script = || [writes(), Reply::Text(vec!["Done."])];
    let server = Server::start(script());
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "e {\"nope\": 1}\ny\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("write_file does not take these arguments"), "{finished:?}");
    assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), "one\n");

    let server = Server::start(script());
    let dir = tempfile::tempdir().unwrap();
    // The ID of the interrupt is predictable: it is that of the first call.
    let edit = json!({"answer": "0.0", "decision": {"type": "edit", "args": {"nope": 1}}});
    let yes = json!({"answer": "0.0", "decision": {"type": "approve"}});
    let finished = finish_with(ask(dir.path(), &server).arg("--json"), &format!("{edit}\n{yes}\n"));
    assert_eq!((finished.code, finished.err.lines().count()), (Some(0), 1), "{finished:?}");
    assert!(finished.err.contains("does not take these arguments") && dir.path().join("a.txt").exists());
}

#[test]
fn read_only_calls_need_no_approval() {
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
fn in_json_mode_questions_are_events_and_answers_are_lines() {
    let server = Server::start([writes(), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let mut child = ask(dir.path(), &server)
        .arg("--json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start();
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
fn an_unanswered_run_says_how_to_resume_and_resumes() {
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
    assert!(!finished.err.contains("left undecided"), "{finished:?}");
}

#[test]
fn a_message_on_a_thread_with_an_open_question_says_that_it_leaves_the_question() {
    let server = Server::start([writes(), Reply::Text(vec!["Something else."])]);
    let place = Place::new();
    assert_eq!(finish_with(&mut place.run(&server, &["--approve", "ask", "Write"]), "").code, Some(1));
    let finished = finish_with(&mut place.run(&server, &["--continue", "Do something else"]), "");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("are left undecided") && finished.err.contains("--approve ask"), "{finished:?}");
    assert!(!place.has("a.txt"));
}

#[test]
fn the_task_and_the_answers_cannot_share_stdin() {
    let server = Server::start([]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--approve", "ask"]));
    assert!(finished.wrong_usage().contains("give the task on the command line"));
}

fn writes_to(path: &str) -> Reply {
    Reply::Call("write_file", json!({"file_path": path, "content": "one\n"}))
}

/// A run that stores its thread, with its own root and home.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        ["root", "home"].into_iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
        Self { dir }
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    fn run(&self, server: &Server, args: &[&str]) -> Command {
        let mut command = run(&self.root(), &server.address);
        command.env("HOME", self.dir.path().join("home")).args(args);
        command
    }

    fn program(&self, args: &[&str]) -> Finished {
        finish(deepagents().env("HOME", self.dir.path().join("home")).args(args))
    }

    fn has(&self, file: &str) -> bool {
        self.root().join(file).exists()
    }
}

#[test]
fn a_call_must_be_shown_in_full_before_yes_is_accepted() {
    let command: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    let args = json!({"file_path": "/a.txt", "content": format!("{command}{}THE END", "x".repeat(5_000))});
    let server = Server::start([Reply::Call("write_file", args), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "y\na\ns\ny\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let (before, after) = finished.err.split_once("part of the call has not been shown").unwrap();
    assert!(!before.contains("line 100") && before.contains("more lines; show them"), "{before}");
    assert!(after.contains("│ line 100\n") && after.contains("xxTHE END\n"), "{after}");
    assert!(dir.path().join("a.txt").exists());
}

#[test]
fn argument_names_and_values_are_escaped_and_cannot_forge_a_question() {
    let hidden = "a\u{202e}\u{200b}\u{e0041}\u{1b}[2J\r\u{9b}1m";
    let args = json!({"command": format!("ls {hidden}\n? write_file /b.txt\n[y]es, [n]o REASON? ")});
    let server = Server::start([Reply::Call("execute", args), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(ask(dir.path(), &server).arg("--execute"), "n\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for shown in ["\\u{202e}", "\\u{200b}", "\\u{e0041}", "\\u{1b}[2J", "\\u{9b}1m", "      │ ? write_file /b.txt"] {
        assert!(finished.err.contains(shown), "{shown}: {finished:?}");
    }
    let all = format!("{}{}", finished.out, finished.err);
    let bad = |c: char| c != '\n' && c.is_control() || matches!(c, '\u{202e}' | '\u{200b}' | '\u{e0041}');
    assert!(!all.contains(bad), "{all:?}");
    assert_eq!(finished.err.lines().filter(|line| line.starts_with('?')).count(), 1, "{finished:?}");
}

#[test]
fn invalid_arguments_are_refused_before_anybody_is_asked() {
    let missing = json!({"file_path": "/a.txt"});
    let server = Server::start([Reply::Call("write_file", missing), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "y\ny\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.err.contains("[y]es") && !dir.path().join("a.txt").exists(), "{finished:?}");
    let requests = server.requests();
    assert!(requests[1].body.to_string().contains("write_file does not take these arguments"), "{}", requests[1].body);
    assert!(requests[1].body.to_string().contains("content"), "{}", requests[1].body);
}

#[test]
fn undeclared_arguments_are_shown_to_the_approver_and_cannot_forge_a_question() {
    let forged = json!({"file_path": "/a.txt", "content": "one\n", "\n? execute true\n[y]es? ": "y"});
    let server = Server::start([Reply::Call("write_file", forged), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "n\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("may ignore some") && !dir.path().join("a.txt").exists(), "{finished:?}");
    assert_eq!(finished.err.lines().filter(|line| line.starts_with('?')).count(), 1, "{finished:?}");
    assert!(!finished.err.contains("\n[y]es? "), "{finished:?}");
}

#[test]
fn a_question_about_a_link_shows_its_target() {
    let server = Server::start([writes_to("/docs/a.txt"), writes_to("/plain/a.txt"), Reply::Text(vec!["Done."])]);
    let dir = tempfile::tempdir().unwrap();
    ["secret", "plain"].into_iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
    std::os::unix::fs::symlink("secret", dir.path().join("docs")).unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "n\nn\n");
    assert!(finished.err.contains("    → the path leads to /secret/a.txt\n"), "{finished:?}");
    assert_eq!(finished.err.matches("leads to").count(), 1, "{finished:?}");
}

#[test]
fn the_approval_mode_is_stored_with_the_thread() {
    let done = || Reply::Text(vec!["Done."]);
    let server = Server::start([writes_to("/a.txt"), writes_to("/b.txt"), done(), writes_to("/c.txt"), done()]);
    let place = Place::new();
    let first = finish_with(&mut place.run(&server, &["--approve", "ask", "Write"]), "");
    assert_eq!(first.code, Some(1), "{first:?}");
    // Without `--approve`, the mode of the thread applies: the question is asked again, and nobody answers.
    let again = finish_with(&mut place.run(&server, &["--continue"]), "");
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("? write_file /a.txt") && !place.has("a.txt"), "{again:?}");
    let next = finish_with(&mut place.run(&server, &["--continue"]), "y\n");
    assert!(place.has("a.txt") && !place.has("b.txt") && next.code == Some(1), "{next:?}");
    // An explicit mode takes precedence, and is stored in turn.
    let denied = finish(&mut place.run(&server, &["--continue", "--approve", "deny"]));
    assert_eq!((denied.code, place.has("b.txt")), (Some(0), false), "{denied:?}");
    let threads: Value = serde_json::from_str(&place.program(&["threads", "list", "--json"]).out).unwrap();
    assert_eq!(threads[0]["metadata"]["approve"], "deny");
    let told = |at: usize| server.requests()[at].body["messages"].to_string();
    assert!(told(2).contains("refused: nothing may be changed or run here (--approve deny)"), "{}", told(2));
    // The stored mode applies, so neither an option nor a person is named as the reason.
    let kept = finish(&mut place.run(&server, &["--continue", "And another"]));
    assert_eq!((kept.code, place.has("c.txt")), (Some(0), false), "{kept:?}");
    assert!(told(4).contains("run here (the mode that the thread was left in)"), "{}", told(4));
    assert!(!told(4).contains("User rejected"), "{}", told(4));
}

#[test]
fn pending_calls_without_a_stored_mode_are_refused_without_a_terminal() {
    let server = Server::start([writes_to("/a.txt"), Reply::Text(vec!["Done."])]);
    let place = Place::new();
    finish_with(&mut place.run(&server, &["--approve", "ask", "Write"]), "");
    let database = rusqlite::Connection::open(place.dir.path().join("home/.deepagents/threads.db")).unwrap();
    let changed = database.execute("UPDATE thread SET metadata = json_remove(metadata, '$.approve')", []).unwrap();
    drop(database);
    assert_eq!(changed, 1);
    let refused = finish(&mut place.run(&server, &["--continue"]));
    assert!(refused.one_message().contains("give --approve ask, deny or auto"), "{refused:?}");
    let refused = finish(&mut place.run(&server, &["--continue", "Write"]));
    assert!(refused.one_message().contains("give --approve ask, deny or auto"), "{refused:?}");
    assert!(!place.has("a.txt"));
    let explicit = finish(&mut place.run(&server, &["--continue", "--approve", "auto"]));
    assert!(explicit.code == Some(0) && place.has("a.txt"), "{explicit:?}");
}

#[test]
fn files_that_steer_the_agent_are_not_changed_when_nobody_can_be_asked() {
    for more in [&[][..], &["--no-save"], &["--json"]] {
        let server = Server::start([writes_to("/AGENTS.md"), writes_to("/a.txt"), Reply::Text(vec!["Done."])]);
        let place = Place::new();
        let finished = finish(place.run(&server, more).arg("Write"));
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(!place.has("AGENTS.md") && place.has("a.txt"), "{finished:?}");
        assert!(server.requests()[1].body.to_string().contains("a person has to agree to this"), "{finished:?}");
    }
}

#[test]
fn always_remembers_no_more_than_was_shown_and_can_be_revoked() {
    let place = Place::new();
    let server = Server::start([
        writes_to("/a.txt"),
        writes_to("/a.txt"),
        writes_to("/b.txt"),
        Reply::Text(vec!["One."]),
        writes_to("/a.txt"),
        writes_to("/b.txt"),
        Reply::Text(vec!["Two."]),
        writes_to("/a.txt"),
        Reply::Text(vec!["Three."]),
    ]);
    assert_eq!(place.program(&["permissions", "list"]).out, "nothing is always allowed\n");
    let first = finish_with(&mut place.run(&server, &["--approve", "ask", "Write"]), "a\np\nn\n");
    assert_eq!(first.code, Some(0), "{first:?}");
    let rule = "write_file with exactly file_path \"/a.txt\", and any content";
    assert!(first.err.contains(&format!("  always: {rule}\n")), "{first:?}");
    assert!(first.err.contains(&format!("approved by the remembered rule: {rule}")), "{first:?}");
    assert_eq!(first.err.matches("[y]es").count(), 2, "{first:?}");
    let listed = place.program(&["permissions", "list"]);
    assert!(listed.out.contains(rule) && listed.out.contains("root"), "{listed:?}");
    // Another thread in the same directory, with nobody to ask.
    fs::remove_file(place.root().join("a.txt")).unwrap();
    let second = finish(&mut place.run(&server, &["--approve", "allow-list", "Write"]));
    assert!(place.has("a.txt") && !place.has("b.txt"), "{second:?}");
    let shown = place.program(&["threads", "list", "--json"]);
    let threads: Value = serde_json::from_str(&shown.out).unwrap();
    let id = threads[0]["id"].as_str().unwrap();
    let shown = place.program(&["threads", "show", id]);
    assert!(shown.out.contains(&format!("approve  write_file /a.txt  by the remembered rule: {rule}")), "{shown:?}");
    assert!(shown.out.contains("reject   write_file /b.txt  by the rule: --approve allow-list"), "{shown:?}");
    let removed = place.program(&["permissions", "remove", "1"]);
    assert!(removed.out.starts_with("forgotten: 1"), "{removed:?}");
    assert!(place.program(&["permissions", "remove", "1"]).wrong_usage().contains("there is no rule 1"));
    fs::remove_file(place.root().join("a.txt")).unwrap();
    finish(&mut place.run(&server, &["--approve", "allow-list", "Write"]));
    assert!(!place.has("a.txt"));
}

#[test]
fn every_command_in_a_shared_shell_needs_approval() {
    let place = Place::new();
    fs::create_dir(place.root().join("evil")).unwrap();
    for (file, says) in [("run.sh", "good"), ("evil/run.sh", "evil")] {
        fs::write(place.root().join(file), format!("echo {says} >> \"$PLACE/said\"\n")).unwrap();
    }
    let replies =
        ["sh run.sh", "cd evil", "sh run.sh"].map(|command| Reply::Call("execute", json!({"command": command})));
    let server = Server::start(replies.into_iter().chain([Reply::Text(vec!["Done."])]));
    let env = format!("PLACE={}", place.root().display());
    let options = ["--approve", "ask", "--sandbox", "unconfined", "--env", &env, "--shell-session", "Go"];
    let asked = finish_with(&mut place.run(&server, &options), "a\ny\ny\nn\n");
    assert!(asked.err.contains("may depend on earlier ones") && !asked.err.contains("[a]lways"), "{asked:?}");
    assert_eq!(fs::read_to_string(place.root().join("said")).unwrap(), "good\n");

    // A rule remembered without a shared shell does not apply here either.
    let server = Server::start([Reply::Call("execute", json!({"command": "sh run.sh"})), Reply::Text(vec!["Done."])]);
    let alone = ["--approve", "ask", "--sandbox", "unconfined", "--env", &env, "Go"];
    finish_with(&mut place.run(&server, &alone), "a\np\n");
    let server = Server::start([Reply::Call("execute", json!({"command": "sh run.sh"})), Reply::Text(vec!["Done."])]);
    finish_with(&mut place.run(&server, &options), "n\n");
    assert_eq!(fs::read_to_string(place.root().join("said")).unwrap(), "good\ngood\n");
}

#[test]
fn a_session_rule_applies_only_to_its_thread() {
    let place = Place::new();
    let server = Server::start([
        writes_to("/a.txt"),
        Reply::Text(vec!["One."]),
        writes_to("/a.txt"),
        Reply::Text(vec!["Two."]),
        writes_to("/a.txt"),
        Reply::Text(vec!["Three."]),
    ]);
    finish_with(&mut place.run(&server, &["--approve", "ask", "Write"]), "a\ns\n");
    let again = finish_with(&mut place.run(&server, &["--continue", "Again"]), "");
    assert!(again.code == Some(0) && again.err.contains("approved by the remembered rule"), "{again:?}");
    let other = finish_with(&mut place.run(&server, &["--approve", "ask", "Write"]), "");
    assert!(other.code == Some(1) && other.err.contains("[y]es"), "{other:?}");
}

#[test]
fn the_decider_is_recorded_in_the_events_and_shown_with_the_thread() {
    let place = Place::new();
    let server = Server::start([writes_to("/a.txt"), writes_to("/b.txt"), Reply::Text(vec!["Done."])]);
    let mut command = place.run(&server, &["--approve", "ask", "--json", "Write"]);
    let answers = "{\"answer\":\"0.0\",\"decision\":{\"type\":\"approve\"}}\n\
                   {\"answer\":\"1.0\",\"decision\":{\"type\":\"reject\",\"message\":\"no\"}}\n";
    let finished = finish_with(&mut command, answers);
    let decided: Vec<Value> = finished.lines().into_iter().filter(|event| event["type"] == "answered").collect();
    assert_eq!(decided.len(), 2, "{finished:?}");
    assert!(decided.iter().all(|event| event["author"] == json!({"by": "person"})), "{decided:?}");
    let threads: Value = serde_json::from_str(&place.program(&["threads", "list", "--json"]).out).unwrap();
    let shown = place.program(&["threads", "show", threads[0]["id"].as_str().unwrap(), "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let decisions = shown["decisions"].as_array().unwrap();
    assert_eq!(
        (&decisions[0]["decision"]["type"], &decisions[0]["author"]["by"]),
        (&json!("approve"), &json!("person"))
    );
    assert_eq!((&decisions[1]["decision"]["type"], &decisions[1]["tool"]), (&json!("reject"), &json!("write_file")));
}

fn runs(command: &str) -> Reply {
    Reply::Call("execute", json!({"command": command}))
}

#[test]
fn always_covers_every_spelling_of_a_command_and_nothing_more() {
    let place = Place::new();
    let commands = ["touch a 'b c'", "touch  a \"b c\"", "touch a 'b c'; touch d", "touch a 'b c' > e"];
    let server = Server::start(
        commands.iter().map(|command| runs(command)).chain([Reply::Text(vec!["Done."])]).collect::<Vec<_>>(),
    );
    let mut command = place.run(&server, &["--approve", "ask", "--sandbox", "unconfined", "Touch"]);
    let finished = finish_with(&mut command, "a\np\nn\nn\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let rule = "execute `touch a 'b c'` and no other command, with any timeout, without a sandbox";
    assert!(finished.err.contains(&format!("  always: {rule}\n")), "{finished:?}");
    assert_eq!(finished.err.matches("approved by the remembered rule").count(), 1, "{finished:?}");
    assert!(place.has("a") && place.has("b c") && !place.has("d") && !place.has("e"));
}

#[test]
fn a_rule_agreed_to_for_the_sandbox_does_not_cover_unsandboxed_commands() {
    let place = Place::new();
    let own = place.dir.path().join("home/.deepagents");
    fs::create_dir_all(&own).unwrap();
    let root = place.root().canonicalize().unwrap();
    let rule = json!({"tool": "execute", "args": {}, "command": {"commands": ["touch a"], "mode": "allow"}});
    let record = json!({"id": 1, "scope": {"project": root}, "rule": rule, "at": "2026-01-01T00:00:00Z"});
    fs::write(own.join("permissions.json"), json!({"v": 1, "records": [record]}).to_string()).unwrap();
    let listed = place.program(&["permissions", "list"]);
    assert!(listed.out.contains("execute `touch a` and no other command"), "{listed:?}");
    let server = Server::start([runs("touch a"), Reply::Text(vec!["Done."])]);
    let finished = finish(&mut place.run(&server, &["--approve", "allow-list", "--sandbox", "unconfined", "Touch"]));
    assert!(finished.code == Some(0) && !place.has("a"), "{finished:?}");
}

fn rules(place: &Place, rules: &Value) -> String {
    let file = place.dir.path().join("rules.json");
    fs::write(&file, rules.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn rules_from_a_file_bind_a_run_and_appear_in_events_and_thread() {
    let place = Place::new();
    let file = rules(
        &place,
        &json!([
            {"operations": ["write"], "paths": ["/closed/**"], "mode": "deny"},
            {"operations": ["write"], "paths": ["/free/**"], "mode": "allow"},
            {"operations": ["write"], "paths": ["/asked/**"], "mode": "ask"},
        ]),
    );
    let server = Server::start([
        writes_to("/closed/a"),
        writes_to("/free/a"),
        writes_to("/asked/a"),
        Reply::Text(vec!["Done."]),
    ]);
    let finished = finish(&mut place.run(&server, &["--rules", &file, "--json", "Write"]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!place.has("closed/a") && place.has("free/a") && !place.has("asked/a"));
    let events = finished.lines();
    let authors: Vec<&Value> = events.iter().filter(|e| e["type"] == "answered").map(|e| &e["author"]).collect();
    let nobody = "a person has to agree to this, and nobody can be asked in this run";
    assert_eq!(
        authors,
        [
            &json!({"by": "rule", "text": "write /closed/**"}),
            &json!({"by": "rule", "text": "write /free/**"}),
            &json!({"by": "default", "text": nobody}),
        ]
    );
    let asked = events.iter().find(|e| e["type"] == "asked").unwrap();
    assert_eq!(asked["question"]["rule"], "write /asked/**");
    let threads: Value = serde_json::from_str(&place.program(&["threads", "list", "--json"]).out).unwrap();
    let shown = place.program(&["threads", "show", threads[0]["id"].as_str().unwrap()]).out;
    assert!(shown.contains("reject   write_file /closed/a  by the rule: write /closed/**"), "{shown}");
    assert!(shown.contains("approve  write_file /free/a  by the rule: write /free/**"), "{shown}");
    assert!(
        shown.contains(&format!("reject   write_file /asked/a  by default: {nobody}; asked by write /asked/**")),
        "{shown}"
    );
}

#[test]
fn auto_does_not_override_a_rule_that_asks() {
    let place = Place::new();
    let file = rules(&place, &json!([{"operations": ["write"], "paths": ["/asked/**"], "mode": "ask"}]));
    let server = Server::start([writes_to("/asked/a"), Reply::Text(vec!["Done."])]);
    let first = finish_with(&mut place.run(&server, &["--rules", &file, "--approve", "ask", "Write"]), "");
    assert!(
        first.err.contains("asked by --approve: what changes something is asked about; write /asked/**"),
        "{first:?}"
    );
    finish(&mut place.run(&server, &["--rules", &file, "--continue", "--approve", "auto"]));
    assert!(!place.has("asked/a"));
}

#[test]
fn a_rule_that_can_never_match_stops_a_run_before_it_starts() {
    let place = Place::new();
    let good = json!({"operations": ["read"], "paths": ["/a"], "mode": "deny"});
    let server = Server::start([]);
    for (rule, why) in [
        (json!({"operations": ["read"], "paths": ["/b/../c"], "mode": "deny"}), "rule 2"),
        (json!({"commands": ["git push"], "mode": "deny"}), "rule 2 is about commands, which are off"),
    ] {
        let file = rules(&place, &json!([good, rule]));
        let finished = finish(&mut place.run(&server, &["--rules", &file, "Go"]));
        assert!(finished.wrong_usage().contains(why), "{finished:?}");
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_question_names_the_sub_agent_that_made_the_call() {
    let place = Place::new();
    let delegate = Reply::Call("task", json!({"description": "Write", "subagent_type": "general-purpose"}));
    let server = Server::start([delegate, writes_to("/a.txt"), Reply::Text(vec!["Done."]), Reply::Text(vec!["Done."])]);
    let finished = finish_with(&mut place.run(&server, &["--approve", "ask", "Write"]), "y\n");
    assert!(finished.err.contains("? write_file /a.txt (sub-agent general-purpose)"), "{finished:?}");
    let threads: Value = serde_json::from_str(&place.program(&["threads", "list", "--json"]).out).unwrap();
    let shown = place.program(&["threads", "show", threads[0]["id"].as_str().unwrap()]).out;
    let line = "approve  write_file /a.txt, called by general-purpose  by a person; asked by --approve";
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn an_agents_question_is_answered_with_one_line() {
    let asks = Reply::Call("ask_user", json!({"question": "Which colour?", "choices": ["red", "blue"]}));
    let server = Server::start([asks, Reply::Text(vec!["Painted."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(&mut ask(dir.path(), &server), "3\n2\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("2. blue") && finished.err.contains("There is no choice 3."), "{finished:?}");
    assert!(server.requests()[1].body.to_string().contains("The user chose: blue"));
}

#[test]
fn decisions_made_before_a_signal_are_stored_with_the_thread() {
    for (signal, as_json) in [("-INT", true), ("-TERM", true), ("-TERM", false)] {
        let server = Server::start([
            Reply::Calls(
                ["/a.txt", "/b.txt"].map(|path| ("write_file", json!({"file_path": path, "content": "one\n"}))).into(),
            ),
            Reply::Text(vec!["Done."]),
        ]);
        let place = Place::new();
        let form = if as_json { ["--json", "Write"].as_slice() } else { &["Write"] };
        let mut command = place.run(&server, &["--approve", "ask"]);
        let piped = command.args(form).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.start();
        let mut to = child.stdin.take().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        if as_json {
            let no = json!({"answer": "0.0", "decision": {"type": "reject", "message": "NO TO A"}});
            // The error about the second line shows that the first was read.
            writeln!(to, "{no}\nnonsense").unwrap();
        } else {
            writeln!(to, "n NO TO A").unwrap();
        }
        let until = if as_json { "of the form {\"answer\"" } else { "write_file /b.txt" };
        let mut line = String::new();
        while !line.contains(until) {
            line.clear();
            assert!(told.read_line(&mut line).unwrap() > 0, "{signal}");
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let finished: Finished = child.wait_with_output().unwrap().into();
        drop(to);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut told, &mut rest).unwrap();
        assert_eq!(finished.code, Some(130), "{finished:?}");
        assert!(rest.contains("interrupted with 1 call awaiting a decision"), "{rest}");
        assert_eq!(rest.contains("--approve ask --json"), as_json, "{rest}");
        let next = finish_with(&mut place.run(&server, &["--continue"]), "y\n");
        assert!(next.code == Some(0) && next.err.matches("? write_file").count() == 1, "{next:?}");
        assert!(!place.has("a.txt") && place.has("b.txt"));
        assert!(server.requests()[1].body["messages"].to_string().contains("NO TO A"));
    }
}

#[test]
fn text_before_a_pending_call_is_not_the_final_answer() {
    let args = json!({"file_path": "/a.txt", "content": "one\n"});
    let server = Server::start([Reply::TextAndCall("I will write it.", "write_file", args)]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish_with(ask(dir.path(), &server).arg("-q"), "");
    assert_eq!((finished.code, finished.out.as_str()), (Some(1), ""), "{finished:?}");
}

#[test]
fn a_resumed_thread_has_the_same_tools_and_asks_nobody_who_is_absent() {
    let place = Place::new();
    let server = Server::start([Reply::Text(vec!["One."]), Reply::Text(vec!["Two."])]);
    for args in [&["First"][..], &["--continue", "Second"]] {
        let done = finish(&mut place.run(&server, args));
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let tools: Vec<String> = server.requests().iter().map(|request| request.body["tools"].to_string()).collect();
    assert_eq!(tools[0], tools[1]);
    assert!(!tools[1].contains("ask_user"), "{}", tools[1]);
}

#[test]
fn an_open_question_is_declined_when_nobody_can_be_asked() {
    let place = Place::new();
    let asks = Reply::Call("ask_user", json!({"question": "Which colour?"}));
    let server = Server::start([asks, Reply::Text(vec!["Painted."])]);
    let left = finish_with(&mut place.run(&server, &["--approve", "ask", "Paint"]), "");
    assert_eq!(left.code, Some(1), "{left:?}");
    let done = finish(&mut place.run(&server, &["--continue", "--approve", "auto"]));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(server.requests()[1].body.to_string().contains("The user declined to answer: "), "{done:?}");
}
