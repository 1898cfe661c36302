//! Two servers on one storage: each can read, end and resume the other's work.
#![allow(clippy::disallowed_methods, reason = "files that tools leave, and the server that the environment names")]

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, DeepAgentBuilder, InterruptPolicy, Journal, tool_fn};
use deepagents_core::journal::{ProcessIdentity, ThreadInfo};
use deepagents_core::store::{Query, Store};
use deepagents_persist::{PostgresOptions, Sqlite};
use deepagents_server::{Server, WebhookPolicy};
use deepagents_testing::skip::skip;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::support::{City, Client, Nothing, roles, run, say, soon, until};
use crate::webhooks::receiver;

type Storage = (Arc<dyn Journal>, Arc<dyn Store>);

/// The storage of both servers.
enum Place {
    File(tempfile::TempDir),
    Postgres { url: String, schema: String },
}

impl Place {
    fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    fn postgres() -> Option<Self> {
        let url = std::env::var("DEEPAGENTS_TEST_POSTGRES").ok()?;
        Some(Self::Postgres { url, schema: format!("others_{}", uuid::Uuid::now_v7().simple()) })
    }

    async fn open(&self) -> Storage {
        match self {
            Self::File(folder) => {
                let database = Arc::new(Sqlite::open(folder.path().join("server.db")).await.unwrap());
                (database.clone(), database)
            }
            Self::Postgres { url, schema } => {
                let options = PostgresOptions { schema: schema.clone(), connections: 8, ..PostgresOptions::default() };
                let database = Arc::new(options.connect(url).await.unwrap());
                (database.clone(), database)
            }
        }
    }
}

/// Two servers whose agents hold their calls until they are released.
struct Pair {
    first: Client,
    second: Client,
    /// Gets a permit for each held call.
    begun: Arc<Semaphore>,
    /// Each permit releases one call.
    go: Arc<Semaphore>,
}

impl Pair {
    async fn new(place: &Place) -> Self {
        let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (first, second) = (serve(place, &begun, &go).await, serve(place, &begun, &go).await);
        Self { first, second, begun, go }
    }

    /// Creates a thread on which the first server holds a run. Returns the paths of both.
    async fn held(&self) -> (String, String) {
        let place = format!("/threads/{}", self.first.thread().await);
        let mut body = say("hold");
        body["stream_resumable"] = json!(true);
        body["stream_mode"] = json!(["values", "updates", "tasks", "messages-tuple"]);
        let made = self.first.post(&format!("{place}/runs"), body).await;
        soon(self.begun.acquire()).await.unwrap().forget();
        let run = format!("{place}/runs/{}", made["run_id"].as_str().unwrap());
        (place, run)
    }
}

async fn serve(place: &Place, begun: &Arc<Semaphore>, go: &Arc<Semaphore>) -> Client {
    let (journal, store) = place.open().await;
    let agent = holding_agent(journal.clone(), begun.clone(), go.clone());
    let server = Server::new(journal, store).agent("agent", agent).unwrap().lease(Duration::from_secs(2));
    let (client, end, serving) = run(server.webhooks(WebhookPolicy::default().allow_loopback())).await;
    // The servers run until the test ends.
    std::mem::forget(end);
    drop(serving);
    client
}

/// Builds an agent that holds when told to `hold`, and otherwise repeats what it was told.
pub(crate) fn holding_agent(journal: Arc<dyn Journal>, begun: Arc<Semaphore>, go: Arc<Semaphore>) -> DeepAgent {
    holding(journal, begun, go).build().unwrap()
}

fn holding(journal: Arc<dyn Journal>, begun: Arc<Semaphore>, go: Arc<Semaphore>) -> DeepAgentBuilder {
    let hold = tool_fn("hold", "Waits.", move |_: Nothing, _cx| {
        let (begun, go) = (begun.clone(), go.clone());
        async move {
            begun.add_permits(1);
            go.acquire().await.unwrap().forget();
            Ok("held".to_owned())
        }
    });
    let model = ScriptedModel::rules().always(Turn::with(|request| match request.messages.iter().next_back() {
        Some(last) if last.text() == "hold" => Turn::call("hold", json!({})),
        Some(last) if last.as_tool().is_some() => Turn::text("Done."),
        Some(last) => Turn::text(format!("You said {}.", last.text())),
        None => Turn::text("Nothing was said."),
    }));
    DeepAgent::builder().model(model.build()).journal(journal).tool(hold)
}

