//! Snapshots.

use std::sync::Arc;

use deepagents_core::journal::{Claim, JournalError, Record, RetentionPolicy, Snapshot, prune};
use deepagents_core::state::{ChannelSpec, MessagesChannel, Schema};
use serde_json::json;

use super::{Any, notes, own, says, schema, state, step, write};
use crate::suites::TestClock;

fn at(position: u64, body: &str) -> Snapshot {
    Snapshot { position, body: body.to_owned() }
}

/// A load starts at the latest snapshot at or before the position, and returns only the records after it.
pub async fn a_load_begins_at_the_nearest_snapshot(journal: Any, _: TestClock) {
    write(&journal, "t", (0..6).map(step).collect()).await;
    let fence = own(&journal, "t").await;
    journal.put_snapshot("t", fence, at(2, "two")).await.unwrap();
    journal.put_snapshot("t", fence, at(4, "four")).await.unwrap();
    for (until, base, count) in
        [(None, Some(4), 2), (Some(5), Some(4), 1), (Some(4), Some(4), 0), (Some(3), Some(2), 1), (Some(1), None, 1)]
    {
        let loaded = journal.load("t", until).await.unwrap();
        assert_eq!(loaded.snapshot.map(|s| s.position), base, "{until:?}");
        assert_eq!(loaded.entries.len(), count, "{until:?}");
        assert_eq!(loaded.end, 6);
    }
    assert_eq!(journal.load("t", None).await.unwrap().snapshot.unwrap().body, "four");
}

/// There is one snapshot per position.
pub async fn a_snapshot_is_replaced_by_one_at_its_position(journal: Any, _: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    let fence = own(&journal, "t").await;
    journal.put_snapshot("t", fence, at(1, "old")).await.unwrap();
    let size = journal.threads().get("t").await.unwrap().unwrap().bytes;
    journal.put_snapshot("t", fence, at(1, "new")).await.unwrap();
    assert_eq!(journal.load("t", None).await.unwrap().snapshot.unwrap().body, "new");
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().bytes, size);
}

/// A snapshot beyond the end would stand for no records.
pub async fn a_snapshot_beyond_the_end_is_refused(journal: Any, _: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    let fence = own(&journal, "t").await;
    let error = journal.put_snapshot("t", fence, at(2, "{}")).await.unwrap_err();
    assert!(matches!(error, JournalError::NoState { position: 2, .. }), "{error:?}");
}

/// A snapshot of several hundred kilobytes is read back unchanged.
pub async fn a_large_snapshot_comes_back(journal: Any, _: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    let fence = own(&journal, "t").await;
    let body = json!({"text": "x".repeat(300_000), "list": (0..50_000).collect::<Vec<_>>()}).to_string();
    let bytes = journal.put_snapshot("t", fence, at(1, &body)).await.unwrap();
    assert!(bytes >= body.len() as u64);
    let loaded = journal.load("t", None).await.unwrap();
    assert_eq!((loaded.snapshot.unwrap().body, loaded.snapshot_bytes), (body, bytes));
}

/// Otherwise a thread would silently lose its state.
pub async fn records_are_removed_only_where_a_snapshot_stands_for_them(journal: Any, _: TestClock) {
    write(&journal, "t", (0..4).map(step).collect()).await;
    let fence = own(&journal, "t").await;
    journal.put_snapshot("t", fence, at(3, "three")).await.unwrap();
    for end in [2, 4] {
        let error = journal.threads().remove("t", fence, 0..end).await.unwrap_err();
        assert!(matches!(error, JournalError::NoState { position, .. } if position == end), "{error:?}");
    }
    assert!(journal.threads().remove("nobody", fence, 0..1).await.is_err());
    journal.threads().remove("t", fence, 0..3).await.unwrap();
    let loaded = journal.load("t", None).await.unwrap();
    assert_eq!((loaded.entries.len(), loaded.end), (1, 4));
}

/// A pruner frozen past the end of its lease must not remove records that the thread has been rewound to since.
pub async fn records_are_removed_only_by_the_owner_of_the_thread(journal: Any, clock: TestClock) {
    write(&journal, "t", vec![says("m1", "one"), says("m2", "two"), says("m3", "three")]).await;
    let lease = std::time::Duration::from_secs(60);
    let slow = journal.claim("t", Claim::new("prune", lease)).await.unwrap();
    journal.put_snapshot("t", slow, at(3, "three")).await.unwrap();
    clock.pass(lease * 2);
    let fence = own(&journal, "t").await;
    let back = Record::Rewind { to: 1, turn: 7 };
    journal.append("t", fence, 3, vec![back]).await.unwrap();
    let before = state(&journal, "t", None).await;
    let late = journal.threads().remove("t", slow, 0..3).await.unwrap_err();
    assert!(matches!(late, JournalError::Fenced { .. }), "{late:?}");
    assert_eq!(state(&journal, "t", None).await, before);
}

/// An agent that lacks a channel neither loses its values nor needs them, even when it prunes.
pub async fn a_snapshot_keeps_what_another_agent_knows(journal: Any, _: TestClock) {
    let bare = || Arc::new(Schema::new([ChannelSpec::new::<MessagesChannel>()]).unwrap());
    write(&journal, "t", vec![says("m1", "one"), notes(json!({"a": 1, "b": 2}))]).await;
    prune(&journal, "t", bare(), &RetentionPolicy::Latest).await.unwrap();
    write(&journal, "t", vec![notes(json!({"a": 3})), notes(json!({"b": null}))]).await;
    prune(&journal, "t", schema(), &RetentionPolicy::Latest).await.unwrap();
    write(&journal, "t", vec![notes(json!({"c": 4})), says("m2", "two")]).await;
    let before = state(&journal, "t", None).await;
    prune(&journal, "t", bare(), &RetentionPolicy::Latest).await.unwrap();
    assert_eq!(state(&journal, "t", None).await, before);
    assert!(before.contains(r#""notes":{"a":3,"c":4}"#), "{before}");
}
