//! Runs at times that come again.

use std::sync::Arc;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::store::{MemoryStore, Store};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{agent, say, serve, serve_on};

#[tokio::test]
async fn a_cron_is_made_found_changed_and_gone() {
    let client = serve(vec![]).await;
    let mut body = say("report");
    body["schedule"] = json!("0 5 1 1 *");
    let made = client.post("/runs/crons", body).await;
    let id = made["cron_id"].as_str().unwrap();
    assert!(made["next_run_date"].as_str().unwrap().contains("-01-01T05:00:00"));
    assert_eq!(client.post("/runs/crons/search", json!({})).await[0]["payload"]["input"], say("report")["input"]);
    let path = format!("/runs/crons/{id}");
    let (status, changed) = client.send(Method::PATCH, &path, &json!({"enabled": false})).await;
    assert_eq!((status, &changed["next_run_date"]), (StatusCode::OK, &json!(null)));
    assert_eq!(client.post("/runs/crons/count", json!({"enabled": true})).await, json!(0));
    assert_eq!(client.send(Method::DELETE, &path, &json!({})).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.send(Method::GET, &path, &json!({})).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_could_never_run_is_refused_when_it_is_made() {
    let client = serve(vec![]).await;
    for (schedule, assistant) in [("whenever", "agent"), ("0 0 30 2 *", "agent"), ("* * * * *", "nobody")] {
        let body = json!({"schedule": schedule, "assistant_id": assistant, "input": {}});
        let (status, answer) = client.send(Method::POST, "/runs/crons", &body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}: {answer}");
    }
}

#[tokio::test]
async fn a_time_that_came_while_no_server_ran_is_made_up_for_once() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = serve_on(agent(vec![], journal.clone()), journal.clone(), store.clone()).await;
    let thread = first.thread().await;
    let mut body = say("report");
    body["schedule"] = json!("0 5 1 1 *");
    let made = first.post(&format!("/threads/{thread}/runs/crons"), body).await;
    let place = ["deepagents-server".to_owned(), "crons".to_owned()];
    let id = made["cron_id"].as_str().unwrap();
    let mut cron = store.get(&place, id).await.unwrap().unwrap().value;
    cron["next_run_date"] = json!("2026-01-01T05:00:00Z");
    store.put(&place, id, cron).await.unwrap();
    // Two servers on one storage find that it is due, and one run is made.
    let turns = vec![Turn::text("Here.")];
    let second = serve_on(agent(turns, journal.clone()), journal, store).await;
    let runs = loop {
        let runs = second.get(&format!("/threads/{thread}/runs")).await;
        if runs[0]["status"] == "success" {
            break runs;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(runs.as_array().unwrap().len(), 1);
    assert_eq!(runs[0]["metadata"]["cron_id"], id);
}
