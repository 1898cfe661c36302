//! Requests of the official clients, and what they rely on.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use deepagents::models::scripted::Turn;
use serde_json::{Value, json};

use crate::support::{Client, say, serve, until};

fn texts(values: &Value) -> Vec<String> {
    let messages = values["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns the checkpoints before each input, oldest first.
async fn before_inputs(client: &Client, id: &str) -> Vec<Value> {
    let history = client.post(&format!("/threads/{id}/history"), json!({"limit": 100})).await;
    let mut inputs: Vec<Value> = history.as_array().unwrap().clone();
    inputs.retain(|state| state["metadata"]["source"] == "input");
    inputs.reverse();
    inputs.into_iter().map(|state| state["checkpoint"].clone()).collect()
}

#[tokio::test]
async fn an_edited_message_replaces_the_original_from_its_checkpoint() {
    let client = serve(["One.", "Two.", "Second anew.", "First anew."].map(Turn::text).into()).await;
    let id = client.thread().await;
    let run = format!("/threads/{id}/runs/wait");
    client.post(&run, say("first")).await;
    client.post(&run, say("second")).await;
    let inputs = before_inputs(&client, &id).await;
    let mut anew = say("second, said anew");
    anew["checkpoint"] = inputs[1].clone();
    assert_eq!(texts(&client.post(&run, anew).await), ["first", "One.", "second, said anew", "Second anew."]);
    let mut anew = say("first, said anew");
    anew["checkpoint"] = inputs[0].clone();
    assert_eq!(texts(&client.post(&run, anew).await), ["first, said anew", "First anew."]);
    let put = json!({"values": say("alone")["input"], "checkpoint": inputs[0]});
    client.post(&format!("/threads/{id}/state"), put).await;
    assert_eq!(texts(&client.get(&format!("/threads/{id}/state")).await["values"]), ["alone"]);
}

#[tokio::test]
async fn a_run_at_its_recursion_limit_reports_the_error_where_clients_look() {
    let calls = || Turn::call("write_todos", json!({"todos": []}));
    let client = serve(vec![calls(), calls()]).await;
    let id = client.thread().await;
    let mut limited = say("go");
    limited["config"] = json!({"recursion_limit": 2});
    let waited = client.post(&format!("/threads/{id}/runs/wait"), limited.clone()).await;
    assert_eq!(waited["__error__"]["error"], "GraphRecursionError", "{waited}");
    let frames = client.frames(Method::POST, &format!("/threads/{id}/runs/stream"), &limited).await;
    let (name, last) = frames.last().unwrap();
    assert_eq!((name.as_str(), &last["error"]), ("error", &json!("GraphRecursionError")), "{frames:?}");
    assert!(frames.iter().any(|(name, _)| name == "values"), "the state as it is comes before: {frames:?}");
}

#[tokio::test]
async fn a_thread_at_its_recursion_limit_continues_up_to_the_next_runs_limit() {
    let calls = || Turn::call("write_todos", json!({"todos": []}));
    let client = serve(vec![calls(), calls(), calls(), Turn::text("Done.")]).await;
    let id = client.thread().await;
    let run = format!("/threads/{id}/runs/wait");
    let mut limited = say("go");
    limited["config"] = json!({"recursion_limit": 2});
    assert_eq!(client.post(&run, limited).await["__error__"]["error"], "GraphRecursionError");
    let mut on = json!({"assistant_id": "agent", "input": null, "config": {"recursion_limit": 2}});
    assert_eq!(client.post(&run, on.clone()).await["__error__"]["error"], "GraphRecursionError");
    let state = client.get(&format!("/threads/{id}/state")).await;
    assert_eq!(state["values"]["messages"].as_array().unwrap().len(), 5, "one more turn: {state}");
    on.as_object_mut().unwrap().remove("config");
    assert_eq!(texts(&client.post(&run, on).await).last().unwrap(), "Done.");
}

#[tokio::test]
async fn an_assistants_config_applies_to_its_runs_and_run_config_overrides_it() {
    let call = Turn::call("write_todos", json!({"todos": []}));
    let client = serve(vec![call.clone(), call, Turn::text("Done.")]).await;
    let made = json!({"graph_id": "agent", "config": {"recursion_limit": 2, "tags": ["mine"]}});
    let assistant = client.post("/assistants", made).await["assistant_id"].clone();
    let run = |config: Value| json!({"assistant_id": assistant, "input": say("go")["input"], "config": config});
    let waited = client.post("/runs/wait", run(json!({}))).await;
    assert_eq!(waited["__error__"]["error"], "GraphRecursionError", "{waited}");
    let waited = client.post("/runs/wait", run(json!({"recursion_limit": 50}))).await;
    assert_eq!(texts(&waited).last().unwrap(), "Done.", "{waited}");
    let id = client.thread().await;
    let begun = client.post(&format!("/threads/{id}/runs"), run(json!({"recursion_limit": 1}))).await;
    let known = &begun["kwargs"]["config"];
    assert_eq!((&known["recursion_limit"], &known["tags"]), (&json!(1), &json!(["mine"])), "{begun}");
}

#[tokio::test]
async fn a_history_can_be_paged_by_config_or_limited_to_one_checkpoint() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let id = client.thread().await;
    for text in ["first", "second"] {
        client.post(&format!("/threads/{id}/runs/wait"), say(text)).await;
    }
    let history = async |body: Value| {
        let states = client.post(&format!("/threads/{id}/history"), body).await;
        states.as_array().unwrap().iter().map(|state| state["checkpoint_id"].clone()).collect::<Vec<_>>()
    };
    let all = history(json!({"limit": 100})).await;
    let config = |at: usize| json!({"configurable": {"thread_id": id, "checkpoint_ns": "", "checkpoint_id": all[at]}});
    assert_eq!(history(json!({"limit": 100, "before": config(1)})).await, all[2..]);
    assert_eq!(history(json!({"checkpoint": {"checkpoint_id": all[2]}})).await, all[2..3]);
    assert!(history(json!({"checkpoint": {"checkpoint_ns": "task:1"}})).await.is_empty());
}

#[tokio::test]
async fn inputs_are_accepted_in_every_spelling_of_the_reference() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let id = client.thread().await;
    let todos = json!([{"content": "a", "status": "completed"}, {"content": "b", "status": "completed"}]);
    client.post(&format!("/threads/{id}/state"), json!({"values": {"todos": todos}})).await;
    let pairs = json!({"assistant_id": "agent", "input": {"messages": [["user", "said in a pair"]]}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), pairs).await;
    assert_eq!(
        (texts(&values)[0].as_str(), &values["todos"][1]["content"]),
        ("said in a pair", &json!("b")),
        "{values}"
    );
    let picture =
        json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=", "metadata": {"name": "p.png"}});
    let said = json!({"assistant_id": "agent", "input": {"messages": [{"type": "human", "content": [picture]}]}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), said).await;
    assert_eq!(values["messages"][2]["content"][0]["mimeType"], "image/png", "{values}");
    let update = json!({"assistant_id": "agent", "command": {"update": [["todos", todos]]}});
    let (status, told) = client.send(Method::POST, &format!("/threads/{id}/runs"), &update).await;
    assert_eq!(status, StatusCode::OK, "{told}");
}

