//! Agents that only some of the servers on a storage serve.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deepagents::{Journal, MemoryJournal};
use deepagents_core::store::{MemoryStore, Query, Store};
use deepagents_server::{Server, WebhookPolicy};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};

use crate::hooked::{HookedStore, is_run};
use crate::others::holding_agent;
use crate::support::{Client, roles, run, say, soon, until};
use crate::webhooks::receiver;

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
        let server = server.webhooks(WebhookPolicy::default().allow_loopback());
        names.iter().fold(server, |server, name| {
            let agent = holding_agent(self.journal.clone(), self.begun.clone(), Arc::new(Semaphore::new(0)));
            server.agent(*name, agent).unwrap()
        })
    }

    /// Starts a server in a runtime of its own, so that it can be killed.
    async fn serve_apart(&self) -> (Client, Runtime) {
        let runtime = Runtime::new().unwrap();
        let server = self.server(&["agent"]);
        let (client, end, _) = runtime.spawn(run(server)).await.unwrap();
        std::mem::forget(end);
        (client, runtime)
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

/// Waits until a server has no open runs.
async fn has_no_open_runs(client: &Client) {
    until(async || client.text_of(Method::GET, "/metrics", &json!({})).await.1.contains("deepagents_runs_open 0"))
        .await;
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
    has_no_open_runs(&second).await;
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
    let (id, run) = ids(&path);
    let mut record = world.store.get(&kind("runs", id), run).await.unwrap().unwrap().value;
    record["status"] = json!("running");
    world.store.put(&kind("runs", id), run, record).await.unwrap();
    world.store.put(&kind("open-runs", id), run, json!({})).await.unwrap();
    assert_eq!(client.send(Method::DELETE, &thread, &json!({})).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.send(Method::GET, &thread, &json!({})).await.0, StatusCode::NOT_FOUND);
}

/// Returns the namespace of a kind of the server's records of a thread.
fn kind(kind: &str, thread: &str) -> [String; 3] {
    ["deepagents-server", kind, thread].map(str::to_owned)
}

/// Returns the ids of the thread and the run in a path.
fn ids(path: &str) -> (&str, &str) {
    let (thread, run) = path.trim_start_matches("/threads/").split_once("/runs/").unwrap();
    (thread, run)
}

const LONG_AGO: &str = "2026-01-01T00:00:00.000000+00:00";

/// Leaves a run as a server does that closes it at this time and is killed before it has stored the result. Returns
/// its path.
async fn left_closed(world: &World, cancel: &str, webhook: Option<&str>, at: &str) -> String {
    let (server, end, serving) = run(world.server(&["agent"])).await;
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    if let Some(webhook) = webhook {
        later["webhook"] = json!(webhook);
    }
    let (_, path) = begin(&server, "agent", &later).await;
    end.send(()).unwrap();
    soon(serving).await.unwrap();
    let (thread, run) = ids(&path);
    let mut record = world.store.get(&kind("runs", thread), run).await.unwrap().unwrap().value;
    record["status"] = json!("interrupted");
    record["updated_at"] = json!(at);
    world.store.put(&kind("runs", thread), run, record).await.unwrap();
    world.store.put(&kind("open-runs", thread), run, json!({"cancel": cancel})).await.unwrap();
    path
}

/// Waits until the result of a run is stored or the run is deleted.
async fn concluded(world: &World, path: &str) {
    let (thread, run) = ids(path);
    until(async || world.store.get(&kind("open-runs", thread), run).await.unwrap().is_none()).await;
}

/// Whether the result of a run is stored, or the run is deleted.
async fn has_result(world: &World, path: &str) -> bool {
    let (thread, run) = ids(path);
    world.store.get(&kind("runs", thread), run).await.unwrap().is_none_or(|run| run.value["until"].is_u64())
}

#[tokio::test]
async fn a_run_closed_by_a_server_that_died_before_storing_its_result_is_ended_by_the_next() {
    let world = World::new();
    for (cancel, expected) in [("interrupt", StatusCode::OK), ("rollback", StatusCode::NOT_FOUND)] {
        let path = left_closed(&world, cancel, None, LONG_AGO).await;
        let next = world.serve(&["agent"]).await;
        concluded(&world, &path).await;
        let (status, shown) = next.send(Method::GET, &path, &json!({})).await;
        assert_eq!(status, expected, "{shown}");
        assert!(has_result(&world, &path).await);
    }
}

/// The server that closed the run has already stored its webhook.
#[tokio::test]
async fn a_run_that_another_server_has_just_closed_is_left_to_it() {
    let world = World::new();
    let (url, mut received) = receiver(vec![]).await;
    // By a server whose clock is ahead, so that the time does not pass during the test.
    let young = left_closed(&world, "interrupt", Some(&url), "2999-01-01T00:00:00.000000+00:00").await;
    let (thread, run) = ids(&young);
    let webhook = json!({"url": url, "thread_id": thread, "body": {"run_id": run}});
    let webhooks = ["deepagents-server", "webhooks"].map(str::to_owned);
    world.store.put(&webhooks, run, webhook).await.unwrap();
    let old = left_closed(&world, "interrupt", None, LONG_AGO).await;
    let _first = world.serve(&["agent"]).await;
    concluded(&world, &old).await;
    let later = left_closed(&world, "interrupt", Some(&url), LONG_AGO).await;
    concluded(&world, &later).await;
    assert!(!has_result(&world, &young).await, "the server that closed it may be storing it");
    let (_, told) = soon(received.recv()).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["run_id"], ids(&later).1, "the other run is not over");
}

