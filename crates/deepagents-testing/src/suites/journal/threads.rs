//! Thread metadata, listing, deletion and expiry.

use std::time::Duration;

use deepagents_core::env::Clock;
use deepagents_core::journal::{Claim, JournalError, Record, RunStatus, SortDirection, ThreadQuery, ThreadSort};
use deepagents_core::run::{BudgetKind, FinishReason};
use serde_json::{Map, Value, json};

use super::{Any, ended, live, minute, own, says, started, step, write};
use crate::suites::TestClock;

fn map(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object") };
    map
}

async fn ids(journal: &Any, query: ThreadQuery) -> Vec<String> {
    journal.threads().list(&query).await.unwrap().into_iter().map(|thread| thread.id).collect()
}

/// An unknown thread is neither described nor listed.
pub async fn an_unknown_thread_is_not_there(journal: Any, _: TestClock) {
    assert!(journal.threads().get("nobody").await.unwrap().is_none());
    assert!(ids(&journal, ThreadQuery::default()).await.is_empty());
}

/// The description has the end, times, owner and metadata.
pub async fn a_thread_is_described(journal: Any, clock: TestClock) {
    let begun = clock.now();
    write(&journal, "t", vec![step(1), step(2)]).await;
    clock.pass(minute());
    journal.threads().set_metadata("t", map(json!({"user": "ada"}))).await.unwrap();
    journal.claim("t", Claim::new("run_7", minute())).await.unwrap();
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.id.as_str(), info.end, info.owner.as_deref()), ("t", 2, Some("run_7")));
    assert_eq!((info.created_at, info.updated_at, info.expires_at), (begun, begun + minute(), None));
    assert_eq!(Value::Object(info.metadata), json!({"user": "ada"}));
    clock.pass(minute());
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().owner, None, "its lease has run out");
}

/// The most recently changed thread comes first.
pub async fn threads_are_listed_the_last_changed_first(journal: Any, clock: TestClock) {
    for thread in ["a", "b", "c", "a"] {
        clock.pass(minute());
        write(&journal, thread, vec![step(1)]).await;
    }
    assert_eq!(ids(&journal, ThreadQuery::default()).await, ["a", "c", "b"]);
}

/// Metadata nested too deeply for JSON parsers are rejected, and the existing metadata are kept.
pub async fn metadata_that_could_not_be_read_again_is_refused(journal: Any, _: TestClock) {
    journal.threads().set_metadata("t", map(json!({"user": "ada"}))).await.unwrap();
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let refused = journal.threads().set_metadata("t", map(json!({"deep": deep, "user": "bob"}))).await;
    assert!(matches!(refused, Err(JournalError::Metadata { key, .. }) if key == "deep"));
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!(info.metadata, map(json!({"user": "ada"})));
}

/// A thread matches if all given keys have equal JSON values.
pub async fn threads_are_found_by_metadata(journal: Any, clock: TestClock) {
    for (thread, metadata) in [
        ("a", json!({"user": "ada", "tags": ["x"], "n": 1})),
        ("b", json!({"user": "bob", "tags": ["x"]})),
        ("c", json!({"user": "ada", "n": "1"})),
        ("d", json!({})),
    ] {
        clock.pass(minute());
        write(&journal, thread, vec![step(1)]).await;
        journal.threads().set_metadata(thread, map(metadata)).await.unwrap();
    }
    let query = ThreadQuery::default;
    assert_eq!(ids(&journal, query().metadata("user", "ada")).await, ["c", "a"]);
    assert_eq!(ids(&journal, query().metadata("user", "ada").metadata("n", 1)).await, ["a"]);
    assert_eq!(ids(&journal, query().metadata("tags", json!(["x"]))).await, ["b", "a"]);
    assert_eq!(ids(&journal, query().metadata("user", Value::Null)).await, ["d"]);
    assert!(ids(&journal, query().metadata("user", "eve")).await.is_empty());
    assert!(ids(&journal, query().metadata("user' OR '1", "ada")).await.is_empty());
}

