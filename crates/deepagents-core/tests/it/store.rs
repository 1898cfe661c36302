//! Long-term memory.

use std::sync::{Arc, Mutex};

use deepagents_core::env::{Clock, Timestamp};
use deepagents_core::forward_store;
use deepagents_core::store::{
    Item, KeyInfo, KeyQuery, MemoryStore, Namespace, NamespaceQuery, Query, Store, StoreError, check_namespace,
};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::json;

use crate::support::{agent, lines, tool};

/// A clock that advances by a second at each reading.
#[derive(Default)]
struct Ticking(Mutex<i64>);
impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        let mut seconds = self.0.lock().unwrap();
        *seconds += 1;
        Timestamp::from_second(*seconds).unwrap()
    }
}

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(Ticking::default()))
}

fn ns(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|l| (*l).to_owned()).collect()
}

fn places(items: &[Item]) -> Vec<String> {
    items.iter().map(|i| format!("{}:{}", i.namespace.join("/"), i.key)).collect()
}

async fn filled() -> MemoryStore {
    let store = store();
    for (namespace, key, kind) in [
        (ns(&["b"]), "1", "note"),
        (ns(&["a", "x"]), "2", "note"),
        (ns(&["a"]), "1", "fact"),
        (ns(&["a", "x"]), "1", "fact"),
        (ns(&["ab"]), "1", "note"),
    ] {
        store.put(&namespace, key, json!({"kind": kind, "tags": ["t"]})).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_stored_value_reads_back_and_delete_reports_whether_it_existed() {
    let store = store();
    let a = ns(&["a"]);
    assert_eq!(store.get(&a, "k").await.unwrap(), None);
    let put = store.put(&a, "k", json!(1)).await.unwrap();
    assert_eq!(store.get(&a, "k").await.unwrap(), Some(put));
    assert!(store.delete(&a, "k").await.unwrap());
    assert!(!store.delete(&a, "k").await.unwrap());
    assert_eq!(store.get(&a, "k").await.unwrap(), None);
}

#[tokio::test]
async fn overwriting_keeps_the_creation_time_and_counts_versions() {
    let store = store();
    let a = ns(&["a"]);
    let first = store.put(&a, "k", json!(1)).await.unwrap();
    let second = store.put(&a, "k", json!(2)).await.unwrap();
    assert_eq!((first.version, second.version), (1, 2));
    assert_eq!(second.created_at, first.created_at);
    assert!(second.updated_at > first.updated_at, "{} after {}", second.updated_at, first.updated_at);
    assert_eq!(store.get(&a, "k").await.unwrap().unwrap().value, json!(2));
}

#[tokio::test]
async fn a_conditional_put_succeeds_only_at_the_expected_version() {
    let store = store();
    let a = ns(&["a"]);
    let conflict = |r: Result<Item, StoreError>| matches!(r, Err(StoreError::Conflict { .. }));
    assert!(conflict(store.put_if(&a, "k", json!(0), Some(1)).await));
    assert_eq!(store.put_if(&a, "k", json!(1), None).await.unwrap().version, 1);
    assert!(conflict(store.put_if(&a, "k", json!(2), None).await));
    assert!(conflict(store.put_if(&a, "k", json!(2), Some(7)).await));
    assert_eq!(store.put_if(&a, "k", json!(2), Some(1)).await.unwrap().version, 2);
    assert_eq!(store.get(&a, "k").await.unwrap().unwrap().value, json!(2));
}

#[tokio::test]
async fn a_search_matches_whole_namespace_labels_and_is_ordered() {
    let store = filled().await;
    let all = Query::default();
    assert_eq!(places(&store.search(&ns(&["a"]), &all).await.unwrap()), ["a:1", "a/x:1", "a/x:2"]);
    assert_eq!(places(&store.search(&[], &all).await.unwrap()), ["a:1", "a/x:1", "a/x:2", "ab:1", "b:1"]);
    assert!(store.search(&ns(&["nobody"]), &all).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_search_can_be_narrowed_by_key_and_fields_and_paged() {
    let store = filled().await;
    let notes = Query { fields: json!({"kind": "note"}).as_object().unwrap().clone(), ..Query::default() };
    assert_eq!(places(&store.search(&[], &notes).await.unwrap()), ["a/x:2", "ab:1", "b:1"]);
    let page = Query { limit: 1, offset: 1, ..notes.clone() };
    assert_eq!(places(&store.search(&[], &page).await.unwrap()), ["ab:1"]);
    let beyond = Query { offset: 9, ..notes };
    assert!(store.search(&[], &beyond).await.unwrap().is_empty());
    let twos = Query { key_prefix: "2".to_owned(), ..Query::default() };
    assert_eq!(places(&store.search(&[], &twos).await.unwrap()), ["a/x:2"]);
    let lists = Query { fields: json!({"tags": ["t"]}).as_object().unwrap().clone(), ..Query::default() };
    assert_eq!(store.search(&[], &lists).await.unwrap().len(), 5);
    let missing = Query { fields: json!({"other": null}).as_object().unwrap().clone(), ..Query::default() };
    assert!(store.search(&[], &missing).await.unwrap().is_empty());
}

#[tokio::test]
async fn namespaces_are_listed_once_in_order_and_vanish_with_their_last_item() {
    let store = filled().await;
    assert_eq!(store.namespaces(&[]).await.unwrap(), [ns(&["a"]), ns(&["a", "x"]), ns(&["ab"]), ns(&["b"])]);
    assert_eq!(store.namespaces(&ns(&["a"])).await.unwrap(), [ns(&["a"]), ns(&["a", "x"])]);
    store.delete(&ns(&["a", "x"]), "1").await.unwrap();
    store.delete(&ns(&["a", "x"]), "2").await.unwrap();
    assert_eq!(store.namespaces(&ns(&["a"])).await.unwrap(), [ns(&["a"])]);
}

#[tokio::test]
async fn invalid_namespaces_are_refused_and_nothing_is_stored() {
    let store = store();
    for bad in [ns(&[]), ns(&[""]), ns(&["a", ""]), ns(&["a\0b"])] {
        assert!(matches!(store.put(&bad, "k", json!(1)).await, Err(StoreError::Namespace { .. })), "{bad:?}");
        assert!(store.put_if(&bad, "k", json!(1), None).await.is_err());
        assert!(check_namespace(&bad).is_err());
    }
    assert!(store.search(&[], &Query::default()).await.unwrap().is_empty());
    assert!(check_namespace(&ns(&["users", "ada@example.com", "notes.v2"])).is_ok());
}

#[tokio::test]
async fn tools_can_reach_their_agents_store() {
    let store: Arc<dyn Store> = Arc::new(store());
    let remember = tool("remember", |args, cx| async move {
        let store = cx.store().cloned().unwrap();
        let item = store.put(&["notes".to_owned()], "last", args).await?;
        Ok(format!("version {}", item.version))
    });
    let turn = || Turn::call("remember", json!({"x": 1}));
    let agent = agent(ScriptedModel::new([turn(), turn(), Turn::text("done")]))
        .tool(remember)
        .store(store.clone())
        .build()
        .unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[4], "result: version 2");
    assert_eq!(store.get(&["notes".to_owned()], "last").await.unwrap().unwrap().value, json!({"x": 1}));
}

/// A store that records which of its methods with a default are called.
#[derive(Default)]
struct Quick {
    inner: MemoryStore,
    called: Mutex<Vec<&'static str>>,
}

impl Store for Quick {
    forward_store!([.inner]; get, write, delete, search, namespaces, sweep);

    fn get_many<'a>(
        &'a self,
        namespace: &'a [String],
        keys: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<Item>, StoreError>> {
        self.called.lock().unwrap().push("get_many");
        self.inner.get_many(namespace, keys)
    }

    fn list_keys<'a>(
        &'a self,
        namespace: &'a [String],
        query: &'a KeyQuery,
    ) -> BoxFuture<'a, Result<Vec<KeyInfo>, StoreError>> {
        self.called.lock().unwrap().push("list_keys");
        self.inner.list_keys(namespace, query)
    }

    fn list_namespaces<'a>(&'a self, query: &'a NamespaceQuery) -> BoxFuture<'a, Result<Vec<Namespace>, StoreError>> {
        self.called.lock().unwrap().push("list_namespaces");
        self.inner.list_namespaces(query)
    }
}

struct Wrapper(Arc<Quick>);

impl Store for Wrapper {
    forward_store!([.0]; get, get_many, write, put, put_if, delete, search, list_keys, namespaces, list_namespaces);
    forward_store!([.0]; sweep);
}

#[tokio::test]
async fn a_wrapper_of_a_store_uses_the_methods_that_the_store_answers_faster_than_by_default() {
    let quick = Arc::new(Quick::default());
    let store = Wrapper(quick.clone());
    store.put(&ns(&["a"]), "1", json!(1)).await.unwrap();
    assert_eq!(store.get_many(&ns(&["a"]), &["1", "2"]).await.unwrap().len(), 1);
    assert_eq!(store.list_keys(&ns(&["a"]), &KeyQuery::default()).await.unwrap().len(), 1);
    assert_eq!(store.list_namespaces(&NamespaceQuery::default()).await.unwrap(), [ns(&["a"])]);
    assert_eq!(*quick.called.lock().unwrap(), ["get_many", "list_keys", "list_namespaces"]);
}
