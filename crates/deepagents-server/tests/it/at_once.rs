//! Concurrent requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal};
use deepagents_core::store::Store;
use deepagents_persist::Sqlite;
use deepagents_server::{Identity, Limits, Server, StaticTokens};
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Semaphore, oneshot};

use crate::hooked::HookedStore;
use crate::others::holding_agent;
use crate::support::{Client, agent, roles, run, say, soon, until};

/// Number of concurrent requests.
const MANY: usize = 16;

type Storage = (Arc<dyn Journal>, Arc<dyn Store>);

async fn open(folder: &TempDir) -> Storage {
    let database = Arc::new(Sqlite::open(folder.path().join("server.db")).await.unwrap());
    (database.clone(), database)
}

/// Two servers on one file, whose agents hold their calls until they are released.
struct Pair {
    servers: [Client; 2],
    go: Arc<Semaphore>,
    _folder: TempDir,
}

impl Pair {
    async fn new() -> Self {
        let (folder, go) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
        let serve = async || {
            let (journal, store) = open(&folder).await;
            let agent = holding_agent(journal.clone(), Arc::new(Semaphore::new(0)), go.clone());
            run(Server::new(journal, store).agent("agent", agent).unwrap()).await.0
        };
        let servers = [serve().await, serve().await];
        Self { servers, go, _folder: folder }
    }

    /// Makes a request many times concurrently, spread over the first `servers` servers, and returns the responses.
    async fn ask(&self, servers: usize, path: &str, body: impl Fn(usize) -> Value) -> Vec<(StatusCode, Value)> {
        let servers = &self.servers[..servers];
        many(|n| {
            let (client, body) = (servers[n % servers.len()].clone(), body(n));
            async move { client.send(Method::POST, path, &body).await }
        })
        .await
    }
}

async fn many<F: Future<Output = (StatusCode, Value)>>(ask: impl Fn(usize) -> F) -> Vec<(StatusCode, Value)> {
    join_all((0..MANY).map(ask)).await
}

/// Returns the successful responses and checks that the others have the status `refusal`.
fn taken(answers: Vec<(StatusCode, Value)>, refusal: StatusCode) -> Vec<Value> {
    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| status.is_success());
    for (status, answer) in refused {
        assert_eq!(status, refusal, "{answer}");
    }
    taken.into_iter().map(|(_, answer)| answer).collect()
}

#[tokio::test]
async fn only_one_of_several_threads_created_with_the_same_id_exists() {
    let pair = Pair::new().await;
    for servers in [1, 2] {
        let id = uuid::Uuid::now_v7().to_string();
        let body = |n| json!({"thread_id": id, "metadata": {format!("k{n}"): n}});
        let made = taken(pair.ask(servers, "/threads", body).await, StatusCode::CONFLICT);
        assert_eq!(made.len(), 1, "{made:?}");
        let thread = pair.servers[0].get(&format!("/threads/{id}")).await;
        assert_eq!(thread["metadata"], made[0]["metadata"], "none of the others has left anything");
        let again = |n| json!({"thread_id": id, "if_exists": "do_nothing", "metadata": {format!("k{n}"): n}});
        assert_eq!(taken(pair.ask(servers, "/threads", again).await, StatusCode::CONFLICT).len(), MANY);
    }
}

#[tokio::test]
async fn only_one_of_several_exclusive_runs_on_a_thread_is_accepted() {
    let pair = Pair::new().await;
    for servers in [1, 2] {
        for is_new in [false, true] {
            let id = match is_new {
                false => pair.servers[0].thread().await,
                true => uuid::Uuid::now_v7().to_string(),
            };
            let mut body = say("hold");
            (body["multitask_strategy"], body["if_not_exists"]) = (json!("reject"), json!("create"));
            let place = format!("/threads/{id}/runs");
            let accepted = taken(pair.ask(servers, &place, |_| body.clone()).await, StatusCode::CONFLICT);
            assert_eq!(accepted.len(), 1, "{accepted:?}");
            pair.go.add_permits(1);
            let run = accepted[0]["run_id"].as_str().unwrap();
            let values = pair.servers[0].get(&format!("{place}/{run}/join")).await;
            assert_eq!(roles(&values), ["human", "ai", "tool", "ai"]);
        }
    }
}

