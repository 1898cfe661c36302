//! Errors about the command line.

use std::process::Stdio;

use crate::program::{Finished, Start, deepagents, finish, finish_with, run};

fn said(args: &[&str]) -> String {
    finish(deepagents().args(args)).err
}

#[test]
fn a_usage_error_shows_the_usage_and_the_alternatives() {
    for (command, args) in [("run", &["Go"][..]), ("explain", &[]), ("tools", &["--backend", "state"])] {
        let said = said(&[&[command, "--env", "A=b"], args].concat());
        assert!(said.contains(&format!("Usage: deepagents {command} ")), "{said}");
    }
    assert!(said(&["threads", "prune"]).contains("deepagents threads prune [OPTIONS] --all"));
    assert!(said(&["permissions", "remove"]).contains("deepagents permissions remove --all"));
    for command in [&["serve", "--listen"][..], &["mcp", "serve", "--http"], &["demo", "--web", "--listen"]] {
        let said = said(&[command, &["localhost:8123"]].concat());
        assert!(said.contains("such as 127.0.0.1:8123"), "{said}");
    }
}

#[test]
fn forgetting_run_or_the_quotes_of_a_task_gets_a_tip() {
    let forgotten = said(&["Summarise the notes"]);
    assert!(forgotten.contains("tip: to give a task, use `run`, as in `deepagents run \"Summarise"), "{forgotten}");
    let unquoted = said(&["run", "Summarise", "the", "notes"]);
    assert!(unquoted.contains("tip: put the task in quotes, as in `deepagents run \"Summarise"), "{unquoted}");
    for other in [&["thread", "list"][..], &["run", "--modl", "x", "Go"], &["threads", "show", "a", "b"]] {
        let said = said(other);
        assert!(!said.contains("task in quotes") && !said.contains("to give a task"), "{said}");
    }
}

#[test]
fn a_command_offers_only_options_that_apply_to_it() {
    for command in ["completions", "config", "auth", "hooks", "models", "demo", "explain", "tools", "trust"] {
        let help = finish(deepagents().args([command, "--help"])).out;
        assert!(!help.contains("--db"), "{help}");
    }
    for command in ["threads", "run", "doctor", "serve"] {
        assert!(finish(deepagents().args([command, "--help"])).out.contains("--db <FILE>"), "{command}");
    }
    assert!(finish(deepagents().arg("--help")).out.contains("--db <FILE>"));
    let tools = finish(deepagents().args(["tools", "-h"])).out;
    assert!(!tools.contains("--execute\n") && !tools.contains("--execute  "), "{tools}");
    // Flags hidden from the help are still accepted.
    assert_eq!(finish(deepagents().args(["tools", "--execute"])).code, Some(0));
    let explained = finish(deepagents().args(["explain", "--background", "--model", "openai:gpt-5.2"]));
    assert!(explained.out.contains("start_async_task"), "{explained:?}");
}

#[test]
fn an_unknown_name_or_directory_is_a_usage_error_in_every_command() {
    let commands: [&[&str]; 8] = [
        &["explain", "--model", "nobody:x"],
        &["explain", "--root", "/no/such"],
        &["config", "--root", "/no/such", "list"],
        &["mcp", "get", "nobody"],
        &["mcp", "remove", "nobody"],
        &["mcp", "test", "nobody"],
        &["mcp", "login", "nobody"],
        &["serve", "/no/such"],
    ];
    for command in commands {
        let refused = finish(deepagents().args(command));
        let message = refused.wrong_usage();
        assert!(message.contains("/no/such") || message.contains("`nobody`"), "{message}");
    }
}

#[test]
fn help_that_cannot_be_written_is_told_like_any_other_output() {
    for args in [&["--help"][..], &["run", "--help"], &["help", "mcp"], &["--version"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = deepagents().args(args).stdout(full).stderr(Stdio::piped()).start();
        let finished: Finished = child.wait_with_output().unwrap().into();
        assert!(finished.code == Some(1) && finished.err.contains("could not be written"), "{args:?}: {finished:?}");
    }
}

#[test]
fn a_task_on_stdin_beside_answers_there_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let asks = finish_with(run(dir.path(), "http://127.0.0.1:9").args(["--approve", "ask"]), "Write a file.");
    assert!(asks.wrong_usage().contains("stdin is for your answers"), "{asks:?}");
}