/// A process with a number. All processes with lower numbers are gone.
struct Numbered(u64);

impl ProcessIdentity for Numbered {
    fn metadata(&self) -> Map<String, Value> {
        Map::from_iter([("number".to_owned(), json!(self.0))])
    }

    fn is_gone(&self, thread: &ThreadInfo) -> bool {
        thread.metadata["number"].as_u64().unwrap() < self.0
    }
}

/// The first server's lease would last for another hour, as if the clock had been set back after its process ended.
#[tokio::test]
async fn a_run_of_a_process_known_to_be_dead_resumes_despite_its_lease() {
    let place = Place::file();
    let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let serve = async |number| {
        let (journal, store) = place.open().await;
        let agent = holding(journal.clone(), begun.clone(), go.clone()).process(Numbered(number)).build().unwrap();
        let server = Server::new(journal, store).agent("agent", agent).unwrap().lease(Duration::from_secs(3600));
        let (client, end, serving) = run(server).await;
        std::mem::forget(end);
        drop(serving);
        client
    };
    let first = serve(1).await;
    let runs = format!("/threads/{}/runs", first.thread().await);
    let made = first.post(&runs, say("hold")).await;
    soon(begun.acquire()).await.unwrap().forget();
    let second = serve(2).await;
    let run = format!("{runs}/{}", made["run_id"].as_str().unwrap());
    let values = second.get(&format!("{run}/join")).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "ai"]);
    assert_eq!(second.get(&run).await["status"], "success");
}

/// Defines a test for both kinds of storage.
macro_rules! on_both {
    ($($name:ident: $test:path;)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn on_one_file() {
                Box::pin($test(&Place::file())).await;
            }

            #[tokio::test]
            async fn on_one_postgres() {
                match Place::postgres() {
                    Some(place) => Box::pin($test(&place)).await,
                    None => skip("postgres", "DEEPAGENTS_TEST_POSTGRES names no server; .ci/postgres.sh starts one"),
                }
            }
        }
    )*};
}

on_both! {
    a_run_is_cancelled_through_the_other_server_and_its_thread_can_be_used: cancelled;
    several_runs_are_cancelled_through_the_other_server: several_cancelled;
    a_run_that_waits_is_cancelled_through_the_other_server_at_once: waiting_cancelled;
    runs_that_wait_and_are_cancelled_through_both_servers_end_once: cancelled_at_both;
    a_run_is_refused_while_the_other_server_works_on_the_thread: rejected;
    a_run_comes_behind_those_of_the_other_server: enqueued;
    a_run_takes_the_place_of_that_of_the_other_server: interrupted;
    a_run_undoes_that_of_the_other_server: rolled_back;
    a_run_is_joined_and_streamed_at_the_other_server: joined;
    the_stream_of_a_thread_shows_runs_of_the_other_server: followed;
    a_thread_is_deleted_through_the_other_server: deleted;
}

async fn cancelled(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, held) = pair.held().await;
    pair.second.post(&format!("{held}/cancel?wait=1"), json!({})).await;
    for client in [&pair.first, &pair.second] {
        assert_eq!(client.get(&held).await["status"], "interrupted");
        let again = client.send(Method::POST, &format!("{held}/cancel"), &json!({})).await;
        assert_eq!(again.0, StatusCode::NOT_FOUND, "it is over");
    }
    let values = pair.second.post(&format!("{thread}/runs/wait"), say("hello")).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "human", "ai"]);
    assert_eq!(values["messages"][4]["content"], "You said hello.");
}

async fn several_cancelled(place: &Place) {
    let pair = Pair::new(place).await;
    let (_, one) = pair.held().await;
    let (_, other) = pair.held().await;
    pair.second.post("/runs/cancel", json!({"status": "all"})).await;
    for held in [one, other] {
        pair.second.get(&format!("{held}/join")).await;
        assert_eq!(pair.first.get(&held).await["status"], "interrupted");
    }
    let none = pair.second.send(Method::POST, "/runs/cancel", &json!({"status": "all"})).await;
    assert_eq!(none.0, StatusCode::NOT_FOUND);
}

