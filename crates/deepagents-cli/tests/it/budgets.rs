//! Budgets of runs, subagents included.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::program::{deepagents, finish, run};
use crate::server::{Reply, Server};

/// A tool call. Each response of the server uses 1,234 tokens.
fn looks() -> Reply {
    Reply::Call("ls", json!({"path": "/"}))
}

fn delegates() -> Reply {
    Reply::Call("task", json!({"description": "Look", "subagent_type": "general-purpose"}))
}

#[test]
fn a_spent_token_budget_is_reported_with_its_usage_and_the_thread_continues() {
    let server = Server::start([looks(), looks(), Reply::Text(vec!["Here it is."])]);
    let dir = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let command = || {
        let mut command = run(dir.path(), &server.address);
        command.env("HOME", home.path());
        command
    };
    let stopped = finish(command().args(["-q", "--max-tokens", "2000", "Look"]));
    let again = format!("`deepagents run --continue \"Go on\" --root {}`", dir.path().display());
    assert_eq!(
        stopped.one_message(),
        format!(
            "stopped at its limit of 2,000 tokens with 2,468 spent; the task may be unfinished. Go on with {again}, or \
             raise it with --max-tokens"
        )
    );
    assert_eq!(server.requests().len(), 2);
    let rest = finish(command().args(["-q", "--continue"]));
    assert!(rest.one_message().contains("the limit of tokens was reached, with 2,468 tokens"), "{rest:?}");
    let on = finish(command().args(["-q", "--continue", "--max-tokens", "5000"]));
    assert_eq!((on.code, on.out.as_str()), (Some(0), "Here it is.\n"), "{on:?}");
}

#[test]
fn with_at_limit_answer_the_last_call_answers_without_tools_and_the_exit_code_stays() {
    for limit in [["--max-turns", "2"], ["--max-tokens", "3000"]] {
        let server = Server::start([looks(), Reply::Text(vec!["So far: nothing."])]);
        let dir = tempfile::tempdir().unwrap();
        let mut command = run(dir.path(), &server.address);
        let stopped = finish(command.args(["--no-save", "-q", "--at-limit", "answer"]).args(limit).arg("Look"));
        assert_eq!((stopped.code, stopped.out.as_str()), (Some(1), "So far: nothing.\n"), "{stopped:?}");
        assert!(stopped.err.contains("stopped at its limit of"), "{stopped:?}");
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[1].body["tool_choice"], json!("none"));
    }
}

