//! Runs on a schedule.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::store::{MemoryStore, Store};
use deepagents_server::{Identity, Server, StaticTokens};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::hooked::{HookedStore, WatchedStore};
use crate::support::{Client, agent, run, say, serve, serve_on, server, until};

#[tokio::test]
async fn a_cron_can_be_created_found_changed_and_deleted() {
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
async fn a_cron_that_could_never_run_is_rejected_on_creation() {
    let client = serve(vec![]).await;
    for (schedule, assistant, expected) in [
        ("whenever", "agent", StatusCode::UNPROCESSABLE_ENTITY),
        ("* * * * * 61", "agent", StatusCode::UNPROCESSABLE_ENTITY),
        ("0 5 1 1 * 0 2030", "agent", StatusCode::UNPROCESSABLE_ENTITY),
        ("0 0 30 2 *", "agent", StatusCode::BAD_REQUEST),
        ("* * * * *", "nobody", StatusCode::NOT_FOUND),
    ] {
        let body = json!({"schedule": schedule, "assistant_id": assistant, "input": {}});
        let (status, answer) = client.send(Method::POST, "/runs/crons", &body).await;
        assert_eq!(status, expected, "{body}: {answer}");
    }
}

#[tokio::test]
async fn an_optional_sixth_cron_field_is_the_seconds() {
    let client = serve(vec![]).await;
    let mut body = say("report");
    body["schedule"] = json!("0 5 1 1 * 30");
    let made = client.post("/runs/crons", body).await;
    assert!(made["next_run_date"].as_str().unwrap().contains("-01-01T05:00:30"), "{made}");
}

#[tokio::test]
async fn a_cron_time_missed_while_no_server_ran_is_made_up_once() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = serve_on(agent(vec![], journal.clone()), journal.clone(), store.clone()).await;
    let thread = first.thread().await;
    let mut body = say("report");
    body["schedule"] = json!("0 5 1 1 *");
    let made = first.post(&format!("/threads/{thread}/runs/crons"), body).await;
    let id = made["cron_id"].as_str().unwrap();
    let mut cron = store.get(&place(), id).await.unwrap().unwrap().value;
    cron["next_run_date"] = json!("2026-01-01T05:00:00Z");
    store.put(&place(), id, cron).await.unwrap();
    // Two servers on one storage find the cron due, and one run is created.
    let turns = vec![Turn::text("Here.")];
    let second = serve_on(agent(turns, journal.clone()), journal, store).await;
    let path = format!("/threads/{thread}/runs");
    until(async || second.get(&path).await[0]["status"] == "success").await;
    let runs = second.get(&path).await;
    assert_eq!(runs.as_array().unwrap().len(), 1);
    assert_eq!(runs[0]["metadata"]["cron_id"], id);
}

/// Returns the namespace of crons, for tests that change due times.
fn place() -> [String; 2] {
    ["deepagents-server", "crons"].map(str::to_owned)
}

#[tokio::test]
async fn a_schedule_follows_its_time_zone_and_stops_at_its_end_time() {
    let client = serve(vec![]).await;
    let mut body = say("report");
    (body["schedule"], body["timezone"]) = (json!("30 9 1 1 *"), json!("Asia/Kathmandu"));
    let made = client.post("/runs/crons", body.clone()).await;
    let path = format!("/runs/crons/{}", made["cron_id"].as_str().unwrap());
    assert!(made["next_run_date"].as_str().unwrap().contains("-01-01T03:45:00"), "{made}");
    // In summer time, the same local hour is another hour in UTC.
    let (_, changed) =
        client.send(Method::PATCH, &path, &json!({"timezone": "Europe/Berlin", "schedule": "30 9 1 7 *"})).await;
    assert!(changed["next_run_date"].as_str().unwrap().contains("-07-01T07:30:00"), "{changed}");
    let (_, changed) = client.send(Method::PATCH, &path, &json!({"end_time": "2026-01-01T00:00:00Z"})).await;
    assert_eq!(changed["next_run_date"], json!(null));
    let (_, changed) = client.send(Method::PATCH, &path, &json!({"end_time": null})).await;
    assert!(changed["next_run_date"].is_string(), "{changed}");
    let (_, changed) = client.send(Method::PATCH, &path, &json!({"timezone": null})).await;
    assert_eq!(changed["timezone"], json!(null), "as if none had been given");
    assert!(changed["next_run_date"].as_str().unwrap().contains("-07-01T09:30:00"), "{changed}");
    body["timezone"] = json!("Mars/Olympus_Mons");
    let (status, answer) = client.send(Method::POST, "/runs/crons", &body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer["detail"].as_str().unwrap().contains("Mars/Olympus_Mons"), "{answer}");
}

