//! A database that is locked, full or unavailable, and two servers on one database.
#![allow(clippy::disallowed_methods, reason = "files that tools leave, and the server that the environment names")]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, tool_fn};
use deepagents_core::store::Store;
use deepagents_persist::{PostgresOptions, Sqlite, SqliteOptions};
use deepagents_server::Server;
use deepagents_testing::skip::skip;
use reqwest::{Method, StatusCode};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kills::noting_agent;
use crate::support::{Client, Nothing, agent, roles, run, say, soon};

async fn open(folder: &Path) -> Arc<Sqlite> {
    let options = SqliteOptions { wait: Duration::from_millis(50), ..SqliteOptions::default() };
    Arc::new(options.open(folder.join("server.db")).await.unwrap())
}

/// Locks the database for writing until the connection is dropped.
fn lock(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join("server.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// A small separate disk.
struct Disk(tempfile::TempDir);

impl Disk {
    /// Mounts a disk, if this process may.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        skip("mounts", "no disk can be mounted");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the disk, including the space in the WAL.
    fn fill(&self) {
        let connection = Connection::open(self.path().join("server.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0, "somebody else uses the database");
        let mut file = std::fs::File::create(self.path().join("other")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path().join("other")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Returns everything that a client can see, except for times.
pub(crate) async fn everything(client: &Client, thread: &str) -> Value {
    let mut out = json!({});
    for (name, path) in [
        ("threads", "/threads/search"),
        ("assistants", "/assistants/search"),
        ("crons", "/runs/crons/search"),
        ("items", "/store/items/search"),
    ] {
        out[name] = client.post(path, json!({"limit": 100})).await;
    }
    for path in ["state", "history", "runs"] {
        out[path] = client.get(&format!("/threads/{thread}/{path}")).await;
    }
    out
}

type Request = (Method, String, Value);

/// Creates a thread with a run, an assistant, a cron and an item. Returns the thread, and one request for each kind of
/// change.
pub(crate) async fn filled(client: &Client) -> (String, Vec<Request>) {
    let thread = client.thread().await;
    let place = format!("/threads/{thread}");
    client.post(&format!("{place}/runs/wait"), say("hi")).await;
    let done = client.get(&format!("{place}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
    let assistant = client.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].clone();
    let assistant = format!("/assistants/{}", assistant.as_str().unwrap());
    let mut cron = say("again");
    cron["schedule"] = json!("0 5 1 1 *");
    let made = client.post("/runs/crons", cron.clone()).await["cron_id"].clone();
    let made = format!("/runs/crons/{}", made.as_str().unwrap());
    let item = json!({"namespace": ["notes"], "key": "k", "value": {"x": 1}});
    client.send(Method::PUT, "/store/items", &item).await;
    let writes = vec![
        (Method::POST, "/threads".to_owned(), json!({"metadata": {"a": 1}, "ttl": 5})),
        (Method::PATCH, place.clone(), json!({"metadata": {"a": 1}, "ttl": 5})),
        (Method::DELETE, place.clone(), json!({})),
        (Method::POST, format!("{place}/copy"), json!({})),
        (Method::POST, format!("{place}/state"), json!({"values": {"messages": [{"role": "user", "content": "x"}]}})),
        (Method::POST, "/threads/prune".to_owned(), json!({"thread_ids": [thread]})),
        (Method::POST, format!("{place}/runs"), say("x")),
        (Method::POST, format!("{place}/runs/wait"), say("x")),
        (Method::POST, format!("{place}/runs/stream"), say("x")),
        (Method::DELETE, format!("{place}/runs/{done}"), json!({})),
        (Method::POST, format!("{place}/runs/crons"), cron.clone()),
        (Method::POST, "/runs".to_owned(), say("x")),
        (Method::POST, "/runs/wait".to_owned(), say("x")),
        (Method::POST, "/runs/stream".to_owned(), say("x")),
        (Method::POST, "/runs/batch".to_owned(), json!([say("x"), say("y")])),
        (Method::POST, "/runs/crons".to_owned(), cron),
        (Method::PATCH, made.clone(), json!({"enabled": false})),
        (Method::DELETE, made, json!({})),
        (Method::POST, "/assistants".to_owned(), json!({"graph_id": "agent"})),
        (Method::PATCH, assistant.clone(), json!({"name": "x"})),
        (Method::POST, format!("{assistant}/latest"), json!({"version": 1})),
        (Method::DELETE, assistant, json!({})),
        (Method::PUT, "/store/items".to_owned(), json!({"namespace": ["notes"], "key": "k", "value": {"x": 2}})),
        (Method::DELETE, "/store/items".to_owned(), json!({"namespace": ["notes"], "key": "k"})),
    ];
    (thread, writes)
}

/// Checks that each request gets a temporary error.
pub(crate) async fn are_unavailable(client: &Client, requests: &[Request]) {
    for (method, path, body) in requests {
        let request = client.http.request(method.clone(), format!("{}{path}", client.url)).json(body);
        let answer = request.send().await.unwrap();
        let (status, retry) = (answer.status(), answer.headers().contains_key("retry-after"));
        let text = answer.text().await.unwrap();
        assert_eq!((status, retry), (StatusCode::SERVICE_UNAVAILABLE, true), "{method} {path}: {text}");
    }
}

#[tokio::test]
async fn writes_get_503_while_the_database_is_locked_and_none_is_partial() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path()).await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let agent = agent(vec![Turn::text("Hello."), Turn::text("Again.")], journal.clone());
    let client = run(Server::new(journal, store).agent("agent", agent).unwrap()).await.0;
    let (thread, writes) = filled(&client).await;
    let place = format!("/threads/{thread}");
    let before = everything(&client, &thread).await;
    let locked = lock(folder.path());
    are_unavailable(&client, &writes).await;
    let stream =
        json!({"id": 1, "method": "run.start", "params": {"assistant_id": "agent", "input": say("x")["input"]}});
    let command = client.send(Method::POST, &format!("{place}/commands"), &stream).await;
    assert!(command.0 == StatusCode::SERVICE_UNAVAILABLE || command.1["type"] == "error", "{command:?}");
    drop(locked);
    assert_eq!(everything(&client, &thread).await, before);
    let values = client.post(&format!("{place}/runs/wait"), say("hi")).await;
    assert_eq!(roles(&values), ["human", "ai", "human", "ai"]);
}

/// Builds an agent whose first call reports that it has started and then waits.
fn holding_agent(journal: Arc<dyn Journal>, begun: &Arc<Notify>, go: &Arc<Notify>) -> DeepAgent {
    let (begun, go) = (begun.clone(), go.clone());
    let hold = tool_fn("hold", "Waits.", move |_: Nothing, _cx| {
        let (begun, go) = (begun.clone(), go.clone());
        async move {
            begun.notify_one();
            go.notified().await;
            Ok("held".to_owned())
        }
    });
    let turns = [Turn::call("hold", json!({})), Turn::text("Done."), Turn::text("Next.")];
    DeepAgent::builder().model(ScriptedModel::new(turns)).journal(journal).tool(hold).build().unwrap()
}

#[tokio::test]
async fn runs_resume_once_a_database_locked_mid_run_is_available_again() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path()).await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let (begun, go): (Arc<Notify>, Arc<Notify>) = Default::default();
    let agent = holding_agent(journal.clone(), &begun, &go);
    let client = run(Server::new(journal, store).agent("agent", agent).unwrap()).await.0;
    let thread = client.thread().await;
    let place = format!("/threads/{thread}/runs");
    let first = client.post(&place, say("hold")).await["run_id"].as_str().unwrap().to_owned();
    let second = client.post(&place, say("next")).await["run_id"].as_str().unwrap().to_owned();
    soon(begun.notified()).await;
    let locked = lock(folder.path());
    go.notify_one();
    // Each request waits for the lock as long as the run's writes do, so by now the run has met it, too.
    for _ in 0..20 {
        assert_eq!(client.send(Method::POST, "/threads", &json!({})).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
    drop(locked);
    for run in [&first, &second] {
        client.get(&format!("{place}/{run}/join")).await;
        let ended = client.get(&format!("{place}/{run}")).await;
        assert_eq!(ended["status"], "success", "{ended}");
    }
    let state = client.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(roles(&state["values"]), ["human", "ai", "tool", "ai", "human", "ai"]);
}

#[tokio::test]
async fn writes_get_503_while_the_disk_is_full_and_none_is_partial() {
    let Some(disk) = Disk::mount() else { return };
    let database = open(disk.path()).await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let agent = agent(vec![Turn::text("Hello."), Turn::text("Again.")], journal.clone());
    let (client, _end, _serving) = run(Server::new(journal, store).agent("agent", agent).unwrap()).await;
    let (thread, writes) = filled(&client).await;
    let before = everything(&client, &thread).await;
    disk.fill();
    are_unavailable(&client, &writes).await;
    assert_eq!(everything(&client, &thread).await, before, "what was there can be read");
    disk.make_room();
    assert_eq!(everything(&client, &thread).await, before);
    let values = client.post(&format!("/threads/{thread}/runs/wait"), say("hi")).await;
    assert_eq!(roles(&values), ["human", "ai", "human", "ai"]);
}

#[tokio::test]
async fn a_run_interrupted_by_a_full_disk_continues_when_there_is_space() {
    let Some(disk) = Disk::mount() else { return };
    let database = open(disk.path()).await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let (begun, go): (Arc<Notify>, Arc<Notify>) = Default::default();
    let agent = holding_agent(journal.clone(), &begun, &go);
    let (client, _end, _serving) = run(Server::new(journal, store).agent("agent", agent).unwrap()).await;
    let thread = client.thread().await;
    let place = format!("/threads/{thread}/runs");
    let made = client.post(&place, say("hold")).await["run_id"].as_str().unwrap().to_owned();
    soon(begun.notified()).await;
    disk.fill();
    go.notify_one();
    for _ in 0..20 {
        assert_eq!(client.send(Method::POST, "/threads", &json!({})).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
    disk.make_room();
    client.get(&format!("{place}/{made}/join")).await;
    assert_eq!(client.get(&format!("{place}/{made}")).await["status"], "success");
    let state = client.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(roles(&state["values"]), ["human", "ai", "tool", "ai"]);
}

/// Runs two servers on one database and checks that each run was executed once.
async fn two_servers(journal: impl AsyncFn() -> (Arc<dyn Journal>, Arc<dyn Store>)) {
    let folder = tempfile::tempdir().unwrap();
    let serve = async || {
        let (journal, store) = journal().await;
        let agent = noting_agent(journal.clone(), folder.path().join("notes"));
        let server = Server::new(journal, store).agent("agent", agent).unwrap().lease(Duration::from_secs(2));
        run(server).await
    };
    let (first, _end, _serving) = serve().await;
    let mut accepted = Vec::new();
    for number in 0..20 {
        let thread = first.thread().await;
        for part in 0..2 {
            let made = first.post(&format!("/threads/{thread}/runs"), say(&format!("run {number} {part}"))).await;
            accepted.push(format!("/threads/{thread}/runs/{}", made["run_id"].as_str().unwrap()));
        }
    }
    // The second server finds both pending and running runs.
    let (second, _other_end, _other_serving) = serve().await;
    for (number, path) in accepted.iter().enumerate() {
        let (one, other) = if number % 2 == 0 { (&first, &second) } else { (&second, &first) };
        one.get(&format!("{path}/join")).await;
        other.get(&format!("{path}/join")).await;
        assert_eq!(one.get(path).await["status"], "success");
        assert_eq!(other.get(path).await["status"], "success");
    }
    let notes = std::fs::read_to_string(folder.path().join("notes")).unwrap();
    let mut made: Vec<&str> = notes.lines().collect();
    made.sort_unstable();
    made.dedup();
    assert_eq!((made.len(), notes.lines().count()), (accepted.len(), accepted.len()), "{notes}");
}

#[tokio::test]
async fn each_run_of_two_servers_on_one_file_is_executed_by_only_one() {
    let folder = tempfile::tempdir().unwrap();
    Box::pin(two_servers(async || {
        let database = Arc::new(Sqlite::open(folder.path().join("server.db")).await.unwrap());
        (database.clone() as Arc<dyn Journal>, database as Arc<dyn Store>)
    }))
    .await;
}

#[tokio::test]
async fn each_run_of_two_servers_on_one_postgres_is_executed_by_only_one() {
    let Ok(url) = std::env::var("DEEPAGENTS_TEST_POSTGRES") else {
        return skip("postgres", "DEEPAGENTS_TEST_POSTGRES names no server; .ci/postgres.sh starts one");
    };
    let schema = format!("server_{}", uuid::Uuid::now_v7().simple());
    Box::pin(two_servers(async || {
        let options = PostgresOptions { schema: schema.clone(), connections: 8, ..PostgresOptions::default() };
        let database = Arc::new(options.connect(&url).await.unwrap());
        (database.clone() as Arc<dyn Journal>, database as Arc<dyn Store>)
    }))
    .await;
}

#[tokio::test]
async fn the_health_check_reports_the_database_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path()).await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let agent = agent(vec![], journal.clone());
    let client = run(Server::new(journal, store).agent("agent", agent).unwrap()).await.0;
    let healthy = json!({"ok": true, "services": {"database": "healthy"}});
    assert_eq!(client.get("/ok?check_db=1").await, healthy);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let (status, answer) = client.send(Method::GET, "/ok?check_db=1", &json!({})).await;
    let unhealthy = json!({"ok": false, "services": {"database": "unhealthy"}});
    assert_eq!((status, answer), (StatusCode::SERVICE_UNAVAILABLE, unhealthy));
    assert_eq!(client.get("/ok").await, json!({"ok": true}), "the server itself is there");
}
