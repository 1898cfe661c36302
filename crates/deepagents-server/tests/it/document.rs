//! The API description is complete, and no operation in it reveals anything to a stranger.
#![allow(clippy::disallowed_methods, reason = "the sources of the server itself")]

use std::collections::BTreeSet;
use std::path::Path;

use deepagents::models::scripted::Turn;
use deepagents_server::{Identity, StaticTokens};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::support::{Client, run, say, serve, server};

/// A text contained in everything that belongs to ada.
const SECRET: &str = "the-secret-of-ada";

/// Returns the text of all sources below a directory.
fn sources(dir: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    all
}

/// Returns a path without the names of its parameters.
fn shape(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    path.trim_end_matches('/').split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn the_document_lists_exactly_the_client_routes() {
    let document = serve(Vec::new()).await.get("/openapi.json").await;
    let listed: BTreeSet<String> = document["paths"].as_object().unwrap().keys().map(|path| shape(path)).collect();
    let text = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let routed =
        text.split(".route(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    // Files for browsers, the health check, and the description itself.
    let own = |path: &str| ["/docs", "/ok", "/openapi.json", "/"].contains(&path) || path.starts_with("/page/");
    let routed: BTreeSet<String> = routed.filter(|path| !own(path)).map(shape).collect();
    assert_eq!(routed, listed);
}

/// Creates things that belong to ada, by their parameter names in the description.
async fn belongings(ada: &Client) -> Map<String, Value> {
    let thread = ada.post("/threads", json!({"metadata": {"topic": SECRET}})).await["thread_id"].clone();
    let id = thread.as_str().unwrap().to_owned();
    ada.post(&format!("/threads/{id}/runs/wait"), say(SECRET)).await;
    let run = ada.get(&format!("/threads/{id}/runs")).await[0]["run_id"].clone();
    let checkpoint = ada.get(&format!("/threads/{id}/state")).await["checkpoint_id"].clone();
    let named = json!({"graph_id": "agent", "name": SECRET, "description": SECRET, "metadata": {"topic": SECRET}});
    let assistant = ada.post("/assistants", named).await["assistant_id"].clone();
    let mut cron = say(SECRET);
    cron["schedule"] = json!("0 5 1 1 *");
    cron["metadata"] = json!({"topic": SECRET});
    let cron = ada.post("/runs/crons", cron).await["cron_id"].clone();
    let item = json!({"namespace": ["notes"], "key": "k", "value": {"topic": SECRET}});
    assert!(ada.send(Method::PUT, "/store/items", &item).await.0.is_success());
    let all = json!({
        "thread_id": thread, "run_id": run, "checkpoint_id": checkpoint, "assistant_id": assistant, "cron_id": cron,
        "thread_ids": [thread], "run_ids": [run], "ids": [thread], "namespace": ["notes"], "key": "k",
        "value": {"mine": true}, "namespace_prefix": ["notes"], "graph_id": "agent", "schedule": "0 5 1 1 *",
        "if_not_exists": "create", "if_exists": "do_nothing", "values": {"messages": []}, "strategy": "delete",
        "checkpoint": {"thread_id": thread, "checkpoint_id": checkpoint, "checkpoint_ns": ""},
        "input": {"messages": [{"role": "user", "content": "hi"}]}, "channels": ["values", "messages"],
        "jsonrpc": "2.0", "id": 1, "version": 1,
    });
    all.as_object().unwrap().clone()
}

/// Returns a method and its parameters for operations that dispatch by method.
fn method_of(path: &str, known: &Map<String, Value>) -> Option<(&'static str, Value)> {
    match path {
        "/mcp" => Some(("tools/list", json!({}))),
        "/threads/{thread_id}/commands" => Some(("state.get", json!({}))),
        "/a2a/{assistant_id}" => {
            let part = json!({"kind": "text", "text": "hi"});
            let message = json!({"role": "user", "messageId": "m1", "contextId": known["thread_id"], "parts": [part]});
            Some(("message/send", json!({"message": message})))
        }
        _ => None,
    }
}

#[tokio::test]
async fn another_users_token_reads_and_changes_nothing_through_any_documented_route() {
    let tokens = StaticTokens::new().token("ada's", Identity::new("ada")).token("bob's", Identity::new("bob"));
    let turns = vec![Turn::text(SECRET), Turn::text("Hello."), Turn::text("Hello."), Turn::text("Hello.")];
    let (client, _end, _serving) = run(server(turns).authenticate(tokens)).await;
    let (ada, bob) = (client.with_token("ada's"), client.with_token("bob's"));
    let known = belongings(&ada).await;
    let document = ada.get("/openapi.json").await;
    let mut found = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let mut place = path.clone();
        for (name, value) in &known {
            place = place.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default());
        }
        if path == "/store/items" {
            place.push_str("?namespace=notes&key=k");
        }
        for (method, operation) in operations.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
            let fields = &operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
            let fields = fields.as_object().cloned().unwrap_or_default();
            let mut body: Map<String, Value> =
                known.clone().into_iter().filter(|(name, _)| fields.contains_key(name)).collect();
            if let Some((name, params)) = method_of(path, &known) {
                body.extend([("method".to_owned(), json!(name)), ("params".to_owned(), params)]);
            }
            let whole = if path == "/runs/batch" { json!([body]) } else { Value::Object(body) };
            let method: Method = method.to_uppercase().parse().unwrap();
            let (status, text) = bob.text_of(method.clone(), &place, &whole).await;
            assert!(!text.contains(SECRET), "{method} {path}: {status} {text}");
            assert!(!status.is_server_error(), "{method} {path}: {status} {text}");
            found += usize::from(status == StatusCode::NOT_FOUND);
        }
    }
    assert!(found > 25, "most of it is as if it were not there: {found}");
    let of = |name: &str| known[name].as_str().unwrap().to_owned();
    let thread = of("thread_id");
    assert_eq!(ada.get(&format!("/threads/{thread}")).await["metadata"]["topic"], SECRET);
    let state = ada.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(
        (state["values"]["messages"].as_array().unwrap().len(), &state["checkpoint_id"]),
        (2, &known["checkpoint_id"])
    );
    assert_eq!(ada.get(&format!("/threads/{thread}/runs")).await.as_array().unwrap().len(), 1);
    assert_eq!(ada.get(&format!("/assistants/{}", of("assistant_id"))).await["name"], SECRET);
    assert_eq!(ada.get(&format!("/runs/crons/{}", of("cron_id"))).await["metadata"]["topic"], SECRET);
    assert_eq!(ada.get("/store/items?namespace=notes&key=k").await["value"]["topic"], SECRET);
}
