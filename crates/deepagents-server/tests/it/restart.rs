//! Runs accepted by an earlier process.

use std::sync::Arc;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::store::{MemoryStore, Store};
use deepagents_persist::Sqlite;
use serde_json::json;

use crate::support::{agent, roles, say, serve_on};

#[tokio::test]
async fn a_run_accepted_before_a_restart_runs_after_it() {
    made_after_restart(async |_| {}).await;
}

/// Earlier versions had no index of open runs.
#[tokio::test]
async fn a_run_accepted_by_an_earlier_version_runs_after_a_restart() {
    made_after_restart(async |store| {
        let own = ["deepagents-server".to_owned()];
        assert!(store.delete(&own, "open-runs-indexed").await.unwrap());
        let index = ["deepagents-server".to_owned(), "open-runs".to_owned()];
        let entries = store.search(&index, &Default::default()).await.unwrap();
        assert_eq!(entries.len(), 1);
        for entry in entries {
            store.delete(&entry.namespace, &entry.key).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_thread_stream_from_the_start_includes_the_runs_of_an_earlier_process() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = serve_on(agent(vec![Turn::text("Hello.")], journal.clone()), journal.clone(), store.clone()).await;
    let id = first.thread().await;
    first.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    let second = serve_on(agent(vec![], journal.clone()), journal, store).await;
    for last in ["-1", "0"] {
        let request = second.http.get(format!("{}/threads/{id}/stream", second.url)).header("last-event-id", last);
        let (mut response, mut text) = (request.send().await.unwrap(), String::new());
        while !text.contains("run_done") {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        assert!(text.contains("Hello."), "{text}");
    }
}

async fn made_after_restart(between: impl AsyncFnOnce(&dyn Store)) {
    let folder = tempfile::tempdir().unwrap();
    let open = || async { Arc::new(Sqlite::open(folder.path().join("server.db")).await.unwrap()) };
    let database = open().await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database.clone());
    let client = serve_on(agent(vec![], journal.clone()), journal, store).await;
    let id = client.thread().await;
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    let run = client.post(&format!("/threads/{id}/runs"), later).await["run_id"].as_str().unwrap().to_owned();
    // The first server keeps running, because its run waits for an hour; a second server simulates the restart.
    let place = ["deepagents-server".to_owned(), "runs".to_owned(), id.clone()];
    let mut record = Store::get(&*database, &place, &run).await.unwrap().unwrap().value;
    record["kwargs"]["after_seconds"] = json!(0);
    database.put(&place, &run, record).await.unwrap();
    between(&*database).await;
    let second = open().await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (second.clone(), second.clone());
    let client = serve_on(agent(vec![Turn::text("Hello.")], journal.clone()), journal, store).await;
    let values = client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    assert_eq!(roles(&values), ["human", "ai"]);
}
