//! Structured output by a JSON schema.

use std::fs;
use std::process::{Command, Stdio};

use deepagents_testing::skip::skip;
use serde_json::{Value, json};

use crate::program::{finish, run};
use crate::server::{Reply, Server};

#[test]
fn a_schema_conforming_answer_is_printed_as_bare_json() {
    let server = Server::start([Reply::Call("answer", json!({"quality": "good", "faults": 0}))]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("schema.json");
    let schema = json!({
        "type": "object",
        "properties": {"quality": {"type": "string"}, "faults": {"type": "integer"}},
        "required": ["quality", "faults"],
    });
    fs::write(&file, schema.to_string()).unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("--json-schema").arg(&file).arg("Judge"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let answer: Value = serde_json::from_str(&finished.out).unwrap();
    assert_eq!(answer, json!({"quality": "good", "faults": 0}));
    let odd = "{\"type\": \"object\", \"properties\": {\"faults\": {\"type\": \"intger\"}}}";
    for (text, why) in [
        ("{", "is not valid JSON"),
        ("{\"type\": \"string\"}", "not a schema of an object"),
        (odd, "is not a valid JSON Schema"),
        // A byte order mark is ignored.
        ("\u{feff}{\"type\": \"string\"}", "not a schema of an object"),
    ] {
        fs::write(&file, text).unwrap();
        let refused = finish(run(dir.path(), &server.address).arg("--json-schema").arg(&file).arg("Judge"));
        assert!(refused.wrong_usage().contains(why), "{refused:?}");
    }
    let missing = dir.path().join("missing.json");
    let refused = finish(run(dir.path(), &server.address).arg("--json-schema").arg(&missing).arg("Judge"));
    assert!(refused.wrong_usage().contains("cannot be read"), "{refused:?}");
}

#[test]
fn an_answer_that_does_not_match_the_schema_is_not_printed() {
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = dir.path().join("schema.json");
    fs::write(&file, r#"{"type": "object", "properties": {"n": {"type": "integer"}}}"#).unwrap();
    let server = Server::start([Reply::Text(vec!["In words."]), Reply::CutOff("{\"n\": 1", "length")]);
    let with = |args: &[&str]| finish(run(dir.path(), &server.address).env("HOME", home.path()).args(args));
    assert_eq!(with(&["-q", "Count"]).code, Some(0));
    let file = file.to_str().unwrap();
    let words = with(&["-q", "--json-schema", file, "--continue"]);
    assert!(words.one_message().contains("does not have the form"), "{words:?}");
    let half = with(&["-q", "--json-schema", file, "Count"]);
    assert!(half.one_message().contains("token limit"), "{half:?}");
}

/// The script of a workflow step.
fn script(workflow: &str) -> String {
    let (_, rest) = workflow.split_once("run: |\n").unwrap();
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("          "));
    lines.map(|line| format!("{}\n", line.trim_start_matches("          "))).collect()
}

#[test]
fn the_books_workflow_reviews_a_change() {
    let workflow = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/review.yml")).unwrap();
    let script = script(&workflow).replace("${{ github.base_ref }}", "main");
    assert!(script.contains("deepagents run "), "{script}");
    let found = Command::new("jq").arg("--version").output().is_ok_and(|found| found.status.success());
    if !found {
        return skip("jq", "jq is not installed");
    }
    let server = Server::start([Reply::Text(vec![r#"{"faults": [], "summary": "All is well."}"#])]);
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program =
        format!("deepagents() {{ {} \"$@\"; }}; git() {{ echo '+ a line'; }}\n", env!("CARGO_BIN_EXE_deepagents"));
    let mut command = Command::new("bash");
    command.current_dir(dir.path()).env("HOME", home.path()).env("GITHUB_STEP_SUMMARY", dir.path().join("summary"));
    command.env("DEEPAGENTS_MODEL", "gpt-4o").env("DEEPAGENTS_BASE_URL", &server.address);
    let finished = finish(command.args(["-e", "-c", &(program + &script)]).stdin(Stdio::null()));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(fs::read_to_string(dir.path().join("summary")).unwrap(), "All is well.\n");
}
