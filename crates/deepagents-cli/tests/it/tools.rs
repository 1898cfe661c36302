//! Tool calls made by hand.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use deepagents_testing::skip::skip;
use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, finish_with};

pub(crate) fn tools(root: &Path) -> Command {
    let mut command = deepagents();
    command.args(["tools", "--root"]).arg(root);
    command
}

pub(crate) fn call(name: &str, args: &Value) -> String {
    format!("{}\n", json!({"name": name, "args": args}))
}

pub(crate) fn answers(finished: &Finished) -> Vec<(String, bool)> {
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""), "{finished:?}");
    let one = |line: Value| {
        assert_eq!(line.as_object().unwrap().len(), 2, "{line}");
        (line["text"].as_str().unwrap().to_owned(), line["error"].as_bool().unwrap())
    };
    finished.lines().into_iter().map(one).collect()
}

#[test]
fn every_line_gets_an_answer_even_a_malformed_one() {
    let dir = tempfile::tempdir().unwrap();
    let input = format!(
        "{}not json\n\n{{\"name\":\"ls\",\"args\":[]}}\n{}{}",
        call("write_file", &json!({"file_path": "/a.txt", "content": "one\n"})),
        call("no_such_tool", &json!({})),
        call("read_file", &json!({"file_path": "/a.txt"})).trim_end(),
    );
    let answers = answers(&finish_with(&mut tools(dir.path()), &input));
    let errors: Vec<bool> = answers.iter().map(|(_, error)| *error).collect();
    assert_eq!(errors, [false, true, true, true, true, false], "{answers:?}");
    assert_eq!(answers[5].0, "     1\tone");
    assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), "one\n");
}

#[test]
fn an_empty_path_is_reported_as_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let input = call("write_file", &json!({"file_path": "", "content": "x"}));
    let answers = answers(&finish_with(&mut tools(dir.path()), &input));
    assert!(answers[0].1 && answers[0].0.contains("the path names the root of the workspace"), "{answers:?}");
}

#[test]
fn each_answer_is_written_before_the_next_line_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = tools(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for line in [call("ls", &json!({"path": "/"})), "\u{7}\n".to_owned(), call("ls", &json!({"path": "/"}))] {
        to.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        from.read_line(&mut answer).unwrap();
        assert!(serde_json::from_str::<Value>(&answer).unwrap()["text"].is_string());
    }
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn hidden_and_control_characters_are_escaped_in_answers() {
    let dir = tempfile::tempdir().unwrap();
    let hidden = ["a\u{200b}b", "c\u{e0041}d", "e\u{202e}f", "g\u{9b}2Jh"];
    for name in hidden {
        fs::write(dir.path().join(name), format!("hit {name}\n")).unwrap();
    }
    let calls = [("ls", json!({"path": "/"})), ("glob", json!({"pattern": "*"})), ("grep", json!({"pattern": "hit"}))];
    let reads = hidden.map(|name| call("read_file", &json!({"file_path": format!("/{name}")}))).concat();
    let input = calls.map(|(name, args)| call(name, &args)).concat() + &reads;
    let finished = finish_with(&mut tools(dir.path()), &input);
    assert!(!finished.out.contains(['\u{200b}', '\u{e0041}', '\u{202e}', '\u{9b}']), "{finished:?}");
    let answers = answers(&finished);
    assert!(answers.iter().all(|(_, error)| !error), "{answers:?}");
    assert!(hidden[..2].iter().all(|name| answers[0].0.contains(name)), "they say what is there: {answers:?}");
}

#[test]
fn a_line_that_is_not_utf_8_is_malformed() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = tools(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).start();
    child.stdin.take().unwrap().write_all(b"{\"name\":\"l\xff\"}\n").unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["error"], true);
}

