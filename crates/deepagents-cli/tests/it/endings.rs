//! Runs that end early, and what the program reports.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use deepagents_testing::skip::skip;
use serde_json::json;

use crate::program::{Finished, Start, finish, hangup_is_ignored, run, until};
use crate::server::{Reply, Server};

#[test]
fn reaching_the_step_limit_is_reported_as_a_failure() {
    let server = Server::start([Reply::Call("ls", json!({"path": "/"})), Reply::Text(vec!["never asked"])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--max-turns", "1", "List"]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("limit of 1 model call;") && finished.err.contains("--max-turns"), "{finished:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_cut_off_answer_is_reported_as_a_failure() {
    let server = Server::start([Reply::CutOff("Half an ans", "length")]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "Tell"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(1), "Half an ans\n"), "{finished:?}");
    assert!(finished.err.contains("token limit"), "{finished:?}");
}

#[test]
fn an_empty_answer_is_reported_as_a_failure() {
    let server = Server::start([Reply::Text(vec![""])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Tell"));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("without an answer"), "{finished:?}");
}

#[test]
fn a_refused_request_is_reported_in_the_providers_words() {
    let server =
        Server::start([Reply::Status(400, json!({"error": {"message": "the temperature is too high\u{1b}[2J"}}))]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Try"));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.err.matches("the temperature is too high").count(), 1, "{finished:?}");
    assert!(!finished.err.contains('\u{1b}'), "{finished:?}");
}

#[test]
fn a_rejected_key_error_names_the_variable_to_check() {
    let server = Server::start([Reply::Status(401, json!({"error": {"message": "Incorrect API key"}}))]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(dir.path(), &server.address);
    let finished = finish(command.env("DEEPAGENTS_API_KEY", "wrong-key").args(["-q", "Try"]));
    let message = finished.one_message();
    assert!(
        message.contains("Incorrect API key") && message.contains("; check the key in DEEPAGENTS_API_KEY. Go on with"),
        "{message}"
    );
}

#[test]
fn a_refused_key_error_says_what_to_check() {
    let quota = json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}});
    for (status, body, told) in [
        (429, quota, "check the account of the key in DEEPAGENTS_API_KEY"),
        (403, json!({"error": {"message": "not here"}}), "check the permissions of the key in DEEPAGENTS_API_KEY"),
    ] {
        let server = Server::start([Reply::Status(status, body)]);
        let dir = tempfile::tempdir().unwrap();
        let mut command = run(dir.path(), &server.address);
        let finished = finish(command.env("DEEPAGENTS_API_KEY", "key").args(["-q", "--no-save", "Try"]));
        assert!(finished.one_message().ends_with(told), "{finished:?}");
    }
    let server = Server::start([Reply::Status(401, json!({"error": {"message": "no key"}}))]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "--no-save", "Try"]));
    assert!(finished.one_message().ends_with("set the key in DEEPAGENTS_API_KEY"), "{finished:?}");
}

#[test]
fn a_multi_line_server_error_is_shown_on_one_line() {
    let server =
        Server::start([Reply::Status(404, json!({"error": {"message": format!("no\n\n{}", "such ".repeat(900))}}))]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["-q", "Try"]));
    let message = finished.one_message();
    assert!(message.contains("no such such") && message.chars().count() < 1_000, "{message}");
    assert!(message.contains("check the model's name and the address"), "{message}");
}

#[test]
fn a_failed_run_says_how_to_resume_and_resumes_that_way() {
    let down = || Reply::Status(401, json!({"error": {"message": "expired"}}));
    let call = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"}));
    let server = Server::start([call, down(), Reply::Text(vec!["Now it is."])]);
    let dir = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let failed = finish(run(dir.path(), &server.address).env("HOME", home.path()).arg("Write"));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("Go on with `deepagents run --continue --root "), "{failed:?}");
    let rest = finish(run(dir.path(), &server.address).env("HOME", home.path()).args(["-q", "--continue"]));
    assert_eq!((rest.code, rest.out.as_str()), (Some(0), "Now it is.\n"), "{rest:?}");
}

