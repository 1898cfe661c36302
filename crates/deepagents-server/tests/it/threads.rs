//! Threads and their states.

use std::sync::Arc;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::store::{Query, Store};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::hooked::HookedStore;
use crate::support::{agent, roles, say, serve, serve_on};

#[tokio::test]
async fn a_thread_shows_its_metadata_and_the_values_of_its_last_run() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let made = client.post("/threads", json!({"metadata": {"user": "ada"}})).await;
    let id = made["thread_id"].as_str().unwrap();
    assert_eq!((&made["status"], &made["metadata"]), (&json!("idle"), &json!({"user": "ada"})));
    client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    let thread = client.get(&format!("/threads/{id}")).await;
    assert_eq!(roles(&thread["values"]), ["human", "ai"]);
    assert_eq!(thread["metadata"]["graph_id"], "agent");
    let found = client.post("/threads/search", json!({"metadata": {"user": "ada"}})).await;
    assert_eq!(found[0]["thread_id"], id);
}

#[tokio::test]
async fn a_missing_resource_is_404_and_an_invalid_id_is_422() {
    let client = serve(vec![]).await;
    let nowhere = "/threads/00000000-0000-4000-8000-000000000000";
    assert_eq!(client.send(Method::GET, nowhere, &json!({})).await.0, StatusCode::NOT_FOUND);
    let (status, body) = client.send(Method::GET, "/threads/x", &json!({})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(body["detail"].is_string());
    let id = client.thread().await;
    let (status, _) = client.send(Method::GET, &format!("/threads/{id}/state/x"), &json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_run_from_an_earlier_checkpoint_branches_and_keeps_the_old_branch() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two."), Turn::text("Other.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("first")).await;
    let first = client.get(&format!("/threads/{id}/state")).await;
    client.post(&format!("/threads/{id}/runs/wait"), say("second")).await;
    let mut other = say("another second");
    other["checkpoint"] = json!({"checkpoint_id": first["checkpoint_id"]});
    let values = client.post(&format!("/threads/{id}/runs/wait"), other).await;
    assert_eq!(values["messages"][3]["content"], "Other.");
    let history = client.post(&format!("/threads/{id}/history"), json!({"limit": 100})).await;
    let last = |state: &Value| state["values"]["messages"].as_array().and_then(|m| m.last().cloned());
    assert!(history.as_array().unwrap().iter().any(|state| last(state).is_some_and(|m| m["content"] == "Two.")));
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_rejected() {
    let client = serve(vec![]).await;
    assert_eq!(client.status_with("origin", "https://evil.example").await, StatusCode::FORBIDDEN);
    assert_eq!(client.status_with("host", "evil.example").await, StatusCode::FORBIDDEN);
    assert_eq!(client.status_with("origin", "http://localhost:3000").await, StatusCode::OK);
}

#[tokio::test]
async fn pruning_keeps_only_the_newest_state_and_the_thread_continues() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two."), Turn::text("Three.")]).await;
    let id = client.thread().await;
    for text in ["first", "second"] {
        client.post(&format!("/threads/{id}/runs/wait"), say(text)).await;
    }
    let history = format!("/threads/{id}/history");
    let before = client.post(&history, json!({"limit": 100})).await.as_array().unwrap().len();
    let pruned = client.post("/threads/prune", json!({"thread_ids": [id], "strategy": "keep_latest"})).await;
    assert_eq!(pruned, json!({"pruned_count": 1}));
    let after = client.post(&history, json!({"limit": 100})).await;
    let after = after.as_array().unwrap();
    assert!(before > 2 && after.len() == 1, "{before}, then {after:?}");
    assert_eq!(after[0]["values"]["messages"].as_array().unwrap().len(), 4);
    let values = client.post(&format!("/threads/{id}/runs/wait"), say("third")).await;
    assert_eq!(values["messages"][5]["content"], "Three.");
    let grown = client.post(&history, json!({"limit": 100})).await;
    let grown: Vec<(usize, &Value)> = grown
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["values"]["messages"].as_array().map_or(0, Vec::len), &one["checkpoint_id"]))
        .collect();
    assert_eq!((grown[0].0, grown.last().unwrap()), (6, &(4, &after[0]["checkpoint_id"])), "{grown:?}");
    assert_eq!(grown[grown.len() - 2].0, 4, "before the input: {grown:?}");
    let gone =
        json!({"thread_ids": ["00000000-0000-4000-8000-000000000000", id, id.to_uppercase()], "strategy": "delete"});
    assert_eq!(client.post("/threads/prune", gone).await["pruned_count"], 1, "each once");
    assert_eq!(client.send(Method::GET, &format!("/threads/{id}"), &json!({})).await.0, 404);
}

#[tokio::test]
async fn threads_can_be_sorted_by_when_their_state_last_changed() {
    let client = serve(vec![Turn::text("Hello."), Turn::text("Hello.")]).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = client.thread().await;
        client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
        ids.push(json!(id));
    }
    // Changing the metadata of a thread does not change its state.
    let first = format!("/threads/{}", ids[0].as_str().unwrap());
    client.send(Method::PATCH, &first, &json!({"metadata": {"topic": "x"}})).await;
    let order = async |by: &str, order: &str| -> Vec<Value> {
        let found = client.post("/threads/search", json!({"sort_by": by, "sort_order": order})).await;
        found.as_array().unwrap().iter().map(|thread| thread["thread_id"].clone()).collect()
    };
    assert_eq!(order("state_updated_at", "asc").await, ids);
    ids.reverse();
    assert_eq!(order("state_updated_at", "desc").await, ids);
}

#[tokio::test]
async fn nothing_remains_of_a_run_whose_thread_is_deleted_during_acceptance() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store = Arc::new(HookedStore::default());
    let client = serve_on(agent(vec![Turn::text("Hello.")], journal.clone()), journal.clone(), store.clone()).await;
    let id = client.thread().await;
    let deleted = id.clone();
    store.once(|namespace| namespace.iter().any(|label| label == "runs"), async move {
        assert!(journal.threads().delete(&deleted).await.unwrap())
    });
    let told = client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    assert!(told["__error__"]["message"].is_string(), "{told}");
    assert_eq!(client.send(Method::GET, &format!("/threads/{id}"), &json!({})).await.0, StatusCode::NOT_FOUND);
    for kind in ["runs", "open-runs"] {
        let place = ["deepagents-server".to_owned(), kind.to_owned()];
        assert_eq!(store.search(&place, &Query::default()).await.unwrap(), []);
    }
}
