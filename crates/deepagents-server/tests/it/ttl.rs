//! Threads that expire some time after their last use.

use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::store::{MemoryStore, Query, Store};
use deepagents_server::Server;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Client, agent, run, say, serve_on, soon, until};

fn place() -> [String; 2] {
    ["deepagents-server", "ttl"].map(str::to_owned)
}

/// A storage shared by successive servers.
struct World {
    journal: Arc<dyn Journal>,
    store: Arc<dyn Store>,
}

impl World {
    fn new() -> Self {
        Self { journal: Arc::new(MemoryJournal::new()), store: Arc::new(MemoryStore::default()) }
    }

    /// Starts a server, which checks for expired threads at once.
    async fn server(&self) -> Client {
        let agent = agent(vec![Turn::text("Hello."), Turn::text("Again.")], self.journal.clone());
        serve_on(agent, self.journal.clone(), self.store.clone()).await
    }

    async fn thread(&self, client: &Client, minutes: f64) -> String {
        self.thread_with(client, json!({"ttl": minutes, "strategy": "delete"})).await
    }

    async fn thread_with(&self, client: &Client, ttl: Value) -> String {
        let made = client.post("/threads", json!({"ttl": ttl})).await;
        made["thread_id"].as_str().unwrap().to_owned()
    }

    /// Sets the expiry of a thread.
    async fn ends(&self, thread: &str, at: Value) {
        let mut kept = self.store.get(&place(), thread).await.unwrap().unwrap().value;
        kept["expires_at"] = at;
        self.store.put(&place(), thread, kept).await.unwrap();
    }
}

async fn is_there(client: &Client, thread: &str) -> bool {
    client.send(Method::GET, &format!("/threads/{thread}"), &json!({})).await.0 == StatusCode::OK
}

#[tokio::test]
async fn an_expired_thread_is_deleted_with_its_runs_and_others_remain() {
    let world = World::new();
    let first = world.server().await;
    let (over, living, damaged) =
        (world.thread(&first, 5.0).await, world.thread(&first, 5.0).await, world.thread(&first, 5.0).await);
    first.post(&format!("/threads/{over}/runs/wait"), say("hi")).await;
    world.ends(&over, json!("2026-01-01T00:00:00Z")).await;
    world.ends(&damaged, json!("soon")).await;
    let second = world.server().await;
    until(async || !is_there(&second, &over).await).await;
    assert!(is_there(&second, &living).await);
    assert!(is_there(&second, &damaged).await, "a time that cannot be read removes nothing");
    assert_eq!(second.send(Method::GET, &format!("/threads/{over}/runs"), &json!({})).await.0, StatusCode::NOT_FOUND);
    assert!(world.store.get(&place(), &over).await.unwrap().is_none());
}

#[tokio::test]
async fn a_run_resets_its_threads_time_to_live() {
    let world = World::new();
    let client = world.server().await;
    let thread = world.thread(&client, 5.0).await;
    let almost = "2126-01-01T00:00:00Z";
    world.ends(&thread, json!(almost)).await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("hi")).await;
    let until = world.store.get(&place(), &thread).await.unwrap().unwrap().value;
    assert_ne!(until["expires_at"], almost);
}

#[tokio::test]
async fn a_recreated_thread_does_not_inherit_the_old_expiry() {
    let world = World::new();
    let client = world.server().await;
    let thread = world.thread(&client, 5.0).await;
    client.send(Method::DELETE, &format!("/threads/{thread}"), &json!({})).await;
    client.post("/threads", json!({"thread_id": thread})).await;
    assert!(world.store.get(&place(), &thread).await.unwrap().is_none());
}

