//! Runs whose server could not change their thread at first, or was killed before it had stored their result.
#![allow(clippy::disallowed_methods, reason = "files that a killed process leaves")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::journal::{Claim, LogEntry, Record};
use deepagents_core::message::Message;
use deepagents_core::state::Update;
use deepagents_core::store::MemoryStore;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::kills::{STORES_NO_RESULT, database, noting_agent, noting_server, start, start_with};
use crate::support::{Client, agent, roles, run, say, serve_on, until};

fn update(text: &str) -> Value {
    let said = json!({"messages": [{"role": "user", "content": text}]});
    json!({"assistant_id": "agent", "command": {"update": said}})
}

/// Sends a request for a run and returns the path of the run.
async fn begin(client: &Client, thread: &str, body: Value) -> String {
    let made = client.post(&format!("/threads/{thread}/runs"), body).await;
    format!("/threads/{thread}/runs/{}", made["run_id"].as_str().unwrap())
}

async fn log(folder: &Path, thread: &str) -> Vec<LogEntry> {
    let journal = database(folder).await;
    let end = journal.threads().get(thread).await.unwrap().map_or(0, |info| info.end);
    journal.read(thread, 0..end).await.unwrap()
}

#[tokio::test]
async fn an_update_by_command_waits_until_its_thread_is_free() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let hello = vec![Turn::text("Hello.")];
    let client = serve_on(agent(hello, journal.clone()), journal.clone(), Arc::new(MemoryStore::default())).await;
    let thread = client.thread().await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("hi")).await;
    let other = journal.claim(&thread, Claim::new("another", Duration::from_secs(600))).await.unwrap();
    let path = begin(&client, &thread, update("noted")).await;
    until(async || client.get(&path).await["status"] == "running").await;
    journal.release(&thread, other).await.unwrap();
    let values = client.get(&format!("{path}/join")).await;
    assert_eq!(client.get(&path).await["status"], "success", "{values}");
    assert_eq!(roles(&values), ["human", "ai", "human"]);
}

#[tokio::test]
async fn an_input_without_a_message_waits_until_its_thread_is_free() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let client = serve_on(agent(vec![], journal.clone()), journal.clone(), Arc::new(MemoryStore::default())).await;
    let thread = client.thread().await;
    let other = journal.claim(&thread, Claim::new("another", Duration::from_secs(600))).await.unwrap();
    let input = json!({"assistant_id": "agent", "input": {"files": {"/a.txt": "text"}}});
    let path = begin(&client, &thread, input).await;
    until(async || client.get(&path).await["status"] == "running").await;
    journal.release(&thread, other).await.unwrap();
    let values = client.get(&format!("{path}/join")).await;
    assert_eq!(client.get(&path).await["status"], "success", "{values}");
    assert_eq!(values["files"]["/a.txt"]["content"], "text");
}

#[tokio::test]
async fn an_update_by_command_is_made_once_although_its_server_is_killed_before_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let (child, client) = start_with(folder.path(), Some(STORES_NO_RESULT)).await;
    let thread = client.thread().await;
    let path = begin(&client, &thread, update("noted")).await;
    until(async || !log(folder.path(), &thread).await.is_empty()).await;
    drop(child);
    let (client, _end, _serving) = run(noting_server(folder.path()).await).await;
    let values = client.get(&format!("{path}/join")).await;
    assert_eq!(client.get(&path).await["status"], "success", "{values}");
    assert_eq!(roles(&values), ["human"]);
}

#[tokio::test]
async fn messages_are_removed_once_although_the_server_of_their_run_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (child, client) = start(folder.path()).await;
    let thread = client.thread().await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("hello")).await;
    let messages = json!([
        {"type": "remove", "id": "__remove_all__", "content": ""}, {"role": "user", "content": "long"},
    ]);
    let path = begin(&client, &thread, json!({"assistant_id": "agent", "input": {"messages": messages}})).await;
    let notes = folder.path().join("notes");
    until(async || std::fs::read_to_string(&notes).unwrap_or_default().lines().count() > 3).await;
    drop(child);
    let (client, _end, _serving) = run(noting_server(folder.path()).await).await;
    let values = client.get(&format!("{path}/join")).await;
    assert_eq!(
        (&roles(&values)[..3], values["messages"][0]["content"].clone()),
        (&["human", "ai", "tool"].map(str::to_owned)[..], json!("long"))
    );
    assert_eq!(std::fs::read_to_string(notes).unwrap().lines().filter(|line| *line == "long").count(), 1);
}

#[tokio::test]
async fn a_rollback_that_a_kill_cut_off_undoes_nothing_that_came_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let (child, client) = start_with(folder.path(), Some(STORES_NO_RESULT)).await;
    let thread = client.thread().await;
    let path = begin(&client, &thread, say("hold")).await;
    let notes = folder.path().join("notes");
    until(async || std::fs::read_to_string(&notes).is_ok_and(|notes| notes.contains("hold"))).await;
    client.post(&format!("{path}/cancel?action=rollback"), json!({})).await;
    let is_rewind = |entry: &LogEntry| matches!(entry.record, Record::Rewind { .. });
    until(async || log(folder.path(), &thread).await.last().is_some_and(is_rewind)).await;
    drop(child);
    let agent = noting_agent(database(folder.path()).await, notes);
    until(async || agent.update_state(&thread, Update::message(Message::user("from elsewhere"))).await.is_ok()).await;
    let (client, _end, _serving) = run(noting_server(folder.path()).await).await;
    until(async || client.send(Method::GET, &path, &json!({})).await.0 == StatusCode::NOT_FOUND).await;
    let values = client.get(&format!("/threads/{thread}/state")).await["values"].clone();
    assert_eq!(roles(&values), ["human"], "{values}");
    assert_eq!(values["messages"][0]["content"], "from elsewhere");
}
