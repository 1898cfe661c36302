//! The contract of a [`Store`]. Run by [`store_suite!`](crate::store_suite).

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::store::{
    Comparison, Expected, Filter, Item, KeyInfo, KeyQuery, NamespaceQuery, Query, Store, StoreError, Write,
};
use serde_json::{Value, json};

use super::TestClock;

/// The store under test.
pub type Any = Arc<dyn Store>;

fn ns(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

fn places(items: &[Item]) -> Vec<String> {
    items.iter().map(|item| format!("{}:{}", item.namespace.join("/"), item.key)).collect()
}

async fn filled(store: &Any) {
    for (namespace, key, kind) in [
        (ns(&["b"]), "1", "note"),
        (ns(&["a", "x"]), "2", "note"),
        (ns(&["a"]), "1", "fact"),
        (ns(&["a", "x"]), "1", "fact"),
        (ns(&["ab"]), "1", "note"),
        (ns(&["a!"]), "1", "note"),
    ] {
        store.put(&namespace, key, json!({"kind": kind, "tags": ["t"]})).await.unwrap();
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the result of a call is passed as it is")]
fn conflict(result: Result<Item, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict { .. }))
}

/// An item exists until it is deleted.
pub async fn a_stored_value_reads_back_and_delete_reports_whether_it_existed(store: Any, _: TestClock) {
    let a = ns(&["a"]);
    assert_eq!(store.get(&a, "k").await.unwrap(), None);
    let put = store.put(&a, "k", json!(1)).await.unwrap();
    assert_eq!(store.get(&a, "k").await.unwrap(), Some(put));
    assert_eq!(store.get(&ns(&["a", "k"]), "k").await.unwrap(), None);
    assert!(store.delete(&a, "k").await.unwrap());
    assert!(!store.delete(&a, "k").await.unwrap());
    assert_eq!(store.get(&a, "k").await.unwrap(), None);
}

/// Any JSON value, including null, and any key without NUL.
pub async fn values_come_back_as_they_were(store: Any, _: TestClock) {
    let values = [
        json!(null),
        json!("\u{0} ü \u{1f600}"),
        json!({"z": 1, "a": [0.1, -0.0, u64::MAX, i64::MIN, 1e300]}),
        json!([]),
    ];
    for (key, value) in ["", "%_'\"\\", "ü/ü", &"k".repeat(2000)].into_iter().zip(values) {
        store.put(&ns(&["a"]), key, value.clone()).await.unwrap();
        let found = store.get(&ns(&["a"]), key).await.unwrap().unwrap();
        assert_eq!((found.key.as_str(), found.value.to_string()), (key, value.to_string()));
    }
}

/// The second write updates the item and does not create a new one.
pub async fn overwriting_keeps_the_creation_time_and_counts_versions(store: Any, clock: TestClock) {
    let a = ns(&["a"]);
    let first = store.put(&a, "k", json!(1)).await.unwrap();
    clock.pass(Duration::from_secs(1));
    let second = store.put(&a, "k", json!(2)).await.unwrap();
    assert!(first.version < second.version, "{} before {}", first.version, second.version);
    assert_eq!(second.created_at, first.created_at);
    assert!(second.updated_at > first.updated_at, "{} after {}", second.updated_at, first.updated_at);
    assert_eq!(store.get(&a, "k").await.unwrap(), Some(second));
}

/// Compare and swap.
pub async fn a_conditional_write_wins_only_at_the_version_it_expects(store: Any, _: TestClock) {
    let a = ns(&["a"]);
    assert!(conflict(store.put_if(&a, "k", json!(0), Some(1)).await));
    let first = store.put_if(&a, "k", json!(1), None).await.unwrap().version;
    assert!(conflict(store.put_if(&a, "k", json!(2), None).await));
    assert!(conflict(store.put_if(&a, "k", json!(2), Some(first + 6)).await));
    assert!(store.put_if(&a, "k", json!(2), Some(first)).await.unwrap().version > first);
    assert_eq!(store.get(&a, "k").await.unwrap().unwrap().value, json!(2));
}

/// A counter incremented concurrently loses no increment.
pub async fn of_conditional_writes_at_once_exactly_one_wins(store: Any, _: TestClock) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        tasks.spawn(async move {
            let a = ns(&["a"]);
            let mut raised = 0;
            while raised < 5 {
                let now = store.get(&a, "n").await.unwrap();
                let count = now.as_ref().and_then(|item| item.value.as_u64()).unwrap_or(0);
                match store.put_if(&a, "n", json!(count + 1), now.map(|item| item.version)).await {
                    Ok(_) => raised += 1,
                    Err(StoreError::Conflict { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    let found = store.get(&ns(&["a"]), "n").await.unwrap().unwrap();
    assert_eq!(found.value, json!(40));
    assert!(found.version >= 40, "{} after 40 writes", found.version);
}

/// Results are ordered by namespace, then key.
pub async fn a_search_matches_whole_namespace_labels_and_is_ordered(store: Any, _: TestClock) {
    filled(&store).await;
    let all = Query::default();
    assert_eq!(places(&store.search(&ns(&["a"]), &all).await.unwrap()), ["a:1", "a/x:1", "a/x:2"]);
    assert_eq!(places(&store.search(&[], &all).await.unwrap()), ["a:1", "a/x:1", "a/x:2", "a!:1", "ab:1", "b:1"]);
    assert!(store.search(&ns(&["nobody"]), &all).await.unwrap().is_empty());
}

/// Limit and offset apply to the matching items.
pub async fn a_search_is_narrowed_by_key_and_fields_and_paged(store: Any, _: TestClock) {
    filled(&store).await;
    let notes = Query { fields: json!({"kind": "note"}).as_object().unwrap().clone(), ..Query::default() };
    assert_eq!(places(&store.search(&[], &notes).await.unwrap()), ["a/x:2", "a!:1", "ab:1", "b:1"]);
    let page = Query { limit: 2, offset: 1, ..notes.clone() };
    assert_eq!(places(&store.search(&[], &page).await.unwrap()), ["a!:1", "ab:1"]);
    let beyond = Query { offset: 9, ..notes };
    assert!(store.search(&[], &beyond).await.unwrap().is_empty());
    let twos = Query { key_prefix: "2".to_owned(), ..Query::default() };
    assert_eq!(places(&store.search(&[], &twos).await.unwrap()), ["a/x:2"]);
    for key in ["p_1", "p%1", "pq1", "P_1"] {
        store.put(&ns(&["keys"]), key, json!(1)).await.unwrap();
    }
    let literal = Query { key_prefix: "p_".to_owned(), ..Query::default() };
    assert_eq!(places(&store.search(&[], &literal).await.unwrap()), ["keys:p_1"]);
}

/// Numbers compare with numbers and strings with strings. Values without an order do not match.
pub async fn a_search_compares(store: Any, _: TestClock) {
    let a = ns(&["a"]);
    let values =
        [json!({"n": 1}), json!({"n": 2.5}), json!({"n": "2"}), json!({"n": {"m": 3}}), json!({"n": null}), json!(7)];
    for (at, value) in values.into_iter().enumerate() {
        store.put(&a, &at.to_string(), value).await.unwrap();
    }
    let keys = async |field: &str, is: Comparison| {
        let query = Query { filters: vec![Filter::new(field, is)], ..Query::default() };
        store.search(&a, &query).await.unwrap().into_iter().map(|item| item.key).collect::<String>()
    };
    assert_eq!(keys("n", Comparison::Above(json!(1))).await, "1");
    assert_eq!(keys("n", Comparison::AtLeast(json!(1))).await, "01");
    assert_eq!(keys("n", Comparison::Below(json!(2.5))).await, "0");
    assert_eq!(keys("n", Comparison::AtMost(json!("3"))).await, "2");
    assert_eq!(keys("n.m", Comparison::Equal(json!(3))).await, "3");
    assert_eq!(keys("n", Comparison::Equal(Value::Null)).await, "45");
    assert_eq!(keys("n", Comparison::NotEqual(json!(1))).await, "12345");
    let both = vec![Filter::new("n", Comparison::Above(json!(0))), Filter::new("n", Comparison::Below(json!(2)))];
    let both = Query { filters: both, ..Query::default() };
    assert_eq!(store.search(&a, &both).await.unwrap().len(), 1);
}

/// Missing items are left out, and no item is returned in place of another.
pub async fn many_items_are_read_at_once_in_the_order_of_their_keys(store: Any, clock: TestClock) {
    let a = ns(&["a"]);
    let long = "k".repeat(2000);
    for key in ["1", "2", "ü", &long] {
        store.put(&a, key, json!({"key": key})).await.unwrap();
    }
    store.put(&ns(&["a", "x"]), "3", json!(1)).await.unwrap();
    store.write(&a, "over", json!(1), Write { ttl: Some(Duration::from_secs(1)), ..Write::default() }).await.unwrap();
    clock.pass(Duration::from_secs(1));
    let found = store.get_many(&a, &["ü", "over", "1", "3", &long, "nobody", "a\0b"]).await.unwrap();
    assert_eq!(found.iter().map(|item| &*item.key).collect::<Vec<_>>(), ["ü", "1", &long]);
    assert_eq!(Some(&found[1]), store.get(&a, "1").await.unwrap().as_ref());
    assert!(store.get_many(&a, &[]).await.unwrap().is_empty());
}

async fn keys(store: &Any, namespace: &[&str], query: KeyQuery) -> Vec<String> {
    store.list_keys(&ns(namespace), &query).await.unwrap().into_iter().map(|info| info.key).collect()
}

/// Keys of nested namespaces are not listed, and the order is by bytes.
pub async fn keys_are_those_of_one_namespace_in_order(store: Any, _: TestClock) {
    filled(&store).await;
    assert_eq!(keys(&store, &["a"], KeyQuery::default()).await, ["1"]);
    assert_eq!(keys(&store, &["a", "x"], KeyQuery::default()).await, ["1", "2"]);
    assert!(keys(&store, &[], KeyQuery::default()).await.is_empty());
    assert!(keys(&store, &["nobody"], KeyQuery::default()).await.is_empty());
    let long = |end: &str| format!("/{}{end}", "long".repeat(400));
    let mut names = ["", "/b/x", "/b-c", "/b", "/a", "/A", "/ü", "/\u{10ffff}", "%", "'"].map(str::to_owned).to_vec();
    names.extend([long("2"), long("1"), long("")]);
    for name in &names {
        store.put(&ns(&["n"]), name, json!(1)).await.unwrap();
    }
    names.sort();
    assert_eq!(keys(&store, &["n"], KeyQuery::default()).await, names);
}

/// A prefix is literal text, not a pattern. A page starts after a key, which need not exist any more.
pub async fn keys_are_narrowed_by_how_they_begin_and_paged(store: Any, _: TestClock) {
    let long = |n: usize| format!("/d/{}{n}", "long".repeat(30));
    let mut names: Vec<String> = (0..5).map(long).collect();
    names.extend(["/d/_1", "/d/%1", "/d/a", "/d/\u{10ffff}z"].map(str::to_owned));
    for name in names.iter().map(String::as_str).chain(["/d", "/d-", "/d0", "/e"]) {
        store.put(&ns(&["n"]), name, json!(1)).await.unwrap();
    }
    names.sort();
    let below = KeyQuery::default().prefix("/d/");
    assert_eq!(keys(&store, &["n"], below.clone()).await, names);
    assert_eq!(keys(&store, &["n"], KeyQuery::default().prefix("/d/_")).await, ["/d/_1"]);
    assert_eq!(keys(&store, &["n"], KeyQuery::default().prefix("/d").limit(1)).await, ["/d"]);
    assert!(keys(&store, &["n"], KeyQuery::default().prefix("/x")).await.is_empty());
    assert!(keys(&store, &["n"], KeyQuery::default().prefix("/d\0")).await.is_empty());
    assert!(keys(&store, &["n"], below.clone().limit(0)).await.is_empty());
    for size in 1..=names.len() + 1 {
        let (mut paged, mut page) = (Vec::new(), below.clone().limit(size));
        loop {
            let found = keys(&store, &["n"], page.clone()).await;
            assert!(found.len() <= size);
            let Some(last) = found.last() else { break };
            page = page.after(last);
            paged.extend(found);
        }
        assert_eq!(paged, names, "pages of {size}");
    }
    assert_eq!(keys(&store, &["n"], below.clone().after("/")).await, names, "it comes before the prefix");
    assert!(keys(&store, &["n"], below.clone().after("/e")).await.is_empty(), "it comes after the prefix");
    assert_eq!(keys(&store, &["n"], below.clone().after("/d/%\0").limit(1)).await, ["/d/%1"]);
    store.delete(&ns(&["n"]), "/d/_1").await.unwrap();
    assert_eq!(keys(&store, &["n"], below.after("/d/_1").limit(1)).await, ["/d/a"]);
}

/// The size is that of the value as JSON, unless the writer gives another.
pub async fn a_key_tells_what_its_item_tells(store: Any, clock: TestClock) {
    let a = ns(&["a"]);
    let value = json!({"text": "ü\n".repeat(20_000), "n": 1.50});
    let sized = Write { size: Some(7), ..Write::default() };
    store.put(&a, "plain", value.clone()).await.unwrap();
    store.write(&a, "said", value.clone(), sized).await.unwrap();
    let before = store.write(&a, "said before", json!(1), sized).await.unwrap().version;
    clock.pass(Duration::from_secs(1));
    store.put(&a, "said before", json!("now")).await.unwrap();
    let told = store.list_keys(&a, &KeyQuery::default()).await.unwrap();
    let items = store.search(&a, &Query::default()).await.unwrap();
    assert_eq!(told, items.iter().map(KeyInfo::from).collect::<Vec<_>>());
    let sizes: Vec<_> = told.iter().map(|info| (info.key.as_str(), info.size)).collect();
    let json = value.to_string().len() as u64;
    assert_eq!(sizes, [("plain", json), ("said", 7), ("said before", 5)]);
    // A store may count versions per item or globally.
    assert!(told[2].version > before, "{} after {before}", told[2].version);
    assert_eq!(store.get(&a, "said").await.unwrap().unwrap().size, 7);
}

/// A namespace exists as long as it contains an item.
pub async fn namespaces_are_listed_once_in_order_and_vanish_with_their_last_item(store: Any, _: TestClock) {
    filled(&store).await;
    let all = [ns(&["a"]), ns(&["a", "x"]), ns(&["a!"]), ns(&["ab"]), ns(&["b"])];
    assert_eq!(store.namespaces(&[]).await.unwrap(), all);
    assert_eq!(store.namespaces(&ns(&["a"])).await.unwrap(), [ns(&["a"]), ns(&["a", "x"])]);
    store.delete(&ns(&["a", "x"]), "1").await.unwrap();
    store.delete(&ns(&["a", "x"]), "2").await.unwrap();
    assert_eq!(store.namespaces(&ns(&["a"])).await.unwrap(), [ns(&["a"])]);
}

/// A star matches any label. Namespaces below the requested depth are truncated to it.
pub async fn namespaces_are_found_by_their_ends_and_to_a_depth(store: Any, _: TestClock) {
    for namespace in ["users ada notes", "users ada facts", "users bob notes", "users bob", "teams ada notes x"] {
        let namespace: Vec<&str> = namespace.split(' ').collect();
        store.put(&ns(&namespace), "k", json!(1)).await.unwrap();
    }
    let list = async |query: NamespaceQuery| {
        let found = store.list_namespaces(&query).await.unwrap();
        found.iter().map(|namespace| namespace.join(" ")).collect::<Vec<_>>()
    };
    let query = NamespaceQuery::default;
    assert_eq!(list(query()).await.len(), 5);
    assert_eq!(list(query().prefix(["users", "ada"])).await, ["users ada facts", "users ada notes"]);
    assert_eq!(list(query().suffix(["notes"])).await, ["users ada notes", "users bob notes"]);
    assert_eq!(list(query().prefix(["*", "ada"])).await, ["teams ada notes x", "users ada facts", "users ada notes"]);
    assert_eq!(list(query().prefix(["users"]).suffix(["*", "notes"]).limit(1)).await, ["users ada notes"]);
    assert_eq!(list(query().depth(2)).await, ["teams ada", "users ada", "users bob"]);
    assert_eq!(list(query().depth(2).offset(1).limit(1)).await, ["users ada"]);
    assert!(list(query().prefix(["use"])).await.is_empty() && list(query().suffix(["es"])).await.is_empty());
}

/// Neither namespace nor key may contain NUL, and a namespace must have labels.
pub async fn places_that_cannot_be_used_are_refused_and_nothing_is_stored(store: Any, _: TestClock) {
    for bad in [ns(&[]), ns(&[""]), ns(&["a", ""]), ns(&["a\0b"])] {
        assert!(matches!(store.put(&bad, "k", json!(1)).await, Err(StoreError::Namespace { .. })), "{bad:?}");
        assert!(store.put_if(&bad, "k", json!(1), None).await.is_err());
    }
    assert!(matches!(store.put(&ns(&["a"]), "a\0b", json!(1)).await, Err(StoreError::Key { .. })));
    assert!(store.search(&[], &Query::default()).await.unwrap().is_empty());
}

/// JSON parsers accept a depth of about a hundred.
pub async fn values_that_could_not_be_read_again_are_refused_and_nothing_is_stored(store: Any, _: TestClock) {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    let a = ns(&["a"]);
    assert!(matches!(store.put(&a, "k", nested(97)).await, Err(StoreError::Value { key, .. }) if key == "k"));
    assert!(store.search(&[], &Query::default()).await.unwrap().is_empty());
    store.put(&a, "k", nested(96)).await.unwrap();
    assert_eq!(store.get(&a, "k").await.unwrap().unwrap().value, nested(96));
}

/// An expired item is gone for every method.
pub async fn an_item_lives_as_long_as_it_is_told_after_its_last_write(store: Any, clock: TestClock) {
    let a = ns(&["a"]);
    let minute = Duration::from_secs(60);
    let short = Write { ttl: Some(minute), ..Write::default() };
    let item = store.write(&a, "k", json!(1), short).await.unwrap();
    assert!(item.expires_at.is_some());
    assert_eq!(store.get(&a, "k").await.unwrap(), Some(item));
    store.put(&ns(&["b"]), "stays", json!(1)).await.unwrap();
    clock.pass(Duration::from_secs(40));
    store.write(&a, "k", json!(2), short).await.unwrap();
    clock.pass(Duration::from_secs(40));
    assert_eq!(store.get(&a, "k").await.unwrap().unwrap().value, json!(2));
    clock.pass(Duration::from_secs(20));
    assert_eq!(store.get(&a, "k").await.unwrap(), None);
    assert_eq!(places(&store.search(&[], &Query::default()).await.unwrap()), ["b:stays"]);
    assert!(keys(&store, &["a"], KeyQuery::default()).await.is_empty());
    assert_eq!(store.namespaces(&[]).await.unwrap(), [ns(&["b"])]);
    store.write(&a, "l", json!(1), short).await.unwrap();
    store.write(&a, "m", json!(1), short).await.unwrap();
    store.put(&a, "m", json!(2)).await.unwrap();
    clock.pass(minute);
    assert!(store.sweep().await.unwrap() >= 1);
    assert_eq!(store.sweep().await.unwrap(), 0);
    assert!(store.get(&a, "m").await.unwrap().is_some(), "the last write said for ever");
}

/// An expired item starts over as if it had been swept.
pub async fn an_item_that_is_over_begins_anew(store: Any, clock: TestClock) {
    let a = ns(&["a"]);
    store.write(&a, "k", json!(1), Write { ttl: Some(Duration::from_secs(1)), ..Write::default() }).await.unwrap();
    clock.pass(Duration::from_secs(1));
    assert!(!store.delete(&a, "k").await.unwrap());
    store.write(&a, "k", json!(1), Write { ttl: Some(Duration::from_secs(1)), ..Write::default() }).await.unwrap();
    clock.pass(Duration::from_secs(1));
    let write = Write { expected: Expected::Version(None), ..Write::default() };
    let item = store.write(&a, "k", json!(2), write).await.unwrap();
    assert_eq!(item.created_at, item.updated_at);
}

/// Otherwise, a conditional write could replace an item stored by somebody else in the meantime.
pub async fn a_version_of_a_key_does_not_come_again(store: Any, clock: TestClock) {
    let a = ns(&["a"]);
    let mut seen = std::collections::BTreeSet::new();
    let short = Write { ttl: Some(Duration::from_secs(1)), ..Write::default() };
    for _ in 0..3 {
        let mine = store.put(&a, "k", json!("mine")).await.unwrap().version;
        assert!(seen.insert(mine), "{mine} came before");
        store.delete(&a, "k").await.unwrap();
        let theirs = store.write(&a, "k", json!("theirs"), short).await.unwrap().version;
        assert!(conflict(store.put_if(&a, "k", json!("mine again"), Some(mine)).await));
        clock.pass(Duration::from_secs(1));
        let after = store.write(&a, "k", json!("after it was over"), short).await.unwrap().version;
        clock.pass(Duration::from_secs(1));
        store.sweep().await.unwrap();
        assert!(seen.insert(theirs) && seen.insert(after), "{theirs} or {after} came before");
    }
}

/// A value of several megabytes is read back unchanged.
pub async fn large_values_come_back(store: Any, _: TestClock) {
    let large = json!({"text": "0123456789abcdef".repeat(128 * 1024)});
    store.put(&ns(&["a"]), "k", large.clone()).await.unwrap();
    assert_eq!(store.get(&ns(&["a"]), "k").await.unwrap().unwrap().value, large);
}