#[tokio::test]
async fn an_expired_thread_can_keep_its_newest_state() {
    let world = World::new();
    let first = world.server().await;
    let thread = world.thread_with(&first, json!({"ttl": 5, "strategy": "keep_latest"})).await;
    for text in ["hi", "again"] {
        first.post(&format!("/threads/{thread}/runs/wait"), say(text)).await;
    }
    world.ends(&thread, json!("2026-01-01T00:00:00Z")).await;
    let second = world.server().await;
    let history = async || second.post(&format!("/threads/{thread}/history"), json!({"limit": 100})).await;
    until(async || world.store.get(&place(), &thread).await.unwrap().is_none()).await;
    let history = history().await;
    assert_eq!(history.as_array().unwrap().len(), 1, "{history}");
    assert_eq!(history[0]["values"]["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn invalid_ttl_values_are_rejected() {
    let world = World::new();
    let client = world.server().await;
    for ttl in [json!(0), json!(-1), json!(1e300), json!("soon"), json!({"ttl": 5, "strategy": "sell"})] {
        let (status, answer) = client.send(Method::POST, "/threads", &json!({"ttl": ttl})).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{ttl}: {answer}");
        assert!(answer.to_string().contains("a number of minutes"), "{answer}");
    }
}

#[tokio::test]
async fn a_threads_ttl_is_shown_only_on_request_and_not_copied() {
    let world = World::new();
    let client = world.server().await;
    let thread = world.thread_with(&client, json!({"ttl": 5, "strategy": "keep_latest"})).await;
    let path = format!("/threads/{thread}");
    assert_eq!(client.get(&path).await.get("ttl"), None);
    let ttl = client.get(&format!("{path}?include=ttl")).await["ttl"].clone();
    assert_eq!((&ttl["strategy"], &ttl["ttl_minutes"]), (&json!("keep_latest"), &json!(5.0)));
    let until = ttl["expires_at"].as_str().unwrap().to_owned();
    let thread_now = client.get(&path).await;
    assert!(thread_now["created_at"].as_str().is_some_and(|created| *created < *until), "{until}");
    client.post(&format!("{path}/runs/wait"), say("hi")).await;
    let copy = client.post(&format!("{path}/copy"), json!({})).await["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(client.get(&format!("/threads/{copy}?include=ttl")).await.get("ttl"), None);
    client.post(&format!("/threads/{copy}/runs/wait"), say("again")).await;
    assert!(world.store.get(&place(), &copy).await.unwrap().is_none(), "it lives for ever");
}

#[tokio::test]
async fn a_thread_with_a_run_queued_on_another_server_does_not_expire() {
    let world = World::new();
    let (first, second) = (world.server().await, world.server().await);
    let (thread, other) = (world.thread(&first, 5.0).await, world.thread(&first, 5.0).await);
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    first.post(&format!("/threads/{thread}/runs"), later).await;
    for thread in [&thread, &other] {
        world.ends(thread, json!("2026-01-01T00:00:00Z")).await;
    }
    // A new cron makes the second server check the times.
    let mut cron = say("hi");
    cron["schedule"] = json!("0 5 1 1 *");
    second.post("/runs/crons", cron).await;
    until(async || !is_there(&second, &other).await).await;
    assert!(is_there(&second, &thread).await);
}

#[tokio::test]
async fn a_run_whose_agent_no_server_has_any_more_fails_and_keeps_its_thread_from_its_end_no_longer() {
    let world = World::new();
    let server = |names: &[&str]| {
        let server = Server::new(world.journal.clone(), world.store.clone()).lease(Duration::from_millis(100));
        names.iter().fold(server, |server, name| server.agent(*name, agent(vec![], world.journal.clone())).unwrap())
    };
    let (first, end, serving) = run(server(&["agent", "elsewhere", "gone"])).await;
    let mut runs = Vec::new();
    for agent in ["elsewhere", "gone"] {
        let thread = world.thread(&first, 5.0).await;
        let due = json!({"assistant_id": agent, "input": say("hi")["input"], "after_seconds": 1});
        let made = first.post(&format!("/threads/{thread}/runs"), due).await;
        runs.push((thread, made["run_id"].as_str().unwrap().to_owned()));
    }
    end.send(()).unwrap();
    soon(serving).await.unwrap();
    let announced = ["deepagents-server", "agents"].map(str::to_owned);
    for process in world.store.search(&announced, &Query::default()).await.unwrap() {
        // As when the time of a process that does not come back is over.
        world.store.delete(&announced, &process.key).await.unwrap();
    }
    world.store.put(&announced, "another-process", json!(["elsewhere"])).await.unwrap();
    let (second, _end, _serving) = run(server(&["agent"])).await;
    let status = async |(thread, run): &(String, String)| {
        second.get(&format!("/threads/{thread}/runs/{run}")).await["status"].as_str().unwrap().to_owned()
    };
    until(async || status(&runs[1]).await == "error").await;
    assert_eq!(status(&runs[0]).await, "pending", "the process that has its agent makes it");
    for (thread, _) in &runs {
        world.ends(thread, json!("2026-01-01T00:00:00Z")).await;
    }
    let mut cron = say("hi");
    cron["schedule"] = json!("0 5 1 1 *");
    second.post("/runs/crons", cron).await;
    until(async || !is_there(&second, &runs[1].0).await).await;
    assert!(is_there(&second, &runs[0].0).await);
}

#[tokio::test]
async fn reading_an_item_with_refresh_ttl_extends_its_life() {
    let world = World::new();
    let client = world.server().await;
    let item = json!({"namespace": ["notes"], "key": "k", "value": {"x": 1}, "ttl": 60});
    assert_eq!(client.send(Method::PUT, "/store/items", &item).await.0, StatusCode::NO_CONTENT);
    let place = ["deepagents-server-store".to_owned(), "notes".to_owned()];
    let until = async || world.store.get(&place, "k").await.unwrap().unwrap().expires_at.unwrap();
    let first = until().await;
    client.get("/store/items?namespace=notes&key=k").await;
    client.post("/store/items/search", json!({"namespace_prefix": ["notes"]})).await;
    assert_eq!(until().await, first, "reading alone changes nothing");
    while until().await == first {
        assert_eq!(client.get("/store/items?namespace=notes&key=k&refresh_ttl=true").await["value"], json!({"x": 1}));
    }
    let second = until().await;
    while until().await == second {
        let search = json!({"namespace_prefix": ["notes"], "refresh_ttl": true});
        assert_eq!(client.post("/store/items/search", search).await["items"].as_array().unwrap().len(), 1);
    }
}