#[tokio::test]
async fn a_changed_assistant_and_changed_metadata_are_those_of_the_next_runs() {
    let client = serve(vec![]).await;
    let other = client.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].clone();
    let mut body = say("report");
    (body["schedule"], body["metadata"]) = (json!("0 5 1 1 *"), json!({"a": 1}));
    let made = client.post("/runs/crons", body).await;
    let path = format!("/runs/crons/{}", made["cron_id"].as_str().unwrap());
    let change = json!({"assistant_id": other, "metadata": {"b": 2}});
    let (_, changed) = client.send(Method::PATCH, &path, &change).await;
    assert_eq!((&changed["assistant_id"], &changed["metadata"]), (&other, &json!({"a": 1, "b": 2})));
    assert_eq!(changed["payload"]["metadata"], changed["metadata"]);
    let nobody = json!({"assistant_id": "nobody"});
    assert_eq!(client.send(Method::PATCH, &path, &nobody).await.0, StatusCode::NOT_FOUND);
    assert_eq!(client.get(&path).await["assistant_id"], other);
}

#[tokio::test]
async fn a_cron_runs_thread_is_kept_or_deleted_as_configured() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = serve_on(agent(vec![], journal.clone()), journal.clone(), store.clone()).await;
    let mut ids = Vec::new();
    for (schedule, after) in [("0 5 1 1 *", "keep"), ("0 5 1 1 *", "delete")] {
        let mut body = say(after);
        (body["schedule"], body["on_run_completed"]) = (json!(schedule), json!(after));
        let made = first.post("/runs/crons", body.clone()).await;
        ids.push(made["cron_id"].as_str().unwrap().to_owned());
        body["on_run_completed"] = json!("whatever");
        assert_eq!(
            first.send(Method::POST, "/runs/crons", &body).await.0,
            StatusCode::UNPROCESSABLE_ENTITY,
            "what could never run is refused when it is made"
        );
    }
    for id in &ids {
        let mut cron = store.get(&place(), id).await.unwrap().unwrap().value;
        // This is the last due time before the end.
        cron["next_run_date"] = json!("2026-01-01T05:00:00Z");
        cron["end_time"] = json!("2026-01-02T00:00:00Z");
        store.put(&place(), id, cron).await.unwrap();
    }
    let second =
        serve_on(agent(vec![Turn::text("Here."), Turn::text("Here.")], journal.clone()), journal, store.clone()).await;
    let idle = json!({"status": "idle"});
    until(async || {
        let mut waiting = 0;
        for id in &ids {
            let cron = second.get(&format!("/runs/crons/{id}")).await;
            assert_eq!(cron.get("last_error"), None, "{cron}");
            waiting += usize::from(!cron["next_run_date"].is_null());
        }
        let all = second.post("/threads/search", json!({})).await;
        waiting == 0 && all.as_array().unwrap().len() == 1 && all == second.post("/threads/search", idle.clone()).await
    })
    .await;
    let threads = second.post("/threads/search", json!({})).await;
    assert_eq!(threads[0]["values"]["messages"][0]["content"], "keep");
}

