//! Copies and forks.

use deepagents_core::journal::{JournalError, RetentionPolicy, encode, load, prune};
use serde_json::json;

use super::{Any, live, minute, notes, own, says, schema, state, states, write};
use crate::suites::TestClock;

/// The states are identical byte for byte, and so are the records.
pub async fn a_copy_has_the_same_state_at_every_position(journal: Any, clock: TestClock) {
    live(&journal, "t", 4).await;
    clock.pass(minute());
    journal.threads().copy("t", "u", None).await.unwrap();
    assert_eq!(states(&journal, "u").await, states(&journal, "t").await);
    let texts = async |thread: &str| {
        let entries = journal.read(thread, 0..99).await.unwrap();
        entries.iter().map(|e| (e.position, e.at, encode(&e.record).unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(texts("u").await, texts("t").await);
    let info = async |thread: &str| journal.threads().get(thread).await.unwrap().unwrap();
    assert_eq!(info("u").await.bytes, info("t").await.bytes);
    assert_eq!(info("u").await.status, info("t").await.status);
}

/// A run uses this to detect that it resumes in a copy.
pub async fn loading_tells_when_a_thread_began_and_a_copy_begins_anew(journal: Any, clock: TestClock) {
    live(&journal, "t", 1).await;
    clock.pass(minute());
    journal.threads().copy("t", "u", None).await.unwrap();
    for thread in ["t", "u"] {
        let info = journal.threads().get(thread).await.unwrap().unwrap();
        for at in [None, Some(1)] {
            assert_eq!(journal.load(thread, at).await.unwrap().created_at, Some(info.created_at));
        }
    }
    let began = async |thread| journal.load(thread, None).await.unwrap().created_at;
    assert_ne!(began("t").await, began("u").await);
    assert_eq!(began("nobody").await, None);
}

/// The copy has the results of the open turn, the calls in doubt, and the position of the run.
pub async fn a_copy_has_the_open_turn_too(journal: Any, _: TestClock) {
    let open = [vec![super::started("r"), says("m", "x"), super::step(1)], super::calls(3), vec![super::result(2)]];
    write(&journal, "t", open.concat()).await;
    journal.threads().copy("t", "u", None).await.unwrap();
    let left = async |thread: &str| {
        let folded = load(&*journal, thread, schema(), None).await.unwrap();
        (folded.state.to_json(true).unwrap(), folded.machine, folded.in_doubt)
    };
    assert_eq!(left("u").await, left("t").await);
    assert_eq!(left("u").await.2.len(), 2);
    write(&journal, "u", vec![super::result(0), super::result(1)]).await;
    assert_eq!((left("u").await.2.len(), left("t").await.2.len()), (0, 2));
}

/// Such a copy is a fork.
pub async fn a_copy_up_to_a_position_ends_there(journal: Any, _: TestClock) {
    live(&journal, "t", 3).await;
    let wanted = states(&journal, "t").await;
    for at in [0, 1, 6, 15] {
        let name = format!("fork-{at}");
        journal.threads().copy("t", &name, Some(at)).await.unwrap();
        assert_eq!(journal.load(&name, None).await.unwrap().end, at);
        assert_eq!(states(&journal, &name).await, wanted.clone().into_iter().filter(|(p, _)| *p <= at).collect());
    }
    let error = journal.threads().copy("t", "late", Some(16)).await.unwrap_err();
    assert!(matches!(error, JournalError::NoState { position: 16, .. }), "{error:?}");
    assert!(journal.threads().get("late").await.unwrap().is_none());
}

/// Later changes to one do not affect the other.
pub async fn a_copy_and_its_source_go_on_apart(journal: Any, _: TestClock) {
    live(&journal, "t", 2).await;
    journal.threads().copy("t", "u", None).await.unwrap();
    let before = state(&journal, "t", None).await;
    write(&journal, "u", vec![says("mine", "x")]).await;
    assert_eq!(state(&journal, "t", None).await, before);
    write(&journal, "t", vec![says("other", "y")]).await;
    assert!(!state(&journal, "u", None).await.contains("other"));
    journal.threads().delete("t").await.unwrap();
    assert!(state(&journal, "u", None).await.contains("mine"));
}

/// The owner's lease is on the source only.
pub async fn a_copy_has_metadata_but_no_owner(journal: Any, _: TestClock) {
    live(&journal, "t", 1).await;
    let metadata = json!({"user": "ada"});
    journal.threads().set_metadata("t", metadata.as_object().unwrap().clone()).await.unwrap();
    journal.threads().set_ttl("t", Some(minute())).await.unwrap();
    let fence = own(&journal, "t").await;
    journal.threads().copy("t", "u", None).await.unwrap();
    let info = journal.threads().get("u").await.unwrap().unwrap();
    assert_eq!((info.owner, info.expires_at), (None, None));
    assert_eq!(serde_json::Value::Object(info.metadata), metadata);
    let error = journal.append("u", fence, info.end, vec![says("x", "y")]).await.unwrap_err();
    assert!(matches!(error, JournalError::Fenced { .. }), "{error:?}");
}

/// A refused copy changes nothing.
pub async fn copying_nothing_or_over_something_is_refused(journal: Any, _: TestClock) {
    live(&journal, "t", 1).await;
    live(&journal, "u", 2).await;
    let before = states(&journal, "u").await;
    assert!(matches!(journal.threads().copy("nobody", "v", None).await, Err(JournalError::NotFound { .. })));
    assert!(matches!(journal.threads().copy("t", "u", None).await, Err(JournalError::Exists { .. })));
    assert!(matches!(journal.threads().copy("t", "t", None).await, Err(JournalError::Exists { .. })));
    assert!(matches!(journal.threads().copy("t", "", None).await, Err(JournalError::Name { .. })));
    assert!(journal.threads().get("v").await.unwrap().is_none());
    assert_eq!(states(&journal, "u").await, before);
}

/// A copy never depends on pruned records.
pub async fn a_copy_of_a_pruned_thread_has_the_same_state(journal: Any, _: TestClock) {
    live(&journal, "t", 4).await;
    prune(&journal, "t", schema(), &RetentionPolicy::From(12)).await.unwrap();
    write(&journal, "t", vec![says("late", "x")]).await;
    journal.threads().copy("t", "u", None).await.unwrap();
    journal.threads().copy("t", "v", Some(14)).await.unwrap();
    let error = journal.threads().copy("t", "w", Some(5)).await.unwrap_err();
    assert!(matches!(error, JournalError::NoState { position: 5, .. }), "{error:?}");
    let source = states(&journal, "t").await;
    journal.threads().delete("t").await.unwrap();
    assert_eq!(states(&journal, "u").await, source);
    assert_eq!(states(&journal, "v").await, source.into_iter().filter(|(at, _)| *at <= 14).collect());
}

/// Values shared between threads are kept while one of the threads exists.
pub async fn large_values_survive_the_deletion_of_a_copy(journal: Any, _: TestClock) {
    let large = "abcdefgh".repeat(32 * 1024);
    write(&journal, "t", vec![notes(json!({"a": large})), says("m", "x")]).await;
    journal.threads().copy("t", "u", None).await.unwrap();
    write(&journal, "v", vec![notes(json!({"a": large}))]).await;
    let wanted = state(&journal, "t", None).await;
    journal.threads().delete("t").await.unwrap();
    assert_eq!(state(&journal, "u", None).await, wanted);
    prune(&journal, "u", schema(), &RetentionPolicy::Latest).await.unwrap();
    assert_eq!(state(&journal, "u", None).await, wanted);
    journal.threads().delete("u").await.unwrap();
    assert!(state(&journal, "v", None).await.contains(&large));
}
