//! Runs: streamed, failed, rejected.

use std::collections::BTreeSet;

use deepagents::ModelError;
use deepagents::models::scripted::Turn;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{say, serve, until};

#[tokio::test]
async fn a_stream_can_be_resumed_after_any_event_without_gap_or_repeat() {
    let client = serve(vec![Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")]).await;
    let id = client.thread().await;
    let mut body = say("look");
    body["stream_mode"] = json!(["values", "updates", "messages-tuple"]);
    body["stream_resumable"] = json!(true);
    let all = client.events(Method::POST, &format!("/threads/{id}/runs/stream"), None, &body).await;
    let ids: BTreeSet<&String> = all.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), all.len(), "each event has an id of its own: {all:?}");
    let run = client.get(&format!("/threads/{id}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
    let path = format!("/threads/{id}/runs/{run}/stream");
    for (at, (_, last)) in all.iter().enumerate() {
        let rest = client.events(Method::GET, &path, Some(last), &json!({})).await;
        assert_eq!(rest, all[at + 1..]);
    }
}

#[tokio::test]
async fn a_failed_run_reports_why_and_the_next_one_works() {
    let fails = Turn::error(ModelError::Invalid("no such model".into()));
    let client = serve(vec![fails, Turn::text("Back.")]).await;
    let id = client.thread().await;
    let values = client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    assert!(values["__error__"]["message"].as_str().unwrap().contains("no such model"), "{values}");
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "error");
    client.post(&format!("/threads/{id}/runs/wait"), say("again")).await;
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "idle");
}

#[tokio::test]
async fn an_invalid_request_is_rejected_before_anything_runs() {
    let client = serve(vec![]).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/runs");
    for body in [
        json!({"input": {}}),
        json!({"assistant_id": "nobody", "input": {}}),
        json!({"assistant_id": "agent", "input": [1]}),
        json!({"assistant_id": "agent", "stream_mode": "telepathy"}),
        json!({"assistant_id": "agent", "input": {}, "webhook": "https://127.0.0.1/hook"}),
        json!({"assistant_id": "agent", "input": {}, "webhook": "http://example.com/hook"}),
    ] {
        let (status, answer) = client.send(Method::POST, &path, &body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}: {answer}");
    }
    assert_eq!(client.get(&path).await, json!([]));
}

#[tokio::test]
async fn an_agent_is_exposed_as_a_tool_over_mcp() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let ask = |method: &str, params: serde_json::Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let tools = client.post("/mcp", ask("tools/list", json!({}))).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "agent");
    let call = json!({"name": "agent", "arguments": {"message": "hi"}});
    let answer = client.post("/mcp", ask("tools/call", call)).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Hello.");
    assert_eq!(client.post("/mcp", ask("tools/dance", json!({}))).await["error"]["code"], -32601);
    for (body, code) in [("{", -32700), ("{}", -32600), ("[]", -32600), ("7", -32600)] {
        let refused = client.http.post(format!("{}/mcp", client.url)).body(body).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{body}");
        let refused: serde_json::Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
        assert_eq!(refused["error"]["code"], code, "{body}");
    }
}

#[tokio::test]
async fn a_batch_of_runs_starts_completely_or_not_at_all() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let kept = |text: &str| {
        let mut body = say(text);
        body["on_completion"] = json!("keep");
        body
    };
    let begun = client.post("/runs/batch", json!([kept("first"), kept("second")])).await;
    let begun = begun.as_array().unwrap();
    assert_eq!(begun.len(), 2);
    let mut said = BTreeSet::new();
    for run in begun {
        let (thread, run) = (run["thread_id"].as_str().unwrap(), run["run_id"].as_str().unwrap());
        let values = client.get(&format!("/threads/{thread}/runs/{run}/join")).await;
        said.insert(values["messages"][1]["content"].as_str().unwrap().to_owned());
    }
    assert_eq!(said.into_iter().collect::<Vec<_>>(), ["One.", "Two."]);
    let threads = client.post("/threads/count", json!({})).await;
    let wrong = json!([say("third"), {"assistant_id": "nobody"}]);
    let (status, answer) = client.send(Method::POST, "/runs/batch", &wrong).await;
    assert!(status.is_client_error(), "{status} {answer}");
    // The runs already started are rolled back, which is visible a moment later.
    until(async || client.post("/threads/count", json!({})).await == threads).await;
}
