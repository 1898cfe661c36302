use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::env::{Clock, Timestamp};
use deepagents_core::forward_store;
use deepagents_core::state::State;
use deepagents_core::store::{Item, KeyInfo, KeyQuery, MemoryStore, Query, Store, StoreError};
use deepagents_fs::edit::{self, Edit};
use deepagents_fs::search::GrepQuery;
use deepagents_fs::{Backend, FsError, Kind, StoreBackend};
use serde_json::json;

use crate::suite::{Files, p, shown};

fn namespace(name: &str) -> Vec<String> {
    vec!["users".to_owned(), name.to_owned()]
}

#[tokio::test]
async fn namespaces_are_isolated_from_each_other() {
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
async fn every_operation_refuses_an_invalid_namespace() {
    let invalid: [(&[&str], &str); 4] =
        [(&[], "it is empty"), (&["a", ""], "a label is empty"), (&["a\0"], "contains NUL"), (&["a", "*"], "is `*`")];
    for (labels, reason) in invalid {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let mut files = Files::new(Arc::new(StoreBackend::new(MemoryStore::default(), labels)));
        let errors = [
            files.read("/a").await.unwrap_err(),
            files.list("/").await.unwrap_err(),
            files.write("/a", "x").await.unwrap_err(),
            files.delete("/a").await.unwrap_err(),
            files.grep(&GrepQuery::new("x", p("/"))).await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
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
    assert_eq!(files.found("/", "*").await, ["/broken", "/old"], "that it is no file shows when it is read");
    let found = files.grep(&GrepQuery::new("o", p("/"))).await.unwrap();
    assert_eq!((shown(&found), found.errors.count), (vec!["/old:1:one".to_owned(), "/old:2:two".to_owned()], 1));
}

#[tokio::test]
async fn a_file_that_is_also_a_parent_does_not_break_a_search() {
    let store = Arc::new(MemoryStore::default());
    let mut files = Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada"))));
    files.write("/a/b", "x").await.unwrap();
    files.write("/c", "x").await.unwrap();
    // As after concurrent writes by two processes.
    let value = store.get(&namespace("ada"), "/c").await.unwrap().unwrap().value;
    store.put(&namespace("ada"), "/a", value).await.unwrap();
    assert_eq!(files.found("/", "*").await, ["/a", "/c"]);
    files.delete("/a").await.unwrap();
    assert_eq!(files.found("/", "*").await, ["/a/b", "/c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_edits_through_separate_backends_lose_nothing_and_none_fails() {
    let store = Arc::new(MemoryStore::default());
    // Each backend has its own locks, as another process would.
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
async fn non_file_values_do_not_hide_a_directory() {
    let store = Arc::new(MemoryStore::default());
    for n in 0..5 {
        store.put(&namespace("ada"), &format!("/d//{n}"), json!(n)).await.unwrap();
    }
    let mut files = Files::new(Arc::new(StoreBackend::new(store, namespace("ada"))));
    assert!(matches!(files.list("/d").await, Err(FsError::NotFound(_))));
    files.write("/d/file", "x").await.unwrap();
    assert_eq!(files.list("/d").await.unwrap(), ["/d/file"]);
    assert!(matches!(files.write("/d", "x").await, Err(FsError::IsDirectory(_))));
}

/// A store that records which values each call reads, and counts the keys it lists.
#[derive(Default)]
struct Noting {
    inner: MemoryStore,
    read: Mutex<Vec<Vec<String>>>,
    listed: AtomicUsize,
}

type Done<'a, T> = futures_core::future::BoxFuture<'a, Result<T, StoreError>>;

impl Noting {
    /// The values read since the last call.
    fn read(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut *self.read.lock().unwrap())
    }

    fn note(&self, keys: impl IntoIterator<Item = impl Into<String>>) {
        self.read.lock().unwrap().push(keys.into_iter().map(Into::into).collect());
    }
}

impl Store for Noting {
    forward_store!([.inner]; write, delete, namespaces, sweep);

    fn get<'a>(&'a self, namespace: &'a [String], key: &'a str) -> Done<'a, Option<Item>> {
        self.note([key]);
        self.inner.get(namespace, key)
    }

    fn get_many<'a>(&'a self, namespace: &'a [String], keys: &'a [&'a str]) -> Done<'a, Vec<Item>> {
        self.note(keys.iter().copied());
        self.inner.get_many(namespace, keys)
    }

    fn search<'a>(&'a self, prefix: &'a [String], query: &'a Query) -> Done<'a, Vec<Item>> {
        self.note([format!("{query:?}")]);
        self.inner.search(prefix, query)
    }

    fn list_keys<'a>(&'a self, namespace: &'a [String], query: &'a KeyQuery) -> Done<'a, Vec<KeyInfo>> {
        Box::pin(async move {
            let found = self.inner.list_keys(namespace, query).await?;
            self.listed.fetch_add(found.len(), Ordering::Relaxed);
            Ok(found)
        })
    }
}