/// The prefix may contain characters with a meaning in SQL.
pub async fn threads_are_found_by_status_and_prefix(journal: Any, clock: TestClock) {
    for (thread, records) in [
        ("p_1", vec![started("r")]),
        ("p%2", vec![started("r"), ended("r")]),
        ("q", vec![started("r"), Record::RunFinished { run: "r".to_owned(), stop: None }]),
        ("P", vec![step(1)]),
    ] {
        clock.pass(minute());
        write(&journal, thread, records).await;
    }
    let query = ThreadQuery::default;
    assert_eq!(ids(&journal, query().status(RunStatus::Open)).await, ["p_1"]);
    assert_eq!(ids(&journal, query().status(RunStatus::Ended)).await, ["p%2"]);
    assert_eq!(ids(&journal, query().status(RunStatus::Failed)).await, ["q"]);
    assert_eq!(ids(&journal, query().status(RunStatus::Empty)).await, ["P"]);
    assert_eq!(ids(&journal, query().prefix("p")).await, ["p%2", "p_1"]);
    assert_eq!(ids(&journal, query().prefix("p_")).await, ["p_1"]);
    assert_eq!(ids(&journal, query().prefix("p%")).await, ["p%2"]);
}

/// Limit and offset apply to the matching threads.
pub async fn threads_are_listed_in_pages(journal: Any, clock: TestClock) {
    for n in 0..7 {
        clock.pass(minute());
        write(&journal, &format!("t{n}"), vec![step(1)]).await;
        journal.threads().set_metadata(&format!("t{n}"), map(json!({"odd": n % 2 == 1}))).await.unwrap();
    }
    let page = |offset, limit| ThreadQuery::default().offset(offset).limit(limit);
    assert_eq!(ids(&journal, page(0, 2)).await, ["t6", "t5"]);
    assert_eq!(ids(&journal, page(2, 2)).await, ["t4", "t3"]);
    assert_eq!(ids(&journal, page(6, 2)).await, ["t0"]);
    assert_eq!(ids(&journal, page(1, 2).metadata("odd", true)).await, ["t3", "t1"]);
    assert!(ids(&journal, page(0, 0)).await.is_empty());
}

/// Lists threads page by page, by every sort key and in both directions, and does the same for the children of a
/// thread, which use other indexes.
pub async fn threads_are_listed_in_every_order_from_any_place(journal: Any, clock: TestClock) {
    // Created in the order of their names except for the last one, several at once; last changed in another order.
    let names = ["p/b", "p/c", "p/d", "p/e", "p/a"];
    journal.threads().set_metadata("p", map(json!({"root": true}))).await.unwrap();
    for parent in [None, Some("p")] {
        let name = |name: &str| if parent.is_some() { name.to_owned() } else { name.replacen("p/", "t", 1) };
        for (nth, thread) in names.iter().map(|each| name(each)).enumerate() {
            if nth != 2 {
                clock.pass(minute());
            }
            journal.threads().set_metadata(&thread, map(json!({"n": nth}))).await.unwrap();
            journal.threads().set_parent(&thread, parent).await.unwrap();
        }
        for thread in ["p/d", "p/b", "p/e"] {
            clock.pass(minute() / 3);
            write(&journal, &name(thread), vec![step(1)]).await;
        }
        let query = || match parent {
            Some(parent) => ThreadQuery::default().parent(parent),
            None => ThreadQuery::default().prefix("t"),
        };
        for (sort, direction, expected) in [
            (ThreadSort::CreatedAt, SortDirection::Ascending, ["p/b", "p/c", "p/d", "p/e", "p/a"]),
            (ThreadSort::CreatedAt, SortDirection::Descending, ["p/a", "p/e", "p/c", "p/d", "p/b"]),
            (ThreadSort::UpdatedAt, SortDirection::Ascending, ["p/c", "p/a", "p/d", "p/b", "p/e"]),
            (ThreadSort::UpdatedAt, SortDirection::Descending, ["p/e", "p/b", "p/d", "p/a", "p/c"]),
            (ThreadSort::Id, SortDirection::Ascending, ["p/a", "p/b", "p/c", "p/d", "p/e"]),
            (ThreadSort::Id, SortDirection::Descending, ["p/e", "p/d", "p/c", "p/b", "p/a"]),
        ] {
            let query = || query().sorted(sort, direction);
            let expected = expected.map(name);
            assert_eq!(ids(&journal, query()).await, expected, "{sort:?} {direction:?}");
            for size in [1, 2, 4] {
                let mut found = Vec::new();
                let mut page = query().limit(size);
                while let listed = journal.threads().list(&page).await.unwrap()
                    && let Some(last) = listed.last()
                {
                    page = page.after(last);
                    found.extend(listed.into_iter().map(|thread| thread.id));
                }
                assert_eq!(found, expected, "{sort:?} {direction:?} by {size}");
            }
        }
    }
    let last = journal.threads().get("tb").await.unwrap().unwrap();
    let behind = ThreadQuery::default().prefix("t").metadata("n", 4).after(&last);
    assert_eq!(ids(&journal, behind).await, ["ta"], "metadata counts behind the place too");
}

