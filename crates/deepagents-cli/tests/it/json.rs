//! Events as JSON lines.

use serde_json::{Value, json};

use crate::program::{finish, run};
use crate::server::{Reply, Server};

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn every_line_is_an_event_in_sequence_and_the_last_one_tells_the_outcome() {
    let server = Server::start([
        Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"})),
        Reply::Text(vec!["Done", "."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--json", "Write a.txt"]));
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""), "{finished:?}");
    let events = events(&finished.out);
    for (at, event) in events.iter().enumerate() {
        assert_eq!((event["seq"].as_u64(), event["v"].as_u64()), (Some(at as u64), Some(1)), "{event}");
    }
    assert_eq!(events[0]["type"], "run_started");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["stop"], &last["model_calls"]),
        (&json!("run_finished"), &json!("done"), &json!(2))
    );
    let text: String = events.iter().filter(|e| e["type"] == "text_delta").filter_map(|e| e["text"].as_str()).collect();
    assert_eq!(text, "Done.");
    let tool = events.iter().find(|e| e["type"] == "tool_finished").unwrap();
    assert_eq!((&tool["name"], &tool["error"]), (&json!("write_file"), &json!(false)));
}

#[test]
fn a_failure_is_reported_as_an_event_and_on_stderr() {
    let server = Server::start([Reply::Status(
        400,
        json!({"error": {"message": "no such thing", "type": "invalid_request_error"}}),
    )]);
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &server.address).args(["--json", "Try"]));
    assert_eq!(finished.code, Some(1));
    let last = events(&finished.out).pop().unwrap();
    assert_eq!((&last["type"], &last["kind"]), (&json!("run_failed"), &json!("invalid_request")));
    assert!(finished.err.contains("no such thing"), "{finished:?}");
}

#[test]
fn every_kind_of_event_is_documented() {
    let page = include_str!("../../../../docs/events.md");
    let kinds = include_str!("../../../deepagents-core/src/event/kind.rs").split("pub enum EventKind {").nth(1);
    let middlewares =
        include_str!("../../../deepagents-core/src/event/middleware.rs").split("pub enum MiddlewareEvent {").nth(1);
    let variants = [kinds, middlewares].map(|source| source.unwrap().split("\n}\n").next().unwrap()).join("\n");
    let (mut seen, mut renamed) = (0, None);
    for line in variants.lines().filter_map(|line| line.strip_prefix("    ")) {
        if let Some(name) = line.strip_prefix("#[serde(rename = \"") {
            renamed = name.strip_suffix("\")]").map(str::to_owned);
            continue;
        }
        let Some(name) = line.strip_suffix(" {").filter(|name| !name.starts_with(' ')) else { continue };
        let snake: String = name
            .chars()
            .enumerate()
            .flat_map(|(at, c)| [(at > 0 && c.is_uppercase()).then_some('_'), Some(c.to_ascii_lowercase())])
            .flatten()
            .collect();
        let word = renamed.take().unwrap_or(snake);
        assert!(page.contains(&format!("`{word}`")), "docs/events.md does not tell of {word}");
        seen += 1;
    }
    assert!(seen > 30, "the kinds were not found");
}