#[tokio::test]
async fn crons_are_deleted_with_their_thread_or_assistant() {
    let client = serve(vec![]).await;
    let thread = client.thread().await;
    let assistant = client.post("/assistants", json!({"graph_id": "agent"})).await;
    let assistant = assistant["assistant_id"].as_str().unwrap();
    let mut body = say("report");
    body["schedule"] = json!("0 5 1 1 *");
    client.post("/runs/crons", body.clone()).await;
    client.post(&format!("/threads/{thread}/runs/crons"), body.clone()).await;
    body["assistant_id"] = json!(assistant);
    client.post("/runs/crons", body).await;
    assert_eq!(client.post("/runs/crons/count", json!({})).await, json!(3));
    client.send(Method::DELETE, &format!("/threads/{thread}"), &json!({})).await;
    assert_eq!(client.post("/runs/crons/count", json!({})).await, json!(2));
    client.send(Method::DELETE, &format!("/assistants/{assistant}"), &json!({})).await;
    assert_eq!(client.post("/runs/crons/count", json!({})).await, json!(1));
}

#[tokio::test]
async fn a_cron_deleted_while_its_run_is_created_stays_deleted() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store = Arc::new(HookedStore::default());
    let first = serve_on(agent(vec![Turn::text("Here.")], journal.clone()), journal.clone(), store.clone()).await;
    let thread = first.thread().await;
    let mut body = say("report");
    body["schedule"] = json!("0 5 1 1 *");
    let made = first.post(&format!("/threads/{thread}/runs/crons"), body).await;
    let id = made["cron_id"].as_str().unwrap();
    let mut cron = store.get(&place(), id).await.unwrap().unwrap().value;
    cron["next_run_date"] = json!("2026-01-01T05:00:00Z");
    store.put(&place(), id, cron).await.unwrap();
    let runs = ["deepagents-server".to_owned(), "runs".to_owned(), thread.clone()];
    let (removed, cron) = (store.clone(), id.to_owned());
    store.once(move |namespace| namespace == runs, async move {
        assert!(removed.delete(&place(), &cron).await.unwrap());
    });
    let second = serve_on(agent(vec![Turn::text("Here.")], journal.clone()), journal, store).await;
    until(async || second.get(&format!("/threads/{thread}/runs")).await[0]["status"] == "success").await;
    // The next due time is stored after the run is accepted and before the timer checks again.
    let mut body = say("another");
    body["schedule"] = json!("0 5 1 1 *");
    second.post("/runs/crons", body).await;
    assert_eq!(second.post("/runs/crons/count", json!({})).await, json!(1));
    assert_eq!(second.send(Method::GET, &format!("/runs/crons/{id}"), &json!({})).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn expired_items_are_removed_from_the_store() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store = Arc::new(HookedStore::default());
    serve_on(agent(vec![], journal.clone()), journal, store.clone()).await;
    until(async || store.sweeps.load(Ordering::Relaxed) != 0).await;
}

fn tokens() -> StaticTokens {
    StaticTokens::new().token("ada's", Identity::new("ada")).token("eve's", Identity::new("eve"))
}