/// Other keys are unchanged.
pub async fn metadata_is_merged_and_null_removes(journal: Any, _: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    for change in [json!({"a": 1, "b": {"x": 1}}), json!({"b": {"y": 2}, "c": "\u{0}"}), json!({"a": null})] {
        journal.threads().set_metadata("t", map(change)).await.unwrap();
    }
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!(Value::Object(info.metadata), json!({"b": {"y": 2}, "c": "\u{0}"}));
}

/// Changing the metadata of a missing thread does not create it.
pub async fn metadata_of_a_thread_that_is_not_there_is_not_changed(journal: Any, _: TestClock) {
    let changed = journal.threads().update_metadata("t", map(json!({"user": "ada"}))).await;
    assert!(matches!(changed, Err(JournalError::NotFound { thread }) if thread == "t"));
    assert!(ids(&journal, ThreadQuery::default()).await.is_empty());
    journal.threads().set_metadata("t", map(json!({"user": "ada", "n": 1}))).await.unwrap();
    journal.threads().update_metadata("t", map(json!({"n": null, "m": 2}))).await.unwrap();
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!(Value::Object(info.metadata), json!({"user": "ada", "m": 2}));
    journal.threads().delete("t").await.unwrap();
    assert!(journal.threads().update_metadata("t", map(json!({"m": 3}))).await.is_err());
    assert!(journal.threads().get("t").await.unwrap().is_none());
}

/// Metadata may be set before the first run.
pub async fn a_thread_may_begin_with_metadata(journal: Any, _: TestClock) {
    journal.threads().set_metadata("t", map(json!({"user": "ada"}))).await.unwrap();
    assert_eq!(ids(&journal, ThreadQuery::default()).await, ["t"]);
    let fence = own(&journal, "t").await;
    journal.release("t", fence).await.unwrap();
    assert!(journal.threads().get("t").await.unwrap().is_some(), "it stays when a run comes to nothing");
    assert!(matches!(journal.threads().set_metadata("", Map::new()).await, Err(JournalError::Name { .. })));
}

/// Started, ended, failed, resumed.
pub async fn the_status_follows_the_runs(journal: Any, _: TestClock) {
    let resumed = Record::RunResumed { run: "s".to_owned(), at: String::new(), thread: None, keys: None };
    for (records, status) in [
        (vec![says("m", "x")], RunStatus::Empty),
        (vec![started("r"), step(1)], RunStatus::Open),
        (vec![Record::RunFinished { run: "r".to_owned(), stop: None }], RunStatus::Failed),
        (vec![resumed], RunStatus::Open),
        (vec![ended("s")], RunStatus::Ended),
        (vec![says("n", "y")], RunStatus::Ended),
        (
            vec![started("v"), Record::RunFinished { run: "v".to_owned(), stop: Some(FinishReason::Interrupted) }],
            RunStatus::Interrupted,
        ),
    ] {
        write(&journal, "t", records).await;
        assert_eq!(journal.threads().get("t").await.unwrap().unwrap().status, status);
    }
}

