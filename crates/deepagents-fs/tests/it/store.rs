use std::sync::Arc;

use deepagents_core::state::State;
use deepagents_core::store::{MemoryStore, Store};
use deepagents_fs::edit::{self, Edit};
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
}

#[tokio::test]
async fn concurrent_edits_lose_nothing() {
    let files = Arc::new(StoreBackend::new(Arc::new(MemoryStore::default()), namespace("ada")));
    let content: String = (0..50).map(|n| format!("<{n}>\n")).collect();
    Files::new(files.clone()).write("/f", content).await.unwrap();
    let edits = (0..50).map(|n| {
        let files = files.clone();
        async move {
            let edits = [Edit::new(format!("<{n}>"), format!("[{n}]"))];
            edit::edit(&*files, &State::default(), &p("/f"), &edits, None).await.map(drop)
        }
    });
    for result in futures_util::future::join_all(edits).await {
        result.unwrap();
    }
    let want: String = (0..50).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(Files::new(files).read("/f").await.unwrap(), want.as_bytes());
}
