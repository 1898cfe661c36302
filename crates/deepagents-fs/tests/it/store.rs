use std::sync::Arc;

use deepagents_core::state::State;
use deepagents_core::store::{MemoryStore, Store};
use deepagents_fs::edit::{self, Edit};
use deepagents_fs::search::GlobQuery;
use deepagents_fs::{FsError, StoreBackend};
use serde_json::json;

use crate::suite::{Files, p};

fn namespace(name: &str) -> Vec<String> {
    vec!["users".to_owned(), name.to_owned()]
}

#[tokio::test]
async fn namespaces_do_not_see_each_other() {
    let store = Arc::new(MemoryStore::default());
    let mut ada = Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada"))));
    let mut all = Files::new(Arc::new(StoreBackend::new(store, vec!["users".to_owned()])));
    ada.write("/mine", "x").await.unwrap();
    all.write("/shared", "x").await.unwrap();
    assert_eq!(ada.list("/").await.unwrap(), ["/mine"]);
    assert_eq!(all.list("/").await.unwrap(), ["/shared"], "a namespace above sees its own alone");
    assert_eq!(all.found("/", "*").await, ["/shared"]);
}

#[tokio::test]
async fn other_values_in_the_namespace_do_no_harm() {
    let store = Arc::new(MemoryStore::default());
    store.put(&namespace("ada"), "not a path", json!({"a": 1})).await.unwrap();
    store.put(&namespace("ada"), "/broken", json!({"a": 1})).await.unwrap();
    store.put(&namespace("ada"), "/old", json!({"content": ["one", "two"]})).await.unwrap();
    let files = Files::new(Arc::new(StoreBackend::new(store, namespace("ada"))));
    assert_eq!(files.read("/old").await.unwrap(), b"one\ntwo");
    assert!(matches!(files.read("/broken").await.unwrap_err(), FsError::Io { .. }));
    assert_eq!(files.list("/").await.unwrap(), ["/broken", "/old"]);
    let query = GlobQuery::new("*", p("/")).unwrap();
    let found = files.backend.glob(&State::default(), &query).await.unwrap();
    assert_eq!((found.files, found.problems.count), (vec![p("/old")], 1));
}

#[tokio::test]
async fn a_file_and_another_below_it_do_not_stop_a_search() {
    let store = Arc::new(MemoryStore::default());
    let mut files = Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada"))));
    files.write("/a/b", "x").await.unwrap();
    files.write("/c", "x").await.unwrap();
    // As two processes do that write at the same moment.
    let value = store.get(&namespace("ada"), "/c").await.unwrap().unwrap().value;
    store.put(&namespace("ada"), "/a", value).await.unwrap();
    assert_eq!(files.found("/", "*").await, ["/a", "/c"]);
    files.delete("/a").await.unwrap();
    assert_eq!(files.found("/", "*").await, ["/a/b", "/c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_through_different_doors_of_one_store_lose_nothing_and_none_fails_falsely() {
    let store = Arc::new(MemoryStore::default());
    // Each has locks of its own, as another process would.
    let door = || Arc::new(StoreBackend::new(store.clone(), namespace("ada")));
    let lines = |open: char, close: char| (0..200).map(|n| format!("{open}{n}{close}\n")).collect::<String>();
    Files::new(door()).write("/f", lines('<', '>')).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let files = door();
        tasks.spawn(async move {
            let edits = [Edit::new(format!("<{n}>"), format!("[{n}]"))];
            edit::edit(&*files, &State::default(), &p("/f"), &edits, None).await.map(drop)
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap().unwrap();
    }
    assert_eq!(Files::new(door()).read("/f").await.unwrap(), lines('[', ']').as_bytes());
}

#[tokio::test]
async fn what_is_no_file_hides_no_directory() {
    let store = Arc::new(MemoryStore::default());
    for n in 0..5 {
        store.put(&namespace("ada"), &format!("/d//{n}"), json!(n)).await.unwrap();
    }
    let mut files = Files::new(Arc::new(StoreBackend::new(store, namespace("ada"))));
    assert!(matches!(files.list("/d").await, Err(FsError::NotFound { .. })));
    files.write("/d/file", "x").await.unwrap();
    assert_eq!(files.list("/d").await.unwrap(), ["/d/file"]);
    assert!(matches!(files.write("/d", "x").await, Err(FsError::IsDirectory { .. })));
}