#[test]
fn a_file_must_be_read_before_it_is_changed_unless_this_is_disabled() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "one\n").unwrap();
    let edit = call("edit_file", &json!({"file_path": "/a.txt", "old_string": "one", "new_string": "two"}));
    let read = call("read_file", &json!({"file_path": "/a.txt"}));
    let strict = answers(&finish_with(&mut tools(dir.path()), &format!("{edit}{read}{edit}")));
    assert_eq!(strict.iter().map(|a| a.1).collect::<Vec<_>>(), [true, false, false], "{strict:?}");
    assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), "two\n");
    fs::write(dir.path().join("a.txt"), "one\n").unwrap();
    let lenient = answers(&finish_with(tools(dir.path()).args(["--read-before-edit", "off"]), &edit));
    assert!(!lenient[0].1, "{lenient:?}");
}

#[test]
fn state_files_start_as_a_copy_of_the_directory_and_persist_across_lines() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/a.txt"), "one\n").unwrap();
    let input = format!(
        "{}{}{}{}",
        call("read_file", &json!({"file_path": "/sub/a.txt"})),
        call("write_file", &json!({"file_path": "/b.txt", "content": "new\n"})),
        call("delete", &json!({"file_path": "/sub/a.txt"})),
        call("glob", &json!({"pattern": "**/*.txt"})),
    );
    let answers = answers(&finish_with(tools(dir.path()).args(["--backend", "state"]), &input));
    assert!(answers.iter().all(|a| !a.1), "{answers:?}");
    assert!(answers[0].0.contains("one") && answers[3].0.contains("/b.txt") && !answers[3].0.contains("a.txt"));
    assert!(dir.path().join("sub/a.txt").exists() && !dir.path().join("b.txt").exists());
}

#[test]
fn rules_apply_to_the_tools_of_both_backends() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a.txt"), "one\n").unwrap();
    fs::write(root.join("secret.txt"), "hidden\n").unwrap();
    let rules = dir.path().join("rules.json");
    let list = json!([
        {"operations": ["read", "write"], "paths": ["/secret.txt"], "mode": "deny"},
        {"operations": ["write"], "paths": ["/asked/**"], "mode": "ask"},
    ]);
    fs::write(&rules, list.to_string()).unwrap();
    let input = format!(
        "{}{}{}{}",
        call("read_file", &json!({"file_path": "/secret.txt"})),
        call("read_file", &json!({"file_path": "/a.txt"})),
        call("ls", &json!({"path": "/"})),
        call("write_file", &json!({"file_path": "/asked/b.txt", "content": "b"})),
    );
    for backend in ["local", "state"] {
        let mut command = tools(&root);
        command.args(["--backend", backend, "--rules"]).arg(&rules);
        let answers = answers(&finish_with(&mut command, &input));
        assert_eq!(answers.iter().map(|a| a.1).collect::<Vec<_>>(), [true, false, false, true], "{answers:?}");
        assert!(!answers[0].0.contains("hidden") && !answers[2].0.contains("secret"), "{answers:?}");
    }
}

#[test]
fn rules_apply_to_commands_too() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("secrets")).unwrap();
    fs::write(root.join("secrets/key"), "s3cret").unwrap();
    let rules = dir.path().join("rules.json");
    let list = json!([
        {"operations": ["read", "write"], "paths": ["/secrets/**"], "mode": "deny"},
        {"commands": ["git push"], "mode": "deny"},
    ]);
    fs::write(&rules, list.to_string()).unwrap();
    let run = |text: &str| {
        let mut command = tools(&root);
        command.arg("--rules").arg(&rules);
        answers(&finish_with(&mut command, &call("execute", &json!({"command": text})))).remove(0)
    };
    let (text, error) = run("echo; g\\it -C . push");
    assert!(error && text.contains("the rule `git push`"), "{text}");
    let (text, _) = run("cat secrets/key; echo done");
    if text.contains("there is none") {
        return skip("sandbox", text);
    }
    assert!(!text.contains("s3cret") && text.contains("done"), "{text}");
}