#[tokio::test]
async fn a_run_left_closed_is_ended_although_its_thread_has_a_subscriber() {
    let world = World::new();
    let client = world.serve(&["agent"]).await;
    let path = left_closed(&world, "interrupt", None, LONG_AGO).await;
    let _stream = client.follow(&format!("/threads/{}/stream", ids(&path).0)).await;
    concluded(&world, &path).await;
    assert!(has_result(&world, &path).await);
}

/// The second server starts while the first one stores the result.
#[tokio::test]
async fn a_run_left_closed_is_ended_by_only_one_of_several_servers() {
    let store = Arc::new(HookedStore::default());
    let world = World { store: store.clone(), ..World::new() };
    let (url, mut received) = receiver(vec![]).await;
    let path = left_closed(&world, "interrupt", Some(&url), LONG_AGO).await;
    let (storing, stored) = (oneshot::channel(), oneshot::channel());
    store.once(is_webhook, async {
        storing.0.send(()).unwrap();
        stored.1.await.unwrap();
    });
    let first = world.serve(&["agent"]).await;
    soon(storing.1).await.unwrap();
    let second = world.serve(&["agent"]).await;
    for _ in 0..20 {
        assert_eq!(status(&second, &path).await, "interrupted");
    }
    stored.0.send(()).unwrap();
    concluded(&world, &path).await;
    for client in [&first, &second] {
        has_no_open_runs(client).await;
    }
    let webhooks = ["deepagents-server", "webhooks"].map(str::to_owned);
    until(async || store.search(&webhooks, &Query::default()).await.unwrap().is_empty()).await;
    soon(received.recv()).await.unwrap();
    assert!(received.try_recv().is_err(), "it is told once");
}

fn is_webhook(namespace: &[String]) -> bool {
    namespace.get(1).is_some_and(|kind| kind == "webhooks")
}

/// Kills a server: its runtime ends wherever its tasks are.
async fn kill(server: Runtime) {
    soon(tokio::task::spawn_blocking(move || server.shutdown_timeout(Duration::from_secs(60)))).await.unwrap();
}

/// The first server cannot delete the run that is to be undone, and is killed meanwhile.
#[tokio::test]
async fn a_run_that_is_to_be_undone_when_its_server_is_killed_is_undone_by_the_next() {
    let store = Arc::new(HookedStore::default());
    let world = World { store: store.clone(), ..World::new() };
    let (first, killed) = world.serve_apart().await;
    let (thread, held) = begin(&first, "agent", &say("hold")).await;
    soon(world.begun.acquire()).await.unwrap().forget();
    store.stuck.store(usize::MAX, Ordering::Relaxed);
    let mut instead = say("instead");
    instead["multitask_strategy"] = json!("rollback");
    let made = first.post(&format!("{thread}/runs"), instead).await;
    kill(killed).await;
    store.stuck.store(0, Ordering::Relaxed);
    let second = world.serve(&["agent"]).await;
    let values = second.get(&format!("{thread}/runs/{}/join", made["run_id"].as_str().unwrap())).await;
    assert_eq!(values["messages"][1]["content"], "You said instead.", "{values}");
    assert_eq!(roles(&values), ["human", "ai"]);
    assert_eq!(second.send(Method::GET, &held, &json!({})).await.0, StatusCode::NOT_FOUND);
}

