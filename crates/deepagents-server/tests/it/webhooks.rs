//! Webhooks that report the end of a run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::post;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal};
use deepagents_core::store::{MemoryStore, Query, Store};
use deepagents_server::{Server, WebhookPolicy};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::{Mutex, Semaphore, mpsc};

use crate::hooked::HookedStore;
use crate::others::holding_agent;
use crate::support::{Client, agent, run, say, server, soon, until};

pub(crate) type Told = (HeaderMap, String);

#[derive(Clone)]
struct Receiver {
    told: mpsc::UnboundedSender<Told>,
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> StatusCode {
    receiver.told.send((headers, body)).unwrap();
    receiver.answers.lock().await.pop().unwrap_or(StatusCode::OK)
}

/// Starts a receiver that responds with these statuses, last one first, and then accepts everything.
pub(crate) async fn receiver(answers: Vec<StatusCode>) -> (String, mpsc::UnboundedReceiver<Told>) {
    let (told, received) = mpsc::unbounded_channel();
    let state = Receiver { told, answers: Arc::new(Mutex::new(answers)) };
    let router = axum::Router::new().route("/hook", post(take)).with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, received)
}

/// Returns the seconds and the bytes of a signature.
fn signed(header: &str) -> (&str, Vec<u8>) {
    let (seconds, digits) = header.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).unwrap();
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2).unwrap(), 16).unwrap();
    (seconds, (0..digits.len()).step_by(2).map(byte).collect())
}

#[tokio::test]
async fn a_webhook_has_the_values_and_a_signature_and_is_retried_on_failure() {
    let policy = WebhookPolicy::default().allow_loopback().secret("s3cret");
    let (client, _end, _serving) = run(server(vec![Turn::text("Hello.")]).webhooks(policy)).await;
    let (url, mut received) = receiver(vec![StatusCode::INTERNAL_SERVER_ERROR]).await;
    let id = client.thread().await;
    let mut body = say("hi");
    body["webhook"] = json!(url);
    let made = client.post(&format!("/threads/{id}/runs"), body).await;
    let (headers, first) = soon(received.recv()).await.unwrap();
    let (seconds, digest) = signed(headers["x-deepagents-signature"].to_str().unwrap());
    let mut mac = Hmac::<Sha256>::new_from_slice(b"s3cret").unwrap();
    mac.update(format!("{seconds}.{first}").as_bytes());
    mac.verify_slice(&digest).unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    assert!(first.get("error").is_none(), "a run that did not fail has no error: {first}");
    assert_eq!((&first["run_id"], &first["status"]), (&made["run_id"], &json!("success")));
    assert_eq!(first["values"]["messages"][1]["content"], "Hello.");
    let (_, second) = soon(received.recv()).await.unwrap();
    let second: Value = serde_json::from_str(&second).unwrap();
    assert_eq!(first["run_id"], second["run_id"]);
}

#[tokio::test]
async fn a_webhook_that_could_not_be_stored_at_once_is_sent_once() {
    let (journal, store): (Arc<dyn Journal>, _) = (Arc::new(MemoryJournal::new()), Arc::new(HookedStore::default()));
    let agent = agent(vec![Turn::text("Hello.")], journal.clone());
    let server = Server::new(journal, store.clone()).agent("agent", agent).unwrap();
    let policy = WebhookPolicy::default().allow_loopback();
    let (client, _end, _serving) = run(server.webhooks(policy)).await;
    let (url, mut received) = receiver(vec![]).await;
    store.stuck.store(1, Ordering::Relaxed);
    begin(&client, &url).await;
    soon(received.recv()).await.unwrap();
    let webhooks = ["deepagents-server".to_owned(), "webhooks".to_owned()];
    until(async || {
        client.post("/threads/search", json!({})).await == json!([])
            && store.search(&webhooks, &Query::default()).await.unwrap().is_empty()
    })
    .await;
    assert!(received.try_recv().is_err());
}

/// The run waits behind another one, so its record is closed first. The storage then answers with an error.
#[tokio::test]
async fn a_run_cancelled_before_its_turn_ends_once_if_the_storage_fails_to_confirm_it() {
    let (journal, store): (Arc<dyn Journal>, _) = (Arc::new(MemoryJournal::new()), Arc::new(HookedStore::default()));
    let begun = Arc::new(Semaphore::new(0));
    let agent = holding_agent(journal.clone(), begun.clone(), Arc::new(Semaphore::new(0)));
    let server = Server::new(journal, store.clone()).agent("agent", agent).unwrap();
    let (client, _end, _serving) = run(server.webhooks(WebhookPolicy::default().allow_loopback())).await;
    let (url, mut received) = receiver(vec![]).await;
    let thread = client.thread().await;
    let runs = format!("/threads/{thread}/runs");
    let held = client.post(&runs, say("hold")).await["run_id"].clone();
    soon(begun.acquire()).await.unwrap().forget();
    let mut body = say("never");
    body["webhook"] = json!(url);
    let waiting = async |action: &str| {
        let run = client.post(&runs, body.clone()).await["run_id"].clone();
        let path = format!("{runs}/{}", run.as_str().unwrap());
        store.unanswered.store(1, Ordering::Relaxed);
        client.post(&format!("{path}/cancel?wait=1&action={action}"), json!({})).await;
        assert_eq!(store.unanswered.load(Ordering::Relaxed), 0);
        client.send(Method::GET, &path, &json!({})).await
    };
    let (_, interrupted) = waiting("interrupt").await;
    let (_, told) = soon(received.recv()).await.unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["run_id"], &told["status"]), (&interrupted["run_id"], &json!("interrupted")));
    assert_eq!(waiting("rollback").await.0, StatusCode::NOT_FOUND);
    let open = ["deepagents-server", "open-runs", &thread].map(str::to_owned);
    let open = store.search(&open, &Query::default()).await.unwrap();
    assert_eq!(open.iter().map(|item| json!(item.key)).collect::<Vec<_>>(), [held]);
    assert!(received.try_recv().is_err());
}