#[tokio::test]
async fn invalid_sdk_requests_are_rejected_before_anything_happens() {
    let client = serve(vec![Turn::text("One.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("first")).await;
    let runs = format!("/threads/{id}/runs");
    let goes = json!({"assistant_id": "agent", "command": {"goto": "elsewhere"}});
    assert_eq!(client.send(Method::POST, &runs, &goes).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    for checkpoint in ["bogus", "1f0a37d5-5d2e-6e4c-8000-000000000001"] {
        let mut from = say("again");
        from["checkpoint_id"] = json!(checkpoint);
        assert_eq!(client.send(Method::POST, &runs, &from).await.0, StatusCode::NOT_FOUND, "{checkpoint}");
    }
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "idle");
    let made = client.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].clone();
    let made = format!("/assistants/{}", made.as_str().unwrap());
    let other = json!({"graph_id": "nobody"});
    assert_eq!(client.send(Method::PATCH, &made, &other).await.0, StatusCode::NOT_FOUND);
    assert_eq!(client.get(&made).await["version"], 1);
    assert_eq!(client.get(&format!("{made}/subgraphs/tools")).await, json!({}));
}

#[tokio::test]
async fn a_waiting_client_gets_the_runs_location_at_once_and_can_cancel_by_leaving() {
    let slow = || Turn::text("Late.").delay(Duration::from_secs(600));
    let client = serve(vec![slow(), slow()]).await;
    let id = client.thread().await;
    let mut body = say("go");
    body["on_disconnect"] = json!("cancel");
    let request = client.http.post(format!("{}/threads/{id}/runs/wait", client.url)).json(&body);
    let waiting = request.send().await.unwrap();
    let join = waiting.headers()["location"].to_str().unwrap().to_owned();
    let run = join.strip_suffix("/join").unwrap();
    assert_eq!((waiting.status(), waiting.headers()["content-location"].to_str().unwrap()), (StatusCode::OK, run));
    assert_eq!(waiting.headers()["content-type"], "application/json");
    drop(waiting);
    let comes_to = async |run: &str, status: &str| {
        until(async || client.get(run).await["status"] == status).await;
    };
    comes_to(run, "interrupted").await;

    let begun = client.post(&format!("/threads/{id}/runs"), say("again")).await;
    let run = format!("/threads/{id}/runs/{}", begun["run_id"].as_str().unwrap());
    comes_to(&run, "running").await;
    let request = client.http.get(format!("{}{run}/join?cancel_on_disconnect=1", client.url));
    drop(request.send().await.unwrap());
    comes_to(&run, "interrupted").await;
}