/// The first server is killed after its client has left and before the end of the run is stored.
#[tokio::test]
async fn a_run_that_its_client_has_left_does_not_come_back_after_a_kill() {
    let store = Arc::new(HookedStore::default());
    let world = World { store: store.clone(), ..World::new() };
    let (first, killed) = world.serve_apart().await;
    let thread = format!("/threads/{}", first.thread().await);
    let mut body = say("hold");
    body["on_disconnect"] = json!("cancel");
    let stream = first.begin(&format!("{thread}/runs/stream"), &body).await;
    soon(world.begun.acquire()).await.unwrap().forget();
    let (hangs, hung) = oneshot::channel();
    store.once(is_run, async {
        hangs.send(()).unwrap();
        std::future::pending().await
    });
    drop(stream);
    soon(hung).await.unwrap();
    kill(killed).await;
    let second = world.serve(&["agent"]).await;
    let run = second.get(&format!("{thread}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
    second.get(&format!("{thread}/runs/{run}/join")).await;
    assert_eq!(status(&second, &format!("{thread}/runs/{run}")).await, "interrupted");
}

/// The storage fails just when the server asks whether the cancelled run has begun elsewhere.
#[tokio::test]
async fn a_begun_run_of_another_server_is_undone_before_the_runs_behind_it() {
    let store = Arc::new(HookedStore::default());
    let world = World { store: store.clone(), ..World::new() };
    let client = world.serve(&["agent"]).await;
    let (thread, held) = begin(&client, "agent", &say("hold")).await;
    soon(world.begun.acquire()).await.unwrap().forget();
    // As if another server had begun a run.
    let (id, run) = ids(&held);
    let mut record = world.store.get(&kind("runs", id), run).await.unwrap().unwrap().value;
    let begun = uuid::Uuid::now_v7().to_string();
    record["run_id"] = json!(begun);
    record["from"] = json!(0);
    world.store.put(&kind("open-runs", id), &begun, json!({})).await.unwrap();
    world.store.put(&kind("runs", id), &begun, record).await.unwrap();
    let path = format!("{thread}/runs/{begun}");
    let failing = store.clone();
    let is_index = |namespace: &[String]| namespace.get(1).is_some_and(|kind| kind == "open-runs");
    store.once(is_index, async move { failing.unread.store(1, Ordering::Relaxed) });
    client.post(&format!("{path}/cancel?action=rollback"), json!({})).await;
    until(async || store.unread.load(Ordering::Relaxed) == 0).await;
    let behind = client.post(&format!("{thread}/runs"), say("hi")).await["run_id"].as_str().unwrap().to_owned();
    client.post(&format!("{held}/cancel?wait=1"), json!({})).await;
    client.get(&format!("{thread}/runs/{behind}/join")).await;
    until(async || client.send(Method::GET, &path, &json!({})).await.0 == StatusCode::NOT_FOUND).await;
    assert_eq!(roles(&client.get(&format!("{thread}/state")).await["values"]), ["human", "ai"]);
}

/// The clock of the server that began the run was ahead.
#[tokio::test]
async fn a_run_that_has_begun_is_resumed_although_it_is_not_due_by_this_clock() {
    let world = World::new();
    let (first, killed) = world.serve_apart().await;
    let (_, path) = begin(&first, "agent", &say("hold")).await;
    soon(world.begun.acquire()).await.unwrap().forget();
    kill(killed).await;
    let (thread, run) = ids(&path);
    let mut record = world.store.get(&kind("runs", thread), run).await.unwrap().unwrap().value;
    record["kwargs"]["after_seconds"] = json!(3600);
    world.store.put(&kind("runs", thread), run, record).await.unwrap();
    let second = world.serve(&["agent"]).await;
    second.get(&format!("{path}/join")).await;
    assert_eq!(status(&second, &path).await, "success");
}

/// Deletes the run while its result is being stored.
#[tokio::test]
async fn a_run_deleted_just_after_it_was_cancelled_does_not_come_back() {
    let store = Arc::new(HookedStore::default());
    let world = World { store: store.clone(), ..World::new() };
    let (client, other) = (world.serve(&["agent"]).await, world.serve(&["agent"]).await);
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    later["webhook"] = json!("http://127.0.0.1:9/hook");
    for deleting in [&client, &other] {
        let (_, path) = begin(&client, "agent", &later).await;
        let (storing, stored) = (oneshot::channel(), oneshot::channel());
        store.once(is_webhook, async {
            storing.0.send(()).unwrap();
            stored.1.await.unwrap();
        });
        client.post(&format!("{path}/cancel"), json!({})).await;
        soon(storing.1).await.unwrap();
        let nothing = json!({});
        let deleted = deleting.send(Method::DELETE, &path, &nothing);
        let meanwhile = async {
            for _ in 0..20 {
                client.get(&path).await;
            }
            stored.0.send(()).unwrap();
        };
        let (deleted, ()) = tokio::join!(deleted, meanwhile);
        assert_eq!(deleted.0, StatusCode::NO_CONTENT, "{}", deleted.1);
        has_no_open_runs(&client).await;
        assert_eq!(client.send(Method::GET, &path, &json!({})).await.0, StatusCode::NOT_FOUND);
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

/// Starts a run on another server while the first one is accepting one for the same thread. Returns the paths of the
/// first run and of the other.
async fn at_the_same_time(strategy: Option<&str>) -> (Client, String, String) {
    let store = Arc::new(HookedStore::default());
    let world = World { store: store.clone(), ..World::new() };
    let (first, other) = (world.serve(&["agent"]).await, world.serve(&["agent"]).await);
    let thread = format!("/threads/{}", first.thread().await);
    let (made, mut hold, begun) = (oneshot::channel(), say("hold"), world.begun.clone());
    if let Some(strategy) = strategy {
        hold["multitask_strategy"] = json!(strategy);
    }
    let is_index = |namespace: &[String]| namespace.get(1).is_some_and(|kind| kind == "open-runs");
    let runs = format!("{thread}/runs");
    let (path, client) = (runs.clone(), other.clone());
    store.once(is_index, async move {
        made.0.send(client.post(&path, hold).await["run_id"].as_str().unwrap().to_owned()).unwrap();
        soon(begun.acquire()).await.unwrap().forget();
    });
    let mut instead = say("instead");
    instead["multitask_strategy"] = json!(strategy.unwrap_or("interrupt"));
    let own = first.post(&runs, instead).await["run_id"].as_str().unwrap().to_owned();
    (other, format!("{runs}/{own}"), format!("{runs}/{}", soon(made.1).await.unwrap()))
}

#[tokio::test]
async fn a_run_that_another_server_accepts_at_the_same_time_is_ended_by_one_that_takes_its_place() {
    let (client, own, held) = at_the_same_time(None).await;
    client.get(&format!("{own}/join")).await;
    assert_eq!((status(&client, &held).await, status(&client, &own).await), (json!("interrupted"), json!("success")));
}

#[tokio::test]
async fn of_two_runs_that_take_each_others_place_on_two_servers_only_the_later_one_goes_on() {
    let (client, own, held) = at_the_same_time(Some("interrupt")).await;
    until(async || status(&client, &own).await == "interrupted").await;
    assert_eq!(status(&client, &held).await, "running");
    let (client, own, held) = at_the_same_time(Some("rollback")).await;
    until(async || client.send(Method::GET, &own, &json!({})).await.0 == StatusCode::NOT_FOUND).await;
    assert_eq!(status(&client, &held).await, "running");
}

#[tokio::test]
async fn a_thread_stream_has_the_runs_of_all_servers_in_the_order_of_the_log() {
    let world = World::new();
    let (first, second) = (world.serve(&["agent"]).await, world.serve(&["agent"]).await);
    let thread = format!("/threads/{}", first.thread().await);
    for round in 0..3 {
        let mut stream = second.follow(&format!("{thread}/stream?stream_mode=run_modes")).await;
        for client in [&first, &second] {
            client.post(&format!("{thread}/runs/wait"), say(&format!("round {round}"))).await;
        }
        let runs = second.get(&format!("{thread}/runs")).await;
        let expected = [&runs[1]["run_id"], &runs[0]["run_id"]];
        let mut done = Vec::new();
        while done.last() != Some(expected[1]) {
            let (_, data) = soon(stream.next()).await;
            if data["status"] == "run_done" {
                done.push(data["run_id"].clone());
            }
        }
        assert_eq!(done[done.len() - 2..].iter().collect::<Vec<_>>(), expected, "{done:?}");
    }
}