/// Starts a receiver that responds when released. Returns its port and the bodies it receives.
async fn holding_receiver(go: Arc<Semaphore>) -> (u16, mpsc::UnboundedReceiver<Value>) {
    let (told, received) = mpsc::unbounded_channel();
    let hold = move |body: String| {
        let (told, go) = (told.clone(), go.clone());
        async move {
            told.send(serde_json::from_str(&body).unwrap()).unwrap();
            go.acquire().await.unwrap().forget();
        }
    };
    let router = axum::Router::new().route("/hook", post(hold));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (port, received)
}

/// A storage shared by servers.
struct World {
    journal: Arc<dyn Journal>,
    store: Arc<dyn Store>,
}

impl World {
    fn new() -> Self {
        Self { journal: Arc::new(MemoryJournal::new()), store: Arc::new(MemoryStore::default()) }
    }

    async fn server(&self) -> Client {
        let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
        let agent = DeepAgent::builder().model(model).journal(self.journal.clone()).build().unwrap();
        let server = Server::new(self.journal.clone(), self.store.clone()).agent("agent", agent).unwrap();
        let server = server.webhooks(WebhookPolicy::default().allow_loopback()).lease(Duration::from_secs(1));
        let (client, end, serving) = run(server).await;
        // The servers run until the test ends.
        std::mem::forget(end);
        drop(serving);
        client
    }
}

async fn begin(client: &Client, url: &str) -> Value {
    let mut body = say("hi");
    body["webhook"] = json!(url);
    client.post("/runs", body).await["run_id"].clone()
}

#[tokio::test]
async fn a_webhook_being_sent_by_one_server_is_not_sent_by_another() {
    let (world, go) = (World::new(), Arc::new(Semaphore::new(0)));
    let (port, mut received) = holding_receiver(go.clone()).await;
    let url = format!("http://127.0.0.1:{port}/hook");
    let run = begin(&world.server().await, &url).await;
    assert_eq!(soon(received.recv()).await.unwrap()["run_id"], run);
    let second = world.server().await;
    for _ in 0..3 {
        let run = begin(&second, &url).await;
        assert_eq!(soon(received.recv()).await.unwrap()["run_id"], run, "each once");
    }
    go.add_permits(4);
    let webhooks = ["deepagents-server".to_owned(), "webhooks".to_owned()];
    until(async || world.store.search(&webhooks, &Query::default()).await.unwrap().is_empty()).await;
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn pending_webhooks_of_a_dead_server_are_sent_by_a_live_one() {
    let world = World::new();
    let (url, mut received) = receiver(vec![]).await;
    let client = world.server().await;
    // This is what a server leaves behind that was killed between two attempts.
    let webhooks = ["deepagents-server".to_owned(), "webhooks".to_owned()];
    let what = json!({
        "url": url, "thread_id": uuid::Uuid::now_v7().to_string(), "body": {"run_id": "of another"},
        "tries": {"made": 1, "under_way": false, "until": "2026-01-01T00:00:00.000000+00:00"},
    });
    world.store.put(&webhooks, &uuid::Uuid::now_v7().to_string(), what).await.unwrap();
    let (_, told) = soon(received.recv()).await.unwrap();
    assert!(told.contains("of another"), "{told}");
    drop(client);
}

#[tokio::test]
async fn an_unresponsive_webhook_receiver_delays_no_other() {
    let (world, go) = (World::new(), Arc::new(Semaphore::new(0)));
    let (port, mut received) = holding_receiver(go.clone()).await;
    let client = world.server().await;
    // One host, however its address is written.
    for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1"].repeat(10) {
        begin(&client, &format!("http://{host}:{port}/hook")).await;
    }
    let (other, mut answered) = receiver(vec![]).await;
    let other = other.replace("127.0.0.1", "localhost");
    let run = begin(&client, &other).await;
    let (_, told) = soon(answered.recv()).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["run_id"], run);
    let mut held = 0;
    while received.try_recv().is_ok() {
        held += 1;
    }
    assert!(held <= 8, "{held} at once");
    go.add_permits(40);
}