async fn waiting_cancelled(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, held) = pair.held().await;
    for action in ["interrupt", "rollback"] {
        let made = pair.first.post(&format!("{thread}/runs"), say("never")).await;
        let waits = format!("{thread}/runs/{}", made["run_id"].as_str().unwrap());
        pair.second.post(&format!("{waits}/cancel?wait=1&action={action}"), json!({})).await;
        for client in [&pair.first, &pair.second] {
            let (status, run) = client.send(Method::GET, &waits, &json!({})).await;
            match action {
                "rollback" => assert_eq!(status, StatusCode::NOT_FOUND),
                _ => assert_eq!(run["status"], "interrupted"),
            }
        }
    }
    // The server that accepted them sees it, too, before their turn.
    for client in [&pair.first, &pair.second] {
        until(async || client.text_of(Method::GET, "/metrics", &json!({})).await.1.contains("deepagents_runs_open 1"))
            .await;
    }
    assert_eq!(pair.first.get(&held).await["status"], "running");
    pair.second.post(&format!("{held}/cancel?wait=1"), json!({})).await;
    let state = pair.first.get(&format!("{thread}/state")).await;
    assert!(!state.to_string().contains("never"), "{state}");
}

async fn cancelled_at_both(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, _) = pair.held().await;
    let (url, mut received) = receiver(vec![]).await;
    let mut body = say("never");
    body["webhook"] = json!(url);
    let mut waiting = Vec::new();
    for _ in 0..8 {
        waiting.push(pair.first.post(&format!("{thread}/runs"), body.clone()).await["run_id"].clone());
    }
    for run in &waiting {
        let path = format!("{thread}/runs/{}/cancel?wait=1", run.as_str().unwrap());
        let nothing = json!({});
        let [here, there] = [&pair.first, &pair.second].map(|client| client.send(Method::POST, &path, &nothing));
        let (here, there) = tokio::join!(here, there);
        for (status, answer) in [here, there] {
            assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&status), "{status} {answer}");
        }
    }
    let mut told = Vec::new();
    for _ in &waiting {
        let (_, body) = soon(received.recv()).await.unwrap();
        told.push(serde_json::from_str::<Value>(&body).unwrap());
    }
    assert!(told.iter().all(|run| run["status"] == "interrupted"), "{told:?}");
    let told: HashSet<&str> = told.iter().filter_map(|run| run["run_id"].as_str()).collect();
    assert_eq!(told, waiting.iter().filter_map(Value::as_str).collect());
    for client in [&pair.first, &pair.second] {
        until(async || client.text_of(Method::GET, "/metrics", &json!({})).await.1.contains("deepagents_runs_open 1"))
            .await;
    }
    let (_, store) = place.open().await;
    let webhooks = ["deepagents-server", "webhooks"].map(str::to_owned);
    until(async || store.search(&webhooks, &Query::default()).await.unwrap().is_empty()).await;
    assert!(received.try_recv().is_err(), "each is told once");
}

async fn rejected(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, held) = pair.held().await;
    let mut body = say("no");
    body["multitask_strategy"] = json!("reject");
    for path in ["runs", "runs/wait", "runs/stream"] {
        let refused = pair.second.send(Method::POST, &format!("{thread}/{path}"), &body).await;
        assert_eq!(refused.0, StatusCode::CONFLICT, "{}", refused.1);
    }
    assert_eq!(pair.second.get(&thread).await["status"], "busy");
    assert_eq!(pair.second.get(&format!("{thread}/runs")).await.as_array().unwrap().len(), 1);
    pair.go.add_permits(1);
    pair.second.get(&format!("{held}/join")).await;
    let values = pair.second.post(&format!("{thread}/runs/wait"), body).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "ai", "human", "ai"]);
    assert_eq!(pair.first.get(&thread).await["status"], "idle");
}

async fn enqueued(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, _) = pair.held().await;
    let waits = pair.first.post(&format!("{thread}/runs"), say("one")).await;
    let second = pair.second.post(&format!("{thread}/runs"), say("two")).await;
    let third = pair.first.post(&format!("{thread}/runs"), say("three")).await;
    pair.go.add_permits(1);
    for made in [waits, second, third] {
        let path = format!("{thread}/runs/{}", made["run_id"].as_str().unwrap());
        pair.first.get(&format!("{path}/join")).await;
        assert_eq!(pair.first.get(&path).await["status"], "success");
    }
    let state = pair.second.get(&format!("{thread}/state")).await;
    let said = state["values"]["messages"].as_array().unwrap().iter().filter(|message| message["type"] == "human");
    let said: Vec<&str> = said.map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["hold", "one", "two", "three"]);
}