#[tokio::test]
async fn concurrent_assistant_changes_are_all_kept_as_separate_versions() {
    let pair = Pair::new().await;
    let client = &pair.servers[0];
    let id = client.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].clone();
    let path = format!("/assistants/{}", id.as_str().unwrap());
    let change = |n: usize| {
        let (client, path) = (pair.servers[n % 2].clone(), path.clone());
        async move { client.send(Method::PATCH, &path, &json!({"metadata": {format!("k{n}"): n}})).await }
    };
    let changed = taken(many(change).await, StatusCode::OK);
    let mut versions: Vec<u64> = changed.iter().map(|one| one["version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), MANY, "{versions:?}");
    assert_eq!(client.get(&path).await["metadata"].as_object().unwrap().len(), MANY);
    let kept = client.post(&format!("{path}/versions"), json!({"limit": 100})).await;
    assert_eq!(kept.as_array().unwrap().len(), MANY + 1);
    // Of concurrent creations with the same id, one succeeds.
    let id = uuid::Uuid::now_v7().to_string();
    let body = |n: usize| json!({"assistant_id": id, "graph_id": "agent", "name": n.to_string()});
    let made = taken(pair.ask(2, "/assistants", body).await, StatusCode::CONFLICT);
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(client.get(&format!("/assistants/{id}")).await, made[0]);
}

#[tokio::test]
async fn concurrent_cron_changes_are_all_kept() {
    let pair = Pair::new().await;
    let mut body = say("report");
    body["schedule"] = json!("0 5 1 1 *");
    let id = pair.servers[0].post("/runs/crons", body).await["cron_id"].clone();
    let path = format!("/runs/crons/{}", id.as_str().unwrap());
    let change = |n: usize| {
        let (client, path) = (pair.servers[n % 2].clone(), path.clone());
        async move { client.send(Method::PATCH, &path, &json!({"metadata": {format!("k{n}"): n}})).await }
    };
    assert_eq!(taken(many(change).await, StatusCode::OK).len(), MANY);
    assert_eq!(pair.servers[1].get(&path).await["metadata"].as_object().unwrap().len(), MANY);
}

#[tokio::test]
async fn a_callers_run_limit_holds_for_concurrent_requests() {
    let (folder, go) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
    let serve = async || {
        let (journal, store) = open(&folder).await;
        let agent = holding_agent(journal.clone(), Arc::new(Semaphore::new(0)), go.clone());
        let limits = Limits { runs_at_once: Some(3), ..Limits::default() };
        let tokens = StaticTokens::new().token("ada's", Identity::new("ada").limits(limits));
        let server = Server::new(journal, store).agent("agent", agent).unwrap().authenticate(tokens);
        run(server).await.0.with_token("ada's")
    };
    let servers = [serve().await, serve().await];
    let ask = |n: usize| {
        let client = servers[n % 2].clone();
        async move { client.send(Method::POST, "/runs", &say("hold")).await }
    };
    let accepted = taken(many(ask).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(accepted.len(), 3, "{accepted:?}");
    let threads = servers[0].post("/threads/search", json!({"limit": 100})).await;
    assert_eq!(threads.as_array().unwrap().len(), 3, "what is refused leaves no thread");
    go.add_permits(3);
}

#[tokio::test]
async fn no_run_of_a_rejected_batch_calls_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, store) = open(&folder).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let model = ScriptedModel::rules().always(Turn::with(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Turn::text("Hello.")
    }));
    let agent = DeepAgent::builder().model(model.build()).journal(journal.clone()).build().unwrap();
    let (client, _end, _serving) = run(Server::new(journal, store).agent("agent", agent).unwrap()).await;
    let mut runs = vec![say("hi"); 30];
    runs.push(json!({"assistant_id": "nobody", "input": {}}));
    let (status, _) = client.send(Method::POST, "/runs/batch", &json!(runs)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(client.post("/threads/search", json!({})).await, json!([]));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_shutdown_breaks_off_waiting_responses_without_partial_results() {
    let (folder, begun, go) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let serve = async || {
        let (journal, store) = open(&folder).await;
        let agent = holding_agent(journal.clone(), begun.clone(), go.clone());
        run(Server::new(journal, store).agent("agent", agent).unwrap().lease(Duration::from_secs(2))).await
    };
    let (first, end, serving) = serve().await;
    let id = first.thread().await;
    let place = format!("{}/threads/{id}/runs", first.url);
    let waiting = first.http.post(format!("{place}/wait")).json(&say("hold")).send().await.unwrap();
    soon(begun.acquire()).await.unwrap().forget();
    let location = waiting.headers()["location"].to_str().unwrap().to_owned();
    let joining = first.http.get(format!("{}{location}", first.url)).send().await.unwrap();
    // These runs never get their turn.
    let queue = async || first.http.post(format!("{place}/wait")).json(&say("more")).send().await.unwrap();
    let queued = [queue().await, queue().await];
    end.send(()).unwrap();
    until(async || first.http.get(format!("{}/ok", first.url)).send().await.is_err()).await;
    go.add_permits(1);
    for body in [waiting, joining].into_iter().chain(queued) {
        let told = body.text().await;
        assert!(told.is_err(), "a body that breaks off is asked for again, and this is taken for all: {told:?}");
    }
    soon(serving).await.unwrap();
    let (second, _end, _serving) = serve().await;
    assert_eq!(roles(&second.get(&location).await), ["human", "ai", "tool", "ai"]);
}

#[tokio::test]
async fn cancelling_all_runs_does_not_make_the_server_track_other_callers_runs() {
    let folder = tempfile::tempdir().unwrap();
    let serve = async || {
        let (journal, store) = open(&folder).await;
        let agent = holding_agent(journal.clone(), Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let tokens = StaticTokens::new().token("ada's", Identity::new("ada")).token("bob's", Identity::new("bob"));
        run(Server::new(journal, store).agent("agent", agent).unwrap().authenticate(tokens)).await.0
    };
    let (first, second) = (serve().await.with_token("ada's"), serve().await);
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    first.post("/runs", later).await;
    let all = json!({"status": "all"});
    let open = async |client: &Client| {
        let (_, text) = client.text_of(Method::GET, "/metrics", &json!({})).await;
        text.lines().find_map(|line| line.strip_prefix("deepagents_runs_open ")).unwrap().to_owned()
    };
    let bob = second.with_token("bob's");
    assert_eq!(bob.send(Method::POST, "/runs/cancel", &all).await.0, StatusCode::NOT_FOUND);
    assert_eq!(open(&bob).await, "0");
}

#[tokio::test]
async fn a_delayed_run_ended_through_another_server_frees_its_thread() {
    let pair = Pair::new().await;
    let [first, second] = &pair.servers;
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    for (method, path) in [(Method::POST, "/cancel"), (Method::DELETE, "")] {
        let thread = format!("/threads/{}", first.thread().await);
        let run = first.post(&format!("{thread}/runs"), later.clone()).await["run_id"].clone();
        let path = format!("{thread}/runs/{}{path}", run.as_str().unwrap());
        assert!(second.send(method, &path, &json!({})).await.0.is_success());
        until(async || first.get(&thread).await["status"] != "busy").await;
    }
}

#[tokio::test]
async fn a_run_whose_client_disconnects_during_acceptance_is_created_completely() {
    let (journal, store): (Arc<dyn Journal>, _) = (Arc::new(MemoryJournal::new()), Arc::new(HookedStore::default()));
    let agent = agent(vec![Turn::text("Hello.")], journal.clone());
    let (client, _end, _serving) = run(Server::new(journal, store.clone()).agent("agent", agent).unwrap()).await;
    let ((reached, is_reached), (go, goes)) = (oneshot::channel(), oneshot::channel());
    store.once(|namespace| namespace.get(1).is_some_and(|kind| kind == "runs"), async move {
        reached.send(()).unwrap();
        goes.await.unwrap();
    });
    let thread = format!("/threads/{}", uuid::Uuid::now_v7());
    let mut body = say("hi");
    (body["multitask_strategy"], body["if_not_exists"]) = (json!("reject"), json!("create"));
    let (gone, path) = (client.clone(), format!("{thread}/runs"));
    let first = tokio::spawn(async move { gone.send(Method::POST, &path, &body).await });
    soon(is_reached).await.unwrap();
    first.abort();
    go.send(()).unwrap();
    until(async || client.get(&format!("{thread}/runs")).await[0]["status"] == "success").await;
    // Nothing blocks the next run.
    let mut next = say("again");
    next["multitask_strategy"] = json!("reject");
    assert!(client.send(Method::POST, &format!("{thread}/runs"), &next).await.0.is_success());
}

/// Starts a server with authentication; returns clients for the user ada and an administrator, and the store.
async fn ada_and_root() -> (Client, Client, Arc<HookedStore>) {
    let (journal, store): (Arc<dyn Journal>, _) = (Arc::new(MemoryJournal::new()), Arc::new(HookedStore::default()));
    let model = ScriptedModel::rules().always(Turn::text("Hello."));
    let agent = DeepAgent::builder().model(model.build()).journal(journal.clone()).build().unwrap();
    let tokens =
        StaticTokens::new().token("ada's", Identity::new("ada")).token("root's", Identity::new("root").admin());
    let server = Server::new(journal, store.clone()).agent("agent", agent).unwrap().authenticate(tokens);
    let (client, end, _) = run(server).await;
    std::mem::forget(end);
    (client.with_token("ada's"), client.with_token("root's"), store)
}

#[tokio::test]
async fn a_thread_that_is_deleted_as_a_run_for_it_is_accepted_is_gone() {
    let (ada, root, store) = ada_and_root().await;
    let thread = format!("/threads/{}", ada.thread().await);
    let (deletes, path) = (ada.clone(), thread.clone());
    // The run has found its thread and is about to reserve its name.
    store.once(|namespace| namespace.get(1).is_some_and(|kind| kind == "reservations"), async move {
        assert!(deletes.send(Method::DELETE, &path, &json!({})).await.0.is_success());
    });
    let mut body = say("hi");
    body["multitask_strategy"] = json!("reject");
    let (status, answer) = ada.send(Method::POST, &format!("{thread}/runs"), &body).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    assert_eq!(root.post("/threads/search", json!({})).await, json!([]));
}

#[tokio::test]
async fn a_thread_that_is_changed_as_it_is_deleted_is_gone() {
    let (ada, root, store) = ada_and_root().await;
    let thread = format!("/threads/{}", ada.thread().await);
    let (deletes, path) = (ada.clone(), thread.clone());
    store.once(|namespace| namespace.get(1).is_some_and(|kind| kind == "ttl"), async move {
        assert!(deletes.send(Method::DELETE, &path, &json!({})).await.0.is_success());
    });
    let (status, answer) = ada.send(Method::PATCH, &thread, &json!({"ttl": 5, "metadata": {"x": 1}})).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    assert_eq!(root.post("/threads/search", json!({})).await, json!([]));
}

#[tokio::test]
async fn of_threads_that_are_deleted_while_runs_for_them_come_none_is_left() {
    let (ada, root, _) = ada_and_root().await;
    for _ in 0..20 {
        let threads = join_all((0..4).map(|_| ada.thread())).await;
        join_all(threads.iter().flat_map(|id| (0..6).map(move |n| (id, n))).map(|(id, n)| {
            let (ada, thread) = (ada.clone(), format!("/threads/{id}"));
            async move {
                // When the thread is deleted, some runs have started and others are still being accepted.
                match n % 3 {
                    2 => ada.send(Method::DELETE, &thread, &json!({})).await.0,
                    _ => ada.send(Method::POST, &format!("{thread}/runs"), &say("hi")).await.0,
                }
            }
        }))
        .await;
        for id in &threads {
            ada.send(Method::DELETE, &format!("/threads/{id}"), &json!({})).await;
        }
        assert_eq!(root.post("/threads/search", json!({})).await, json!([]));
    }
    until(async || root.text_of(Method::GET, "/metrics", &json!({})).await.1.contains("deepagents_runs_open 0")).await;
    assert_eq!(root.post("/threads/search", json!({})).await, json!([]), "none has come back");
}