/// The reason is that of the last run, and the same in a copy. A run in progress and a failed one have none.
pub async fn the_reason_for_which_the_last_run_ended_is_described(journal: Any, _: TestClock) {
    let finished = |stop| vec![Record::RunFinished { run: "r".to_owned(), stop }];
    let stop = async |thread: &str| journal.threads().get(thread).await.unwrap().unwrap().stop;
    let (limit, cost) = (FinishReason::StepLimit, FinishReason::Budget(BudgetKind::Cost));
    for (records, expected) in [
        (vec![started("r"), step(1)], None),
        (finished(Some(limit.clone())), Some(limit.clone())),
        (vec![says("m", "x")], Some(limit.clone())),
        (vec![started("r")], None),
        (finished(None), None),
        ([vec![started("r")], finished(Some(FinishReason::Interrupted))].concat(), Some(FinishReason::Interrupted)),
        ([vec![started("r")], finished(Some(cost.clone()))].concat(), Some(cost.clone())),
        ([vec![started("r")], finished(Some(FinishReason::Done))].concat(), Some(FinishReason::Done)),
    ] {
        write(&journal, "t", records).await;
        assert_eq!(stop("t").await, expected);
    }
    let listed = journal.threads().list(&ThreadQuery::default()).await.unwrap();
    assert_eq!(listed[0].stop, Some(FinishReason::Done));
    for (until, expected) in [(None, Some(FinishReason::Done)), (Some(4), Some(limit)), (Some(2), None)] {
        let copy = format!("until {until:?}");
        journal.threads().copy("t", &copy, until).await.unwrap();
        assert_eq!(stop(&copy).await, expected, "{until:?}");
    }
}

/// The reported size is close to the number of bytes written.
pub async fn sizes_grow_with_what_is_appended(journal: Any, _: TestClock) {
    write(&journal, "t", vec![says("m", &"x".repeat(10_000))]).await;
    let small = journal.threads().get("t").await.unwrap().unwrap().bytes;
    assert!((10_000..12_000).contains(&small), "{small}");
    write(&journal, "t", vec![says("n", &"x".repeat(100_000))]).await;
    let large = journal.threads().get("t").await.unwrap().unwrap().bytes;
    assert!((110_000..115_000).contains(&large), "{large}");
}

/// Log, snapshots and metadata are deleted.
pub async fn a_deleted_thread_is_gone_and_others_stay(journal: Any, _: TestClock) {
    live(&journal, "t", 3).await;
    live(&journal, "u", 2).await;
    let fence = own(&journal, "t").await;
    let snapshot = deepagents_core::journal::Snapshot { position: 2, body: "{}".to_owned() };
    journal.put_snapshot("t", fence, snapshot).await.unwrap();
    assert!(journal.threads().delete("t").await.unwrap());
    assert!(journal.threads().get("t").await.unwrap().is_none());
    let loaded = journal.load("t", None).await.unwrap();
    assert_eq!((loaded.end, loaded.entries.len(), loaded.snapshot), (0, 0, None));
    assert_eq!(ids(&journal, ThreadQuery::default()).await, ["u"]);
    assert_eq!(write(&journal, "t", vec![step(1)]).await, 1, "it begins anew");
}

/// Deleting returns `false` then.
pub async fn deleting_an_unknown_thread_does_nothing(journal: Any, _: TestClock) {
    assert!(!journal.threads().delete("nobody").await.unwrap());
}