async fn instead(pair: &Pair, strategy: &str) -> (String, String, Value) {
    let (thread, held) = pair.held().await;
    let mut body = say("instead");
    body["multitask_strategy"] = json!(strategy);
    let values = pair.second.post(&format!("{thread}/runs/wait"), body).await;
    (thread, held, values)
}

async fn interrupted(place: &Place) {
    let pair = Pair::new(place).await;
    let (_, held, values) = instead(&pair, "interrupt").await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "human", "ai"]);
    assert_eq!(pair.first.get(&held).await["status"], "interrupted");
    assert_eq!(pair.second.get(&held).await["status"], "interrupted");
}

async fn rolled_back(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, held, values) = instead(&pair, "rollback").await;
    assert_eq!(roles(&values), ["human", "ai"]);
    for client in [&pair.first, &pair.second] {
        assert_eq!(client.send(Method::GET, &held, &json!({})).await.0, StatusCode::NOT_FOUND);
        assert_eq!(roles(&client.get(&format!("{thread}/state")).await["values"]), ["human", "ai"]);
    }
}

/// Whether an event comes from a record and is therefore in every stream of the run.
fn is_of_log((_, id): &(String, String)) -> bool {
    let number: u32 = id.rsplit('-').next().unwrap().parse().unwrap();
    !(1 << 16..1 << 22).contains(&number) && number < (1 << 23) + (1 << 22)
}

async fn joined(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, held) = pair.held().await;
    let (join, stream) = (format!("{held}/join"), format!("{held}/stream"));
    let nothing = json!({});
    let let_go = async {
        // Both read while the run is held; the second server reads its log so far.
        let steps = json!({"channels": ["tools"]});
        pair.second.thread_events(thread.trim_start_matches("/threads/"), &steps, |_| true).await;
        pair.go.add_permits(1);
    };
    let (values, there, here, ()) = tokio::join!(
        pair.second.get(&join),
        pair.second.events(Method::GET, &stream, Some("-1"), &nothing),
        pair.first.events(Method::GET, &stream, Some("-1"), &nothing),
        let_go,
    );
    assert_eq!(roles(&values), ["human", "ai", "tool", "ai"]);
    let here: Vec<_> = here.into_iter().filter(is_of_log).collect();
    // A message is streamed in chunks by the process that executes the run, and as a whole by others.
    let there: Vec<_> = there.into_iter().filter(is_of_log).filter(|event| here.contains(event)).collect();
    assert_eq!(there, here);
    assert!(here.iter().any(|(name, _)| name == "tasks"));
}

async fn followed(place: &Place) {
    let pair = Pair::new(place).await;
    let thread = pair.first.thread().await;
    let body = json!({"channels": ["lifecycle", "values"]});
    let watching = pair.second.thread_events(&thread, &body, |event| event.to_string().contains("completed"));
    let runs = format!("/threads/{thread}/runs");
    let made = pair.first.post(&runs, say("hello"));
    let (events, _) = tokio::join!(watching, made);
    assert!(json!(events).to_string().contains("You said hello."), "{events:?}");
}

async fn deleted(place: &Place) {
    let pair = Pair::new(place).await;
    let (thread, _) = pair.held().await;
    assert_eq!(pair.second.send(Method::DELETE, &thread, &json!({})).await.0, StatusCode::NO_CONTENT);
    for client in [&pair.first, &pair.second] {
        assert_eq!(client.send(Method::GET, &thread, &json!({})).await.0, StatusCode::NOT_FOUND);
    }
    let values = pair.first.post("/runs/wait", say("hello")).await;
    assert_eq!(roles(&values), ["human", "ai"]);
}