/// Creates a cron for the first of January. Returns its id.
async fn yearly(client: &Client, text: &str) -> String {
    let mut body = say(text);
    body["schedule"] = json!("0 5 1 1 *");
    client.post("/runs/crons", body).await["cron_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn neither_the_timer_nor_lists_of_others_read_crons_that_are_not_due() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store = Arc::new(WatchedStore::default());
    let turns = (0..100).map(|_| Turn::text("Here.")).collect();
    let serving = Server::new(journal.clone(), store.clone()).agent("agent", agent(turns, journal)).unwrap();
    let client = run(serving.authenticate(tokens())).await.0;
    let (ada, eve) = (client.with_token("ada's"), client.with_token("eve's"));
    let large = yearly(&eve, &"x".repeat(500_000)).await;
    let small = yearly(&ada, "report").await;
    store.take();
    let thread = ada.thread().await;
    let mut body = say("again");
    body["schedule"] = json!("* * * * * *");
    ada.post(&format!("/threads/{thread}/runs/crons"), body).await;
    let runs = format!("/threads/{thread}/runs");
    until(async || ada.get(&runs).await.as_array().unwrap().len() > 1).await;
    assert_eq!(ada.post("/runs/crons/count", json!({})).await, json!(2));
    assert_eq!(ada.post("/runs/crons/search", json!({"limit": 1})).await.as_array().unwrap().len(), 1);
    let read = store.take();
    let payloads = |read: &[(String, String)], id: &str| {
        read.iter().filter(|(kind, key)| kind == "cron-payloads" && key == id).count()
    };
    assert!(!read.iter().any(|(_, key)| *key == large), "{read:?}");
    assert_eq!(payloads(&read, &small), 0, "not even those of the same caller");

    // Those who ask for it get all of it.
    let found = eve.post("/runs/crons/search", json!({})).await;
    assert_eq!(found[0]["payload"]["input"]["messages"], say(&"x".repeat(500_000))["input"]["messages"]);
    assert_eq!(payloads(&store.take(), &large), 1);
}

#[tokio::test]
async fn a_caller_has_a_limited_number_of_crons_and_a_cron_a_limited_size() {
    let client = run(server(vec![]).authenticate(tokens())).await.0;
    let (ada, eve) = (client.with_token("ada's"), client.with_token("eve's"));
    let mut last = String::new();
    for _ in 0..100 {
        last = yearly(&eve, "report").await;
    }
    let mut body = say("one more");
    body["schedule"] = json!("0 5 1 1 *");
    let (status, answer) = eve.send(Method::POST, "/runs/crons", &body).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("delete one"), "{answer}");
    let place = format!("/runs/crons/{}", yearly(&ada, "of another caller").await);
    assert_eq!(eve.send(Method::DELETE, &format!("/runs/crons/{last}"), &json!({})).await.0, StatusCode::NO_CONTENT);
    yearly(&eve, "again").await;

    let large = [
        ("input", say(&"x".repeat(1 << 20))["input"].clone()),
        ("metadata", json!({"a": "x".repeat(20_000)})),
        ("schedule", json!(format!("{} 5 1 1 *", ["0"; 10_000].join(",")))),
    ];
    for (field, value) in large {
        let mut new = body.clone();
        new[field] = value.clone();
        let (status, answer) = ada.send(Method::POST, "/runs/crons", &new).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{field}: {answer}");
        let (status, answer) = ada.send(Method::PATCH, &place, &json!({field: value})).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{field}: {answer}");
    }
    assert_eq!(ada.post("/runs/crons/count", json!({})).await, json!(1));
    assert_eq!(ada.get(&place).await["payload"]["input"], say("of another caller")["input"]);
}

#[tokio::test]
async fn a_cron_stored_with_its_payload_by_an_earlier_version_runs_and_can_be_changed() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = serve_on(agent(vec![], journal.clone()), journal.clone(), store.clone()).await;
    let payloads = ["deepagents-server", "cron-payloads"].map(str::to_owned);
    let thread = first.thread().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut body = say("report");
        body["schedule"] = json!("0 5 1 1 *");
        let made = first.post(&format!("/threads/{thread}/runs/crons"), body).await;
        let id = made["cron_id"].as_str().unwrap().to_owned();
        let mut cron: Value = store.get(&place(), &id).await.unwrap().unwrap().value;
        cron["payload"] = store.get(&payloads, &id).await.unwrap().unwrap().value;
        store.put(&place(), &id, cron).await.unwrap();
        assert!(store.delete(&payloads, &id).await.unwrap());
        ids.push(id);
    }
    let changed = first.send(Method::PATCH, &format!("/runs/crons/{}", ids[1]), &json!({"metadata": {"b": 2}})).await.1;
    assert_eq!((&changed["payload"]["input"], &changed["metadata"]["b"]), (&say("report")["input"], &json!(2)));
    let mut cron = store.get(&place(), &ids[0]).await.unwrap().unwrap().value;
    cron["next_run_date"] = json!("2026-01-01T05:00:00Z");
    store.put(&place(), &ids[0], cron).await.unwrap();
    let second = serve_on(agent(vec![Turn::text("Here.")], journal.clone()), journal, store.clone()).await;
    until(async || second.get(&format!("/threads/{thread}/runs")).await[0]["status"] == "success").await;
    for id in &ids {
        until(async || store.get(&payloads, id).await.unwrap().is_some()).await;
        until(async || store.get(&place(), id).await.unwrap().unwrap().value["payload"] == json!({})).await;
        let shown = second.get(&format!("/runs/crons/{id}")).await;
        assert_eq!(shown["payload"]["input"], say("report")["input"]);
    }
}
