//! Claimable threads, which a worker may resume.

use deepagents_core::journal::{Claim, Record, RunStatus, ThreadQuery};
use deepagents_core::run::FinishReason;
use serde_json::json;

use super::{Any, ended, minute, own, says, started, write};
use crate::suites::TestClock;

async fn claimable(journal: &Any, query: ThreadQuery) -> Vec<String> {
    journal.threads().list(&query.claimable()).await.unwrap().into_iter().map(|thread| thread.id).collect()
}

/// A thread is claimable if its last run is open or no run has started.
pub async fn threads_to_be_gone_on_with_are_those_that_did_not_end(journal: Any, clock: TestClock) {
    let finished = |stop| Record::RunFinished { run: "r".to_owned(), stop };
    for (thread, records) in [
        ("open", vec![started("r")]),
        ("ended", vec![started("r"), ended("r")]),
        ("failed", vec![started("r"), finished(None)]),
        ("interrupted", vec![started("r"), finished(Some(FinishReason::Interrupted))]),
        ("new", vec![says("m", "hello")]),
        ("again", vec![started("r"), ended("r"), started("s")]),
    ] {
        clock.pass(minute());
        write(&journal, thread, records).await;
    }
    assert_eq!(claimable(&journal, ThreadQuery::default()).await, ["open", "new", "again"], "the oldest change first");
    write(&journal, "open", vec![ended("r")]).await;
    assert_eq!(claimable(&journal, ThreadQuery::default()).await, ["new", "again"]);
    assert_eq!(claimable(&journal, ThreadQuery::default().status(RunStatus::Open)).await, ["again"]);
    assert!(claimable(&journal, ThreadQuery::default().status(RunStatus::Ended)).await.is_empty());
}

/// A thread is not claimable while a lease on it lasts.
pub async fn a_thread_with_an_owner_is_not_to_be_gone_on_with(journal: Any, clock: TestClock) {
    for thread in ["a", "b", "c"] {
        clock.pass(minute());
        write(&journal, thread, vec![started("r")]).await;
    }
    let fence = own(&journal, "a").await;
    journal.claim("b", Claim::new("dies", minute())).await.unwrap();
    assert_eq!(claimable(&journal, ThreadQuery::default()).await, ["c"]);
    clock.pass(minute());
    assert_eq!(claimable(&journal, ThreadQuery::default()).await, ["b", "c"], "the lease has run out");
    journal.release("a", fence).await.unwrap();
    assert_eq!(claimable(&journal, ThreadQuery::default()).await, ["a", "b", "c"]);
}

/// Limit and offset apply to the matching threads.
pub async fn threads_to_be_gone_on_with_are_narrowed_and_paged(journal: Any, clock: TestClock) {
    for n in 0..6 {
        clock.pass(minute());
        write(&journal, &format!("p/{n}"), vec![started("r")]).await;
        journal
            .threads()
            .set_metadata(&format!("p/{n}"), [("odd".to_owned(), json!(n % 2))].into_iter().collect())
            .await
            .unwrap();
        if n > 2 {
            journal.threads().set_parent(&format!("p/{n}"), Some("p")).await.unwrap();
        }
    }
    write(&journal, "q", vec![started("r")]).await;
    own(&journal, "p/0").await;
    let query = ThreadQuery::default;
    assert_eq!(claimable(&journal, query().any_parent().limit(3)).await, ["p/1", "p/2", "p/3"]);
    assert_eq!(claimable(&journal, query().any_parent().limit(2).offset(3)).await, ["p/4", "p/5"]);
    assert_eq!(claimable(&journal, query()).await, ["p/1", "p/2", "q"]);
    assert_eq!(claimable(&journal, query().parent("p")).await, ["p/3", "p/4", "p/5"]);
    assert_eq!(claimable(&journal, query().any_parent().metadata("odd", 1).limit(2)).await, ["p/1", "p/3"]);
    assert_eq!(claimable(&journal, query().prefix("q")).await, ["q"]);
}