/// Compares the ids of a run with an interrupted sub-agent in the process that executed it and in one that reads it
/// from the log.
#[tokio::test]
async fn event_ids_from_the_log_are_the_same_live_and_on_replay() {
    let place = Place::file();
    let serve = async || {
        let (journal, store) = place.open().await;
        let server = Server::new(journal.clone(), store).agent("agent", delegating_agent(journal)).unwrap();
        run(server).await
    };
    let (first, _end, _serving) = serve().await;
    let thread = format!("/threads/{}", first.thread().await);
    let modes = json!(["values", "updates", "messages-tuple", "tasks", "debug", "checkpoints"]);
    let mut bodies = [say("go"), json!({"assistant_id": "agent"})];
    bodies[1]["command"] = json!({"resume": {"decisions": [{"type": "approve"}]}});
    for mut body in bodies {
        body["stream_mode"] = modes.clone();
        body["stream_subgraphs"] = json!(true);
        body["stream_resumable"] = json!(true);
        let live = first.events(Method::POST, &format!("{thread}/runs/stream"), None, &body).await;
        let (second, _other_end, _other_serving) = serve().await;
        let runs = second.get(&format!("{thread}/runs")).await;
        let path = format!("{thread}/runs/{}/stream", runs[0]["run_id"].as_str().unwrap());
        let again = second.events(Method::GET, &path, Some("-1"), &json!({})).await;
        let of_log = |events: &[(String, String)]| -> Vec<(String, String)> {
            // Only the process that executes the run streams message chunks.
            let others = events.iter().filter(|(name, _)| !name.starts_with("messages"));
            others.filter(|event| is_of_log(event)).cloned().collect()
        };
        assert_eq!(of_log(&live), of_log(&again));
        let rest = |events: &[(String, String)]| {
            let live = events.iter().filter(|(name, _)| !name.starts_with("messages"));
            live.filter(|event| !is_of_log(event)).count()
        };
        assert_eq!((rest(&live), rest(&again)), (0, 0), "{live:?}");
        let ids: HashSet<&String> = live.iter().map(|(_, id)| id).collect();
        assert_eq!(ids.len(), live.len(), "each id is there once");
    }
}

/// Builds an agent that delegates to a sub-agent with a tool that needs approval.
fn delegating_agent(journal: Arc<dyn Journal>) -> DeepAgent {
    let book = tool_fn("book", "Books a trip.", |args: City, _cx| async move { Ok(format!("booked {}", args.city)) });
    let asks: InterruptPolicy = serde_json::from_value(json!({"book": true})).unwrap();
    let model = ScriptedModel::rules().always(Turn::with(|request| match request.messages.iter().next_back() {
        Some(last) if last.text() == "go" => {
            Turn::call("task", json!({"description": "Book it.", "subagent_type": "booker"}))
        }
        Some(last) if last.as_user().is_some() => Turn::call("book", json!({"city": "Oslo"})),
        _ => Turn::text("Done."),
    }));
    let builder = DeepAgent::builder().model(model.build()).journal(journal).tool(book).interrupt_on(asks);
    builder.sub_agent(SubAgentSpec::new("booker", "Books.")).build().unwrap()
}

/// See [`crate::kills`]: the first server is a separate process.
#[tokio::test]
async fn runs_of_a_killed_server_are_resumed_by_one_that_was_already_running() {
    let folder = tempfile::tempdir().unwrap();
    let (child, first) = crate::kills::start(folder.path()).await;
    let (second, _end, _serving) = run(crate::kills::noting_server(folder.path()).await).await;
    let mut accepted = Vec::new();
    for number in 0..12 {
        let thread = first.thread().await;
        let made = first.post(&format!("/threads/{thread}/runs"), say(&format!("long {number}"))).await;
        accepted.push(format!("/threads/{thread}/runs/{}", made["run_id"].as_str().unwrap()));
    }
    drop(child);
    for path in &accepted {
        ended(&second, path).await;
        assert_eq!(second.get(path).await["status"], "success", "{path}");
    }
    once(folder.path());
}

/// Waits until a run has ended, without making this server pick it up.
async fn ended(client: &Client, path: &str) {
    until(async || !["pending", "running"].contains(&client.get(path).await["status"].as_str().unwrap())).await;
}

/// Checks that each call was made once.
fn once(folder: &Path) {
    let notes = std::fs::read_to_string(folder.join("notes")).unwrap();
    let mut made: Vec<&str> = notes.lines().collect();
    let all = made.len();
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), all, "a call was made twice");
}
