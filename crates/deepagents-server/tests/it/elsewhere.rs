//! Agents that only some of the servers on a storage serve.

use std::sync::Arc;
use std::time::Duration;

use deepagents::{Journal, MemoryJournal};
use deepagents_core::store::{MemoryStore, Query, Store};
use deepagents_server::Server;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::others::holding_agent;
use crate::support::{Client, run, say, soon, until};

/// A storage, and agents that hold their calls until they are released.
struct World {
    journal: Arc<dyn Journal>,
    store: Arc<dyn Store>,
    /// Gets a permit for each held call.
    begun: Arc<Semaphore>,
}

impl World {
    fn new() -> Self {
        let (journal, store) = (Arc::new(MemoryJournal::new()), Arc::new(MemoryStore::default()));
        Self { journal, store, begun: Arc::new(Semaphore::new(0)) }
    }

    /// Builds a server for agents of these names.
    fn server(&self, names: &[&str]) -> Server {
        let server = Server::new(self.journal.clone(), self.store.clone()).lease(Duration::from_millis(500));
        names.iter().fold(server, |server, name| {
            let agent = holding_agent(self.journal.clone(), self.begun.clone(), Arc::new(Semaphore::new(0)));
            server.agent(*name, agent).unwrap()
        })
    }

    async fn serve(&self, names: &[&str]) -> Client {
        let (client, end, serving) = run(self.server(names)).await;
        // The server runs until the test ends.
        std::mem::forget(end);
        drop(serving);
        client
    }

    /// Returns the announced names of all processes.
    async fn announced(&self) -> Vec<Value> {
        let items = self.store.search(&announcements(), &Query::default()).await.unwrap();
        items.into_iter().flat_map(|item| item.value.as_array().unwrap().clone()).collect()
    }
}

fn announcements() -> [String; 2] {
    ["deepagents-server", "agents"].map(str::to_owned)
}

/// Starts a run of an agent on a new thread. Returns the paths of both.
async fn begin(client: &Client, agent: &str, body: &Value) -> (String, String) {
    let mut body = body.clone();
    body["assistant_id"] = json!(agent);
    let thread = format!("/threads/{}", client.thread().await);
    let made = client.post(&format!("{thread}/runs"), body).await;
    let path = format!("{thread}/runs/{}", made["run_id"].as_str().unwrap());
    (thread, path)
}

async fn status(client: &Client, path: &str) -> Value {
    client.get(path).await["status"].take()
}

#[tokio::test]
async fn deleting_a_thread_ends_its_runs_on_a_server_that_alone_has_their_agent() {
    let world = World::new();
    let (first, second) = (world.serve(&["one"]).await, world.serve(&["two"]).await);
    let (held, _) = begin(&second, "two", &say("hold")).await;
    soon(world.begun.acquire()).await.unwrap().forget();
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    let (waits, _) = begin(&second, "two", &later).await;
    for thread in [&held, &waits] {
        assert_eq!(first.send(Method::DELETE, thread, &json!({})).await.0, StatusCode::NO_CONTENT);
    }
    until(async || second.text_of(Method::GET, "/metrics", &json!({})).await.1.contains("deepagents_runs_open 0"))
        .await;
    for client in [&first, &second] {
        assert_eq!(client.post("/threads/search", json!({})).await, json!([]), "none has come back");
    }
}

