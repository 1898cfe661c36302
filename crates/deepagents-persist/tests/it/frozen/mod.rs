//! A database written by an earlier version, and its records as text, yield the same states as then. See
//! `tests/corpus/v1/README.md`.
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]

mod agents;
mod expected;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deepagents::{Journal, MemoryJournal};
use deepagents_core::journal::{Claim, decode};
use deepagents_core::store::{Query, Store};
use deepagents_persist::Sqlite;
use serde_json::{Value, json};

use expected::{Expected, state_json};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/v1")
}

/// A copy of the database, because opening it may migrate its schema.
async fn database() -> Arc<Sqlite> {
    let path = crate::sqlite::place();
    std::fs::copy(corpus().join("threads.db"), &path).unwrap();
    Arc::new(Sqlite::open(path).await.unwrap())
}

#[tokio::test]
async fn every_thread_has_its_recorded_state_at_the_end_and_at_each_checkpoint() {
    let (expected, database) = (Expected::read(&corpus()), database().await);
    database.check().await.unwrap();
    let threads = expected.threads();
    assert!(threads.len() >= 10, "{threads:?}");
    for thread in threads {
        let agent = agents::reader(thread, database.clone());
        let found = expected::thread(&*database, &agent, thread).await;
        expected.assert_thread(thread, &found);
    }
}

#[tokio::test]
async fn records_as_text_lead_to_the_same_states() {
    let expected = Expected::read(&corpus());
    let mut read = 0;
    for file in std::fs::read_dir(corpus().join("threads")).unwrap() {
        let path = file.unwrap().path();
        let thread = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let records = text.lines().zip(0..).map(|(line, at)| decode(thread, at, line).unwrap()).collect();
        let journal = Arc::new(MemoryJournal::new());
        let fence = journal.claim(thread, Claim::new("test", Duration::from_secs(60))).await.unwrap();
        journal.append(thread, fence, 0, records).await.unwrap();
        let agent = agents::reader(thread, journal);
        for (position, wanted) in expected.states(thread) {
            let state = agent.state_at(thread, position).await.unwrap();
            let found = expected::without_later_channels(&state_json(&state), &wanted);
            assert_eq!(found, wanted, "{thread} at {position}");
        }
        read += 1;
    }
    assert!(read >= 8, "{read}");
}

#[tokio::test]
async fn store_items_match_the_frozen_corpus() {
    let found = Store::search(&*database().await, &[], &Query::default()).await.unwrap();
    let found: Vec<Value> = found.iter().map(|item| json!(item)).collect();
    assert_eq!(Value::from(found), Expected::read(&corpus()).items());
}