#[tokio::test]
async fn files_are_found_by_name_without_reading_values() {
    let store = Arc::new(Noting::default());
    let mut files = Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada"))));
    files.fill(&[("/a", "12345"), ("/d/b", "x"), ("/d/e/c", "")]).await;
    store.read();
    assert_eq!(files.list("/").await.unwrap(), ["/a", "/d/"]);
    assert_eq!(files.found("/", "*").await, ["/a", "/d/b", "/d/e/c"]);
    assert_eq!(files.found("/", "d/*").await, ["/d/b"]);
    let stat = files.backend.stat(&files.state, &p("/a")).await.unwrap();
    let entry = files.backend.list(&files.state, &p("/")).await.unwrap().entries.remove(0);
    assert_eq!((stat.kind, stat.size, stat.modified), (Kind::File, 5, entry.modified));
    assert_eq!((entry.kind, entry.size, entry.modified.is_some()), (Kind::File, 5, true));
    assert_eq!(files.backend.stat(&files.state, &p("/d")).await.unwrap().kind, Kind::Directory);
    assert!(matches!(files.list("/a/b").await, Err(FsError::NotADirectory(_))));
    files.delete("/d").await.unwrap();
    assert!(store.read().is_empty());
    let read = files.backend.read(&files.state, &p("/a"), deepagents_fs::ByteRange::ALL).await.unwrap();
    assert_eq!(read.stat, stat);
}

#[tokio::test]
async fn a_content_search_reads_only_the_necessary_files_page_by_page() {
    let store = Arc::new(Noting::default());
    let mut files = Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada"))));
    let large = format!("{}\nhit", "x".repeat(400_000));
    for n in 0..9 {
        files.write(&format!("/{n}.txt"), large.clone()).await.unwrap();
        files.write(&format!("/{n}.md"), "hit").await.unwrap();
    }
    store.read();
    let query = GrepQuery::new("hit", p("/")).only("*.txt").unwrap();
    let found = files.grep(&query).await.unwrap();
    assert_eq!(found.matches, 9);
    let pages = store.read();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3], "a megabyte at a time: {pages:?}");
    assert!(pages.iter().flatten().is_sorted() && pages.iter().flatten().all(|key| key.ends_with(".txt")));
    let first = files.grep(&GrepQuery { max_count: Some(1), ..query }).await.unwrap();
    assert_eq!((first.matches, store.read().len()), (1, 1), "what is not needed is not read");
    let one = files.grep(&GrepQuery::new("hit", p("/3.md"))).await.unwrap();
    assert_eq!((one.matches, store.read()), (1, vec![vec!["/3.md".to_owned()]]));
}

#[tokio::test]
async fn a_listing_skips_deeply_nested_keys() {
    let store = Arc::new(Noting::default());
    let mut files = Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada"))));
    for n in 0..2500 {
        files.write(&format!("/deep/{}/{n:04}", n % 3), "x").await.unwrap();
        files.write(&format!("/flat/{n:04}"), "x").await.unwrap();
    }
    files.fill(&[("/a", ""), ("/deep-er", ""), ("/deep/\u{10ffff}\u{10ffff}", ""), ("/deep0", ""), ("/z", "")]).await;
    store.listed.store(0, Ordering::Relaxed);
    assert_eq!(files.list("/").await.unwrap(), ["/a", "/deep/", "/deep-er", "/deep0", "/flat/", "/z"]);
    let listed = store.listed.load(Ordering::Relaxed);
    assert!(listed <= 3000, "{listed} of 5005");
    assert_eq!(files.list("/deep").await.unwrap(), ["/deep/0/", "/deep/1/", "/deep/2/", "/deep/\u{10ffff}\u{10ffff}"]);
    assert_eq!(files.list("/flat").await.unwrap().len(), 2500);
}

#[tokio::test]
async fn non_file_keys_at_a_page_end_do_not_hide_a_directory() {
    let store = Arc::new(MemoryStore::default());
    let mut files = Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada"))));
    files.write("/n/z", "x").await.unwrap();
    // Enough keys that are not paths for a page to end among them, whatever its size.
    for n in 0..2000 {
        store.put(&namespace("ada"), &format!("/n//{n:04}"), json!(1)).await.unwrap();
    }
    assert_eq!(files.list("/").await.unwrap(), ["/n/"]);
}

/// A clock that a test sets, in seconds.
#[derive(Default)]
struct SetClock(AtomicUsize);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(i64::try_from(self.0.load(Ordering::SeqCst)).unwrap()).unwrap()
    }
}

#[tokio::test]
async fn files_with_a_time_to_live_expire_after_their_last_write() {
    let clock = Arc::new(SetClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let mut brief =
        Files::new(Arc::new(StoreBackend::new(store.clone(), namespace("ada")).ttl(Duration::from_secs(60))));
    let mut lasting = Files::new(Arc::new(StoreBackend::new(store, namespace("ada"))));
    brief.write("/once", "x").await.unwrap();
    brief.write("/again", "x").await.unwrap();
    lasting.write("/kept", "x").await.unwrap();
    clock.0.store(50, Ordering::SeqCst);
    brief.read("/once").await.unwrap();
    brief.write("/again", "y").await.unwrap();
    clock.0.store(70, Ordering::SeqCst);
    assert_eq!(brief.list("/").await.unwrap(), ["/again", "/kept"], "a read does not prolong, a write does");
    assert_eq!(brief.read("/once").await.unwrap_err(), FsError::NotFound(p("/once")));
    clock.0.store(1000, Ordering::SeqCst);
    assert_eq!(brief.list("/").await.unwrap(), ["/kept"]);
}