#[tokio::test]
async fn a_thread_is_deleted_although_the_result_of_its_run_could_not_be_stored() {
    let world = World::new();
    let client = world.serve(&["agent"]).await;
    let (thread, path) = begin(&client, "agent", &say("hi")).await;
    client.get(&format!("{path}/join")).await;
    // As the storage is left if it is away for too long when the run ends.
    let (id, run) = (thread.rsplit('/').next().unwrap().to_owned(), path.rsplit('/').next().unwrap());
    let kind = |kind: &str| ["deepagents-server", kind, &id].map(str::to_owned);
    let mut record = world.store.get(&kind("runs"), run).await.unwrap().unwrap().value;
    record["status"] = json!("running");
    world.store.put(&kind("runs"), run, record).await.unwrap();
    world.store.put(&kind("open-runs"), run, json!({})).await.unwrap();
    assert_eq!(client.send(Method::DELETE, &thread, &json!({})).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.send(Method::GET, &thread, &json!({})).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_run_closed_by_a_server_that_died_before_storing_its_result_is_ended_by_the_next() {
    let world = World::new();
    let first = world.serve(&["agent"]).await;
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    for (cancel, expected) in [("interrupt", StatusCode::OK), ("rollback", StatusCode::NOT_FOUND)] {
        let (thread, path) = begin(&first, "agent", &later).await;
        let (id, run) = (thread.rsplit('/').next().unwrap().to_owned(), path.rsplit('/').next().unwrap());
        let kind = |kind: &str| ["deepagents-server", kind, &id].map(str::to_owned);
        let mut record = world.store.get(&kind("runs"), run).await.unwrap().unwrap().value;
        record["status"] = json!("interrupted");
        world.store.put(&kind("runs"), run, record).await.unwrap();
        world.store.put(&kind("open-runs"), run, json!({"cancel": cancel})).await.unwrap();
        let second = world.serve(&["agent"]).await;
        until(async || world.store.get(&kind("open-runs"), run).await.unwrap().is_none()).await;
        let (status, shown) = second.send(Method::GET, &path, &json!({})).await;
        assert_eq!(status, expected, "{shown}");
        let stored = world.store.get(&kind("runs"), run).await.unwrap();
        assert!(stored.is_none_or(|stored| stored.value["until"].is_u64()), "it has a result");
    }
}

#[tokio::test]
async fn a_run_left_by_a_server_that_stops_waits_for_one_that_has_its_agent() {
    let world = World::new();
    let running = world.server(&["one"]).start().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let first = Client::new(format!("http://{}", listener.local_addr().unwrap()));
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(running.clone().serve(listener, async move { ended.await.unwrap() }));
    running.replace_agents(world.server(&["two"])).unwrap();
    until(async || world.announced().await == [json!("two")]).await;
    // Agents that are replaced just before the server stops are announced, too.
    running.replace_agents(world.server(&["gone", "left"])).unwrap();
    let mut later = say("hi");
    later["after_seconds"] = json!(1);
    let (_, left) = begin(&first, "left", &later).await;
    let (_, gone) = begin(&first, "gone", &later).await;
    end.send(()).unwrap();
    soon(serving).await.unwrap().unwrap();
    assert_eq!(world.announced().await, [json!("gone"), json!("left")]);
    // As if no server had ever announced one of them.
    for process in world.store.search(&announcements(), &Query::default()).await.unwrap() {
        world.store.put(&announcements(), &process.key, json!(["left"])).await.unwrap();
    }
    let second = world.serve(&["one"]).await;
    until(async || status(&second, &gone).await == "error").await;
    assert_eq!(status(&second, &left).await, "pending", "it was looked at before the other one");
    let third = world.serve(&["left"]).await;
    third.get(&format!("{left}/join")).await;
    assert_eq!(status(&second, &left).await, "success");
}

#[tokio::test]
async fn a_thread_created_again_through_another_server_shows_only_its_own_history() {
    let world = World::new();
    let (first, second) = (world.serve(&["agent"]).await, world.serve(&["agent"]).await);
    let id = uuid::Uuid::now_v7().to_string();
    let thread = format!("/threads/{id}");
    let history = async |client: &Client| client.post(&format!("{thread}/history"), json!({"limit": 10})).await;
    for client in [&first, &second] {
        client.post("/threads", json!({"thread_id": id})).await;
        client.post(&format!("{thread}/runs/wait"), say("hi")).await;
        assert_eq!(history(&first).await, history(&second).await);
        assert_eq!(second.send(Method::DELETE, &thread, &json!({})).await.0, StatusCode::NO_CONTENT);
    }
}

#[tokio::test]
async fn a_thread_pruned_through_another_server_shows_what_is_left() {
    let world = World::new();
    let (first, second) = (world.serve(&["agent"]).await, world.serve(&["agent"]).await);
    let id = first.thread().await;
    let (wait, history) = (format!("/threads/{id}/runs/wait"), format!("/threads/{id}/history"));
    let read = async |client: &Client| client.post(&history, json!({"limit": 100})).await;
    for said in ["hi", "again"] {
        first.post(&wait, say(said)).await;
        let before = read(&second).await.as_array().unwrap().len();
        let latest = json!({"thread_ids": [id], "strategy": "keep_latest"});
        first.post("/threads/prune", latest).await;
        let left = read(&second).await;
        assert_eq!((left.as_array().unwrap().len(), before > 1), (1, true), "{left}");
        assert_eq!(left, read(&first).await);
    }
    first.post(&wait, say("once more")).await;
    let (all, left) = (read(&first).await, read(&second).await);
    assert_eq!(all, left);
    let count = |state: &Value| state["values"]["messages"].as_array().map_or(0, Vec::len);
    let oldest: Vec<usize> = all.as_array().unwrap().iter().rev().take(2).map(count).collect();
    assert_eq!(oldest[0], oldest[1], "what pruning kept, and the same before the next input: {all}");
    assert_eq!(read(&world.serve(&["agent"]).await).await, all);
}
