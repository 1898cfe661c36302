//! A Postgres server that is cut off, silent, or restarted while a server works with it.
#![allow(clippy::disallowed_methods, reason = "the server that the environment names, and one of the test's own")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use deepagents::Journal;
use deepagents_core::store::Store;
use deepagents_persist::PostgresOptions;
use deepagents_server::Server;
use deepagents_testing::skip::skip;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::others::holding_agent;
use crate::storage::{are_unavailable, everything, filled};
use crate::support::{Client, roles, run, say, soon, until};

/// The state of the connection to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Open,
    /// Nothing comes through, and neither side is notified.
    Silent,
    /// Connections are closed, and new ones fail.
    Closed,
}

/// A proxy to the database that can be cut.
struct Line {
    url: String,
    way: watch::Sender<Link>,
}

impl Line {
    async fn new(url: &str) -> Self {
        let server = url.split(['@', '/']).find(|part| part.contains(':') && !part.ends_with(':')).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = url.replace(&server, &listener.local_addr().unwrap().to_string());
        let (way, seen) = watch::channel(Link::Open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, server.clone(), seen.clone()));
            }
        });
        Self { url, way }
    }
}

async fn connect(client: TcpStream, server: String, way: watch::Receiver<Link>) {
    if *way.borrow() == Link::Closed {
        return;
    }
    let server = TcpStream::connect(server).await.unwrap();
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let mut ends = way.clone();
    let closed = async {
        // The sender lives as long as the test.
        let _ = ends.wait_for(|way| *way == Link::Closed).await;
    };
    let (there, here) = (pass_on(from_client, to_server, &way), pass_on(from_server, to_client, &way));
    tokio::select! {
        () = there => {}
        () = here => {}
        () = closed => {}
    }
}

/// Forwards data while the link is open, and holds it back while the link is silent.
fn pass_on(
    from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    way: &watch::Receiver<Link>,
) -> impl Future<Output = ()> + use<> {
    let mut way = way.clone();
    async move {
        let mut bytes = vec![0; 1 << 16];
        while from.readable().await.is_ok() {
            let count = match from.try_read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            if way.wait_for(|way| *way != Link::Silent).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    }
}

const SHORT: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);

/// Work in progress during an outage, to be checked after it.
struct Outage {
    client: Client,
    go: Arc<Semaphore>,
    thread: String,
    writes: Vec<(Method, String, Value)>,
    before: Value,
    held: String,
    waits: String,
}

impl Outage {
    /// Starts a server with a held run and another one queued behind it.
    async fn new(url: &str) -> Self {
        Self::with_lease(url, LEASE).await
    }

    async fn with_lease(url: &str, lease: Duration) -> Self {
        let schema = format!("outages_{}", uuid::Uuid::now_v7().simple());
        let options = PostgresOptions {
            schema: schema.clone(),
            connections: 8,
            statement_timeout: SHORT,
            acquire_timeout: SHORT,
            connect_timeout: SHORT,
            ..PostgresOptions::default()
        };
        let database = Arc::new(options.connect(url).await.unwrap());
        let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
        let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let agent = holding_agent(journal.clone(), begun.clone(), go.clone());
        let (client, end, serving) = run(Server::new(journal, store).agent("agent", agent).unwrap().lease(lease)).await;
        // The server runs until the test ends.
        std::mem::forget(end);
        drop(serving);
        let (thread, writes) = filled(&client).await;
        let before = everything(&client, &thread).await;
        let other = format!("/threads/{}/runs", client.thread().await);
        let mut paths = Vec::new();
        for text in ["hold", "next"] {
            let made = client.post(&other, say(text)).await;
            paths.push(format!("{other}/{}", made["run_id"].as_str().unwrap()));
        }
        soon(begun.acquire()).await.unwrap().forget();
        let (waits, held) = (paths.pop().unwrap(), paths.pop().unwrap());
        Self { client, go, thread, writes, before, held, waits }
    }

    /// Checks, during the outage, that each request gets a temporary error. The held run continues meanwhile.
    async fn is_told(&self) {
        self.go.add_permits(1);
        are_unavailable(&self.client, &self.writes).await;
        let reads = ["state", "history", "runs"].map(|path| format!("/threads/{}/{path}", self.thread));
        let reads: Vec<_> = reads.into_iter().map(|path| (Method::GET, path, json!({}))).collect();
        are_unavailable(&self.client, &reads).await;
    }