/// Every append and metadata change restarts the time to live.
pub async fn a_thread_lives_as_long_as_it_is_told_after_its_last_change(journal: Any, clock: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    write(&journal, "stays", vec![step(1)]).await;
    journal.threads().set_ttl("t", Some(minute())).await.unwrap();
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().expires_at, Some(clock.now() + minute()));
    clock.pass(Duration::from_secs(40));
    write(&journal, "t", vec![step(2)]).await;
    clock.pass(Duration::from_secs(40));
    journal.threads().set_metadata("t", map(json!({"a": 1}))).await.unwrap();
    clock.pass(Duration::from_secs(40));
    assert_eq!(journal.load("t", None).await.unwrap().end, 2);
    assert_eq!(journal.threads().sweep().await.unwrap(), 0);
    clock.pass(Duration::from_secs(20));
    assert!(journal.threads().get("t").await.unwrap().is_none());
    assert_eq!(journal.load("t", None).await.unwrap().end, 0);
    assert!(journal.read("t", 0..9).await.unwrap().is_empty());
    assert_eq!(ids(&journal, ThreadQuery::default()).await, ["stays"]);
    assert!(!journal.threads().delete("t").await.unwrap());
    write(&journal, "u", vec![step(1)]).await;
    journal.threads().set_ttl("u", Some(minute())).await.unwrap();
    clock.pass(minute());
    assert!(journal.threads().sweep().await.unwrap() >= 1);
    assert_eq!(journal.threads().sweep().await.unwrap(), 0);
}

/// An expired thread starts over as if it had been swept.
pub async fn a_thread_that_is_over_begins_anew(journal: Any, clock: TestClock) {
    for _ in 0..2 {
        write(&journal, "t", vec![step(1)]).await;
        journal.threads().set_metadata("t", map(json!({"a": 1}))).await.unwrap();
        journal.threads().set_ttl("t", Some(minute())).await.unwrap();
        clock.pass(minute());
    }
    assert_eq!(write(&journal, "t", vec![step(1)]).await, 1);
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.expires_at, info.metadata.len(), info.created_at), (None, 0, clock.now()));
}

/// Without a time to live, a thread never expires.
pub async fn a_time_to_live_can_be_taken_back(journal: Any, clock: TestClock) {
    write(&journal, "t", vec![step(1)]).await;
    journal.threads().set_ttl("t", Some(minute())).await.unwrap();
    journal.threads().set_ttl("t", None).await.unwrap();
    clock.pass(minute() * 1_000);
    assert!(journal.threads().get("t").await.unwrap().is_some());
    let error = journal.threads().set_ttl("nobody", None).await.unwrap_err();
    assert!(matches!(error, JournalError::NotFound { .. }), "{error:?}");
}

/// The thread is kept while the lease lasts, for every method.
pub async fn a_thread_that_is_worked_on_is_not_over(journal: Any, clock: TestClock) {
    let second = Duration::from_secs(1);
    write(&journal, "t", vec![step(1)]).await;
    journal.threads().set_ttl("t", Some(second)).await.unwrap();
    let fence = journal.claim("t", Claim::new("works", minute())).await.unwrap();
    clock.pass(second * 30);
    assert_eq!(journal.threads().sweep().await.unwrap(), 0);
    assert_eq!(journal.load("t", None).await.unwrap().end, 1);
    assert_eq!(ids(&journal, ThreadQuery::default()).await, ["t"]);
    journal.renew("t", fence, minute()).await.unwrap();
    clock.pass(second * 30);
    assert_eq!(journal.append("t", fence, 1, vec![step(2)]).await.unwrap().end, 2);
    clock.pass(second * 20);
    assert!(matches!(journal.claim("t", Claim::new("other", minute())).await, Err(JournalError::Busy { .. })));
    journal.release("t", fence).await.unwrap();
    assert_eq!(journal.threads().sweep().await.unwrap(), 1, "now it is");
    assert!(journal.threads().get("t").await.unwrap().is_none());
}