#[test]
fn sub_agent_tokens_and_turns_count() {
    for (option, most, told) in [
        ("--max-tokens", "2000", "limit of 2,000 tokens with 2,468 spent"),
        ("--max-turns", "2", "limit of 2 model calls;"),
    ] {
        let server = Server::start([delegates(), looks(), Reply::Text(vec!["never asked"])]);
        let dir = tempfile::tempdir().unwrap();
        let finished = finish(run(dir.path(), &server.address).args(["--no-save", "-q", option, most, "Look"]));
        let message = finished.one_message();
        assert!(message.contains(told) && message.ends_with(&format!(". Raise it with {option}")), "{message}");
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn events_name_the_spent_budget_and_a_replay_ends_the_same_way() {
    let server = Server::start([looks(), looks(), Reply::Text(vec!["never asked"])]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    let mut command = run(dir.path(), &server.address);
    let finished = finish(command.args(["--json", "--max-tokens", "1300", "Look", "--record"]).arg(&file));
    let last = finished.lines().pop().unwrap();
    assert_eq!(
        (finished.code, &last["type"], &last["stop"]),
        (Some(1), &json!("run_finished"), &json!("token_budget"))
    );
    let played = finish(deepagents().arg("replay").arg("-q").arg(&file));
    assert!(played.one_message().contains("the limit of tokens was reached, with 2,468 tokens"), "{played:?}");
}

/// A model that starts a background task at every message. Tasks end immediately or never.
fn delegates_for_ever(tasks_end: bool) -> Server {
    Server::by_rule(move |body| {
        let messages = body["messages"].to_string();
        if messages.contains("COUNT the birds") && !messages.contains("start_async_task") {
            return if tasks_end { Reply::Text(vec!["Three birds."]) } else { Reply::Hang };
        }
        if body["messages"].as_array().unwrap().last().unwrap()["role"] == "tool" {
            return Reply::Text(vec!["Started."]);
        }
        let args = json!({"description": "COUNT the birds", "subagent_type": "general-purpose"});
        Reply::Call("start_async_task", args)
    })
}

#[test]
fn limits_cover_everything_run_while_waiting_for_background_tasks() {
    for (option, most, requests, told) in
        [("--max-turns", "5", 5, "limit of 5 model calls;"), ("--max-tokens", "6000", 7, "limit of 6,000 tokens with ")]
    {
        let (server, dir, home) =
            (delegates_for_ever(true), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut command = run(dir.path(), &server.address);
        let finished = finish(command.env("HOME", home.path()).args([
            "-q",
            "--background",
            "--wait-background",
            option,
            most,
            "Go",
        ]));
        assert!(finished.code == Some(1) && finished.err.contains(told), "{finished:?}");
        assert!(server.requests().len() <= requests, "{} requests", server.requests().len());
    }
    let (server, dir, home) = (delegates_for_ever(false), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = run(dir.path(), &server.address);
    let late =
        finish(command.env("HOME", home.path()).args(["--background", "--wait-background", "--timeout", "1s", "Go"]));
    assert!(late.code == Some(124) && late.err.contains("the time limit of 1.0 s was reached"), "{late:?}");
}

/// A run with a model whose price is known.
fn priced(root: &Path, server: &Server) -> Command {
    let mut command = deepagents();
    command.args(["run", "--no-save", "-q", "--model", "gpt-4o", "--base-url", &server.address, "--root"]).arg(root);
    command
}

#[test]
fn a_cost_budget_is_reported_in_dollars() {
    let server = Server::start([looks(), Reply::Text(vec!["never asked"])]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(priced(dir.path(), &server).args(["--max-cost", "$0.001", "Look"]));
    let message = finished.one_message();
    assert!(message.contains("limit of $0.0010 with $0.00") && message.ends_with("--max-cost"), "{message}");
    assert_eq!(server.requests().len(), 1);
    let enough = Server::start([looks(), Reply::Text(vec!["Done."])]);
    let finished = finish(priced(dir.path(), &enough).args(["--max-cost", "1", "Look"]));
    assert_eq!((finished.code, finished.out.as_str()), (Some(0), "Done.\n"), "{finished:?}");
}

#[test]
fn cost_cannot_be_limited_for_a_model_without_a_known_price() {
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), "http://127.0.0.1:1/v1").args(["--max-cost", "1", "Look"]));
    let message = finished.wrong_usage();
    assert!(
        message.contains("price of custom:test-model is not known") && message.contains("--max-tokens"),
        "{message}"
    );
}

#[test]
fn an_invalid_limit_is_a_usage_error_that_shows_a_valid_one() {
    for (option, wrong, told) in [
        ("--max-turns", "0", "not a whole number of 1 or more"),
        ("--max-tokens", "-5", "not a whole number of 1 or more"),
        ("--max-answer-tokens", "1.5", "not a whole number of 1 or more"),
        ("--max-cost", "-1", "not an amount of dollars"),
        ("--max-cost", "free", "not an amount of dollars"),
        ("--timeout", "-1", "not a duration"),
    ] {
        let finished = finish(deepagents().args(["run", option, wrong, "Look"]));
        assert!(finished.code == Some(2) && finished.err.contains(told), "{option}: {finished:?}");
    }
}

#[test]
fn help_says_that_limits_include_sub_agents() {
    let help = finish(deepagents().args(["run", "-h"])).out;
    for option in ["--max-turns", "--max-tokens", "--max-cost"] {
        let line = help.lines().find(|line| line.trim_start().starts_with(option)).unwrap();
        assert!(line.contains("sub-agents"), "{line}");
    }
}

#[test]
fn a_run_resumed_after_its_last_turn_counts_turns_anew() {
    let server = Server::start([looks(), looks(), looks(), looks(), Reply::Text(vec!["Done."])]);
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ended = |args: &[&str]| {
        let mut command = run(dir.path(), &server.address);
        (finish(command.env("HOME", home.path()).arg("-q").args(args)).code, server.requests().len())
    };
    assert_eq!(ended(&["--max-turns", "1", "Look"]), (Some(1), 1));
    assert_eq!(ended(&["--continue", "--max-turns", "2"]), (Some(1), 3));
    assert_eq!(ended(&["--continue"]), (Some(0), 5));
}

#[test]
fn a_resumed_run_is_held_to_what_remained_of_its_limit() {
    let expired = Reply::Status(401, json!({"error": {"message": "expired"}}));
    let server = Server::start([looks(), expired, looks(), Reply::Text(vec!["never asked"])]);
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let command = || {
        let mut command = run(dir.path(), &server.address);
        command.env("HOME", home.path()).arg("-q");
        command
    };
    assert!(finish(command().args(["--max-tokens", "2000", "Look"])).one_message().contains("expired"));
    let rest = finish(command().arg("--continue"));
    let message = rest.one_message();
    assert!(message.starts_with("stopped because the limit of tokens was reached, with 2,468 tokens"), "{message}");
    assert!(message.contains("Go on with `deepagents run --continue \"Go on\" --root "), "{message}");
    assert_eq!(server.requests().len(), 3);
}