#[test]
fn invalid_rules_are_rejected_with_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.json");
    for (text, told) in [("{}", "JSON list"), (r#"[{"operations":["read"],"paths":["x"],"mode":"deny"}]"#, "slash")] {
        fs::write(&rules, text).unwrap();
        let finished = finish(tools(dir.path()).arg("--rules").arg(&rules));
        assert!(finished.wrong_usage().contains(told), "{finished:?}");
    }
    // Some editors write a byte order mark.
    fs::write(&rules, "\u{feff}[]").unwrap();
    let finished = finish(tools(dir.path()).arg("--rules").arg(&rules));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let finished = finish(tools(dir.path()).args(["--rules", "/no/such/file"]));
    assert!(finished.wrong_usage().contains("cannot be read"));
}

#[test]
fn a_command_runs_in_the_sandbox_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let report = finish(deepagents().args(["doctor", "--json"]));
    let report: Value = serde_json::from_str(&report.out).unwrap();
    let there = report["sandbox"]["level"] != "none";
    let input = call("execute", &json!({"command": "echo it runs > out.txt && cat out.txt"}));
    let answers = answers(&finish_with(&mut tools(dir.path()), &input));
    assert_eq!(!answers[0].1, there, "{answers:?}");
    assert_eq!(dir.path().join("out.txt").exists(), there);
    assert!(answers[0].0.contains(if there { "it runs" } else { "sandbox" }), "{answers:?}");
}

#[test]
fn the_same_calls_give_the_same_results_on_both_backends() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/dos.txt"), "\u{feff}one\r\ntwo\r\n").unwrap();
    fs::write(dir.path().join("[...slug]"), "one\n\n").unwrap();
    fs::write(dir.path().join("data.bin"), [0xff, 0]).unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    let calls: String = [
        ("ls", json!({"path": "."})),
        ("ls", json!({"path": "/none"})),
        ("read_file", json!({"file_path": "sub\\dos.txt"})),
        ("read_file", json!({"file_path": "/[...slug]", "offset": 1, "limit": 1})),
        ("read_file", json!({"file_path": "/[...slug]", "offset": 2})),
        ("read_file", json!({"file_path": "/data.bin"})),
        ("read_file", json!({"file_path": "/empty"})),
        ("read_file", json!({"file_path": "/sub"})),
        ("edit_file", json!({"file_path": "/sub/dos.txt", "old_string": "one\ntwo", "new_string": "1\n2"})),
        ("edit_file", json!({"file_path": "/sub/dos.txt", "old_string": "tree", "new_string": "3"})),
        ("grep", json!({"pattern": "2", "output_mode": "content", "context": 1})),
        ("grep", json!({"pattern": "(", "regex": true})),
        ("write_file", json!({"file_path": "/empty/below", "content": "x"})),
        ("write_file", json!({"file_path": "/sub", "content": "x"})),
        ("write_file", json!({"file_path": "/../x", "content": "x"})),
        ("write_file", json!({"file_path": "/", "content": "x"})),
        ("delete", json!({"file_path": "/"})),
        ("delete", json!({"file_path": "/sub"})),
        ("delete", json!({"file_path": "/sub"})),
        ("glob", json!({"pattern": "**/*"})),
        ("glob", json!({"pattern": "*", "path": "/sub"})),
    ]
    .iter()
    .map(|(name, args)| call(name, args))
    .collect();
    // The state backend first, because it leaves the directory unchanged.
    let mut state = answers(&finish_with(tools(dir.path()).args(["--backend", "state"]), &calls));
    let mut local = answers(&finish_with(&mut tools(dir.path()), &calls));
    assert_eq!(state.len(), 21);
    // In the state, a directory exists only as part of a file's path, so a missing one is not an error.
    assert_eq!(state.remove(1), ("No files found: /none does not exist".to_owned(), false));
    assert_eq!(local.remove(1), ("Error: /none does not exist".to_owned(), true));
    assert_eq!(state, local);
    let errors: Vec<usize> = state.iter().enumerate().filter(|(_, answer)| answer.1).map(|(at, _)| at).collect();
    assert_eq!(errors, [3, 6, 8, 10, 11, 12, 13, 14, 15, 17], "{state:?}");
}