    /// Checks, after the outage, that nothing was half done and that the accepted runs complete.
    async fn ends(self) {
        for path in [&self.held, &self.waits] {
            // Some pooled connections may still be broken.
            until(async || {
                self.client.send(Method::GET, &format!("{path}/join"), &json!({})).await.0 == StatusCode::OK
            })
            .await;
            let ended = self.client.get(path).await;
            assert_eq!(ended["status"], "success", "{ended}");
        }
        let (other, _) = self.held.split_once("/runs/").unwrap();
        let state = self.client.get(&format!("{other}/state")).await;
        assert_eq!(roles(&state["values"]), ["human", "ai", "tool", "ai", "human", "ai"]);
        let mut after = everything(&self.client, &self.thread).await;
        let threads = after["threads"].as_array_mut().unwrap();
        threads.retain(|thread| thread["thread_id"] == *self.thread);
        assert_eq!(after, self.before);
        let values = self.client.post(&format!("/threads/{}/runs/wait", self.thread), say("hi")).await;
        assert_eq!(roles(&values), ["human", "ai", "human", "ai"]);
    }
}

fn url() -> Option<String> {
    let url = std::env::var("DEEPAGENTS_TEST_POSTGRES").ok();
    if url.is_none() {
        skip("postgres", "DEEPAGENTS_TEST_POSTGRES names no server; .ci/postgres.sh starts one");
    }
    url
}

async fn cut(way: Link) {
    let Some(url) = url() else { return };
    let line = Line::new(&url).await;
    let outage = Outage::new(&line.url).await;
    line.way.send_replace(way);
    outage.is_told().await;
    line.way.send_replace(Link::Open);
    outage.ends().await;
}

#[tokio::test]
async fn requests_get_503_while_postgres_is_unreachable_and_service_then_recovers() {
    Box::pin(cut(Link::Closed)).await;
}

#[tokio::test]
async fn requests_get_503_while_postgres_is_silent_and_service_then_recovers() {
    Box::pin(cut(Link::Silent)).await;
}

/// The held run loses its thread, but nobody has cancelled it.
#[tokio::test]
async fn a_postgres_outage_longer_than_a_lease_ends_no_run() {
    let Some(url) = url() else { return };
    let line = Line::new(&url).await;
    let outage = Outage::with_lease(&line.url, SHORT).await;
    line.way.send_replace(Link::Closed);
    let cut = std::time::Instant::now();
    while cut.elapsed() < SHORT * 4 {
        are_unavailable(&outage.client, &outage.writes).await;
    }
    line.way.send_replace(Link::Open);
    Box::pin(outage.ends()).await;
}

fn postgres(action: &str, folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/postgres.sh");
    // The database server inherits standard output, so a pipe would never close. Use a file.
    let out = folder.with_extension(action);
    let file = std::fs::File::create(&out).unwrap();
    let done = Command::new("bash").arg(script).arg(action).arg(folder).stdout(file).status().unwrap();
    assert!(done.success(), "{action}");
    std::fs::read_to_string(out).unwrap().trim().to_owned()
}

/// A separate Postgres server, stopped on drop.
struct Own(std::path::PathBuf);

impl Drop for Own {
    fn drop(&mut self) {
        postgres("stop", &self.0);
    }
}

async fn restarted(how: &str) {
    if url().is_none() {
        return;
    }
    let place = tempfile::Builder::new().prefix("outage").tempdir().unwrap();
    // The database's own user must be able to traverse it.
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let folder = place.path().join("postgres");
    let url = postgres("start", &folder);
    let own = Own(folder.clone());
    let outage = Outage::new(&url).await;
    postgres(how, &folder);
    outage.is_told().await;
    assert_eq!(postgres("again", &folder), url);
    outage.ends().await;
    drop(own);
}

#[tokio::test]
async fn a_server_recovers_by_itself_after_a_postgres_restart() {
    Box::pin(restarted("stop")).await;
}

#[tokio::test]
async fn a_server_recovers_by_itself_after_postgres_is_killed_and_restarted() {
    Box::pin(restarted("kill")).await;
}