#[test]
fn a_run_that_never_started_has_no_summary() {
    let server = Server::start([Reply::Status(401, json!({"error": {"message": "expired"}}))]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Try"));
    assert!(finished.one_message().contains("expired"), "{finished:?}");
}

#[test]
fn retries_are_reported_on_stderr_and_the_run_continues() {
    let busy = || Reply::Status(503, json!({"error": {"message": "busy"}}));
    let server = Server::start([busy(), busy(), Reply::Text(vec!["At last."])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("Try"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.out.starts_with("At last.\n"), "{finished:?}");
    assert_eq!(finished.err.matches("busy").count(), 1, "the same reason is said once: {finished:?}");
    assert!(finished.err.contains("that failed again; trying again "), "{finished:?}");
}

#[test]
fn a_timeout_ends_the_run_with_124() {
    let server = Server::start([Reply::Hang]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--timeout", "300ms", "Wait"]));
    assert_eq!(finished.code, Some(124), "{finished:?}");
    assert!(finished.err.contains("the time limit of 0.3 s was reached after 0 answers"), "{finished:?}");
}

#[test]
fn ctrl_c_ends_the_run_cleanly_with_130_and_says_what_happened() {
    let server =
        Server::start([Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"})), Reply::Hang]);
    let dir = tempfile::tempdir().unwrap();
    let child =
        run(dir.path(), &server.address).args(["--json", "Wait"]).stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    server.wait();
    server.wait();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let finished: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(finished.code, Some(130), "{finished:?}");
    assert!(finished.err.contains("interrupted after 1 answer and 1 tool call"), "{finished:?}");
    assert!(finished.err.contains("Go on with `deepagents run --continue --root "), "{finished:?}");
    let last: serde_json::Value = serde_json::from_str(finished.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["stop"]), (&json!("run_finished"), &json!("cancelled")));
    assert!(fs::exists(dir.path().join("a.txt")).unwrap());
}

/// Sends a signal to a run that waits for its second model response, then resumes it.
fn stopped_and_gone_on_with(signal: &str) -> (Finished, Finished, String) {
    let write = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"}));
    let server = Server::start([write, Reply::Hang, Reply::Text(vec!["All done."])]);
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = run(dir.path(), &server.address);
    command.env("HOME", home.path()).arg("Write").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.start();
    server.wait();
    server.wait();
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let stopped: Finished = child.wait_with_output().unwrap().into();
    let rest = finish(run(dir.path(), &server.address).env("HOME", home.path()).args(["-q", "--continue"]));
    let last = server.requests().last().unwrap().body.to_string();
    (stopped, rest, last)
}

#[test]
fn a_terminated_run_stops_where_it_is_and_can_be_resumed() {
    let (stopped, rest, last) = stopped_and_gone_on_with("-TERM");
    assert_eq!(stopped.code, Some(130), "{stopped:?}");
    assert!(stopped.err.contains("stopped after 1 answer and 1 tool call"), "{stopped:?}");
    assert!(stopped.err.contains("Go on with `deepagents run --continue --root "), "{stopped:?}");
    assert_eq!((rest.code, rest.out.as_str()), (Some(0), "All done.\n"), "{rest:?}");
    assert!(last.contains("Wrote /a.txt") && !last.contains("cancelled"), "{last}");
}

#[test]
fn a_run_ended_by_ctrl_c_resumes_as_it_says_without_a_new_message() {
    let (stopped, rest, last) = stopped_and_gone_on_with("-INT");
    assert!(stopped.err.contains("Go on with `deepagents run --continue --root "), "{stopped:?}");
    assert_eq!((stopped.code, rest.code, rest.out.as_str()), (Some(130), Some(0), "All done.\n"), "{rest:?}");
    assert!(last.contains("Wrote /a.txt"), "{last}");
}

#[test]
fn hangups_end_the_run_cleanly_unless_they_are_ignored() {
    if hangup_is_ignored() {
        return skip("hangup", "the tests were started with SIGHUP ignored");
    }
    let kill = |signal: &str, pid: u32| {
        assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    };
    let server = Server::start([Reply::Hang]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(dir.path(), &server.address);
    command.args(["--json", "Wait"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.start();
    server.wait();
    kill("-HUP", child.id());
    kill("-HUP", child.id());
    let finished: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(finished.code, Some(130), "{finished:?}");
    let last: serde_json::Value = serde_json::from_str(finished.out.lines().last().unwrap()).unwrap();
    // The model does not respond, so the run never reaches a step at which it could stop.
    assert_eq!((&last["type"], &last["kind"]), (&json!("run_failed"), &json!("left")));

    let (open, gate) = channel();
    let server = Server::start([Reply::Gated("On", gate, " it goes.".to_owned())]);
    let mut plain = run(dir.path(), &server.address);
    let mut command = Command::new("nohup");
    command.arg(plain.arg("Wait").get_program()).args(plain.get_args()).current_dir(dir.path());
    plain.get_envs().for_each(|(name, value)| {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    });
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    server.wait();
    kill("-HUP", child.id());
    open.send(()).unwrap();
    let finished: Finished = child.wait_with_output().unwrap().into();
    assert_eq!((finished.code, finished.out.contains("On it goes.")), (Some(0), true), "{finished:?}");
}

#[test]
fn a_second_ctrl_c_quits_although_nobody_reads_the_output() {
    // More than a pipe holds, so that the program blocks.
    let text = "x".repeat(4 << 20).leak();
    let server = Server::start([Reply::Text(vec![text])]);
    let dir = tempfile::tempdir().unwrap();
    let mut child = run(dir.path(), &server.address).arg("Talk").stdout(Stdio::piped()).start();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        // Signals in quick succession may be merged.
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    };
    assert_eq!(code, Some(130));
}

#[test]
fn a_closed_output_pipe_ends_the_run_quietly() {
    let (open, gate) = channel();
    // More than a pipe holds: another test's child process may briefly hold this end of the pipe.
    let server = Server::start([Reply::Gated("Hello", gate, " world".repeat(20_000))]);
    let dir = tempfile::tempdir().unwrap();
    let mut child = run(dir.path(), &server.address).arg("Greet").stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 5]).unwrap();
    drop(out);
    open.send(()).unwrap();
    let finished: Finished = child.wait_with_output().unwrap().into();
    assert_eq!((finished.code, finished.err.as_str()), (Some(141), ""));
}

#[test]
fn the_suggested_resume_command_works_from_any_directory() {
    let down = Reply::Status(401, json!({"error": {"message": "expired"}}));
    let call = Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"}));
    let server = Server::start([call, down, Reply::Text(vec!["Now it is."])]);
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = dir.path().join("it's here");
    fs::create_dir(&root).unwrap();
    let db = dir.path().join("t.db");
    let failed = finish(run(&root, &server.address).arg("--db").arg(&db).arg("Write"));
    let (_, told) = failed.err.split_once("Go on with `").unwrap();
    let command = told.split('`').next().unwrap().replacen("deepagents", env!("CARGO_BIN_EXE_deepagents"), 1);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{command} -q")]).current_dir(&elsewhere).env_clear().env("HOME", elsewhere.path());
    let rest = finish(shell.stdin(Stdio::null()));
    assert_eq!((rest.code, rest.out.as_str()), (Some(0), "Now it is.\n"), "{command}: {rest:?}");
}

#[test]
fn the_closing_line_of_a_stopped_run_counts_what_was_paid_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start([Reply::Call("execute", json!({"command": "touch begun; sleep 60"}))]);
    let mut command = run(dir.path(), &server.address);
    command.args(["--execute", "--sandbox", "unconfined", "Wait"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.start();
    until("the command", || dir.path().join("begun").exists().then_some(()));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let stopped: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(stopped.code, Some(130), "{stopped:?}");
    let closing = stopped.out.lines().last().unwrap();
    assert!(closing.starts_with("1,200 tokens in (1,000 cached), 34 out · 1 model call · "), "{stopped:?}");
}

#[test]
fn an_answer_that_broke_off_is_marked_where_it_was_printed() {
    let server = Server::start([Reply::Broken("Half an ans"), Reply::Text(vec!["The whole answer."])]);
    let dir = tempfile::tempdir().unwrap();
    let done = finish(run(dir.path(), &server.address).arg("Tell"));
    let text = done.out.split("\n1,200 tokens").next().unwrap();
    assert_eq!(text.trim_end(), "Half an ans\n[the answer broke off here, and does not count]\n\nThe whole answer.");
    assert_eq!(done.code, Some(0), "{done:?}");
    let server = Server::start([Reply::Broken("Half an ans"), Reply::Text(vec!["The whole answer."])]);
    let quiet = finish(run(dir.path(), &server.address).args(["-q", "Tell"]));
    assert_eq!(quiet.out, "The whole answer.\n", "a script gets the answer alone");
}
