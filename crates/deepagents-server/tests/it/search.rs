//! Searches among many threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use deepagents::Journal;
use deepagents_core::store::{MemoryStore, Store};
use deepagents_persist::Sqlite;
use deepagents_server::{Identity, Server, StaticTokens};
use reqwest::Method;
use serde_json::{Value, json};

use crate::counted::Counted;
use crate::support::{Client, agent, run, serve_on};

/// Creates `count` threads, each with a number and one of three teams.
async fn fill(journal: &dyn Journal, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        let id = uuid::Uuid::now_v7().to_string();
        let team = ["red", "green", "blue"][n % 3];
        let metadata = json!({"n": n, "team": team, "deep": {"odd": n % 2 == 1, "n": n}});
        journal.threads().set_metadata(&id, metadata.as_object().unwrap().clone()).await.unwrap();
        ids.push(id);
    }
    ids
}

/// Returns a page of a search with its headers: the lower bound of the total, and where the next page begins.
async fn page(client: &Client, body: &Value) -> (Vec<Value>, usize, Option<usize>) {
    let response = client.http.post(format!("{}/threads/search", client.url)).json(body).send().await.unwrap();
    let number = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().parse().unwrap());
    let (total, next) = (number("x-pagination-total").unwrap(), number("x-pagination-next"));
    (response.json().await.unwrap(), total, next)
}

#[tokio::test]
async fn a_search_reads_a_page_of_threads_and_not_all_there_are() {
    let journal = Arc::new(Counted::default());
    let client = serve_on(agent(vec![], journal.clone()), journal.clone(), Arc::new(MemoryStore::default())).await;
    fill(&*journal, 2000).await;
    for body in [
        json!({}),
        json!({"metadata": {"team": "red"}}),
        json!({"metadata": {"deep": {"odd": true}}, "status": "idle"}),
        json!({"sort_by": "created_at", "sort_order": "asc", "offset": 20}),
        json!({"sort_by": "thread_id", "limit": 100}),
    ] {
        journal.listed.store(0, Ordering::Relaxed);
        let (found, ..) = page(&client, &body).await;
        assert_eq!(found.len(), body["limit"].as_u64().unwrap_or(10) as usize);
        let listed = journal.listed.load(Ordering::Relaxed);
        assert!(listed <= 500, "{body} has read {listed} threads");
    }
    let count = async |body: Value| client.post("/threads/count", body).await;
    assert_eq!(count(json!({})).await, 2000);
    assert_eq!(count(json!({"metadata": {"team": "red"}})).await, 667);
    assert_eq!(count(json!({"metadata": {"deep": {"n": 7.0}}, "status": "idle"})).await, 1);
    assert_eq!(count(json!({"status": "busy"})).await, 0);
}

#[tokio::test]
async fn pages_of_a_search_have_each_thread_once_in_every_order() {
    let folder = tempfile::tempdir().unwrap();
    let database = Arc::new(Sqlite::open(folder.path().join("server.db")).await.unwrap());
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let client = serve_on(agent(vec![], journal.clone()), journal.clone(), store).await;
    let ids = fill(&*journal, 1100).await;
    let changed = ids.iter().step_by(7);
    for id in changed {
        client.send(Method::PATCH, &format!("/threads/{id}"), &json!({"metadata": {"changed": true}})).await;
    }
    for sort in ["thread_id", "created_at", "updated_at", "state_updated_at", "status"] {
        for order in ["asc", "desc"] {
            let search = |offset: usize| {
                let wanted = json!({"team": "red", "deep": {"odd": true}});
                json!({"metadata": wanted, "limit": 50, "offset": offset, "sort_by": sort, "sort_order": order})
            };
            let (mut found, mut offset) = (Vec::new(), Some(0));
            while let Some(from) = offset {
                let (threads, total, next) = page(&client, &search(from)).await;
                found.extend(threads);
                assert_eq!(total, next.map_or(found.len(), |next| next + 1));
                offset = next;
            }
            let keys: Vec<&str> = found.iter().map(|thread| thread[sort].as_str().unwrap()).collect();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            if order == "desc" {
                sorted.reverse();
            }
            assert_eq!(keys, sorted, "{sort} {order}");
            let mut numbers: Vec<u64> = found.iter().map(|thread| thread["metadata"]["n"].as_u64().unwrap()).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..1100).filter(|n| n % 6 == 3).collect::<Vec<_>>(), "{sort} {order}");
        }
    }
    let (none, total, next) = page(&client, &json!({"offset": 5000})).await;
    assert_eq!((none.len(), total, next), (0, 1100, None));
    let twice = json!({"ids": [ids[3], ids[1], ids[3].to_uppercase()], "sort_by": "created_at", "sort_order": "asc"});
    let named: Vec<Value> = page(&client, &twice).await.0.iter().map(|thread| thread["thread_id"].clone()).collect();
    assert_eq!(named, [json!(ids[1]), json!(ids[3])]);
}

#[tokio::test]
async fn who_searches_among_the_threads_of_others_finds_their_own() {
    let journal = Arc::new(Counted::default());
    let tokens =
        StaticTokens::new().token("ada's", Identity::new("ada")).token("root's", Identity::new("root").admin());
    let server = Server::new(journal.clone(), Arc::new(MemoryStore::default()));
    let server = server.agent("agent", agent(vec![], journal.clone())).unwrap().authenticate(tokens);
    let (client, _end, _serving) = run(server).await;
    let (ada, root) = (client.with_token("ada's"), client.with_token("root's"));
    let id = ada.thread().await;
    fill(&*journal, 1200).await;
    journal.listed.store(0, Ordering::Relaxed);
    let found = ada.post("/threads/search", json!({})).await;
    assert_eq!((found.as_array().unwrap().len(), &found[0]["thread_id"]), (1, &json!(id)));
    assert_eq!(journal.listed.load(Ordering::Relaxed), 1, "others are not even read");
    assert_eq!(root.post("/threads/count", json!({})).await, 1201);
    assert_eq!(ada.post("/threads/count", json!({"metadata": {"deepagents_owner": "root"}})).await, 0);
}

#[tokio::test]
async fn a_store_filter_compares_nested_objects_field_by_field_and_numbers_by_value() {
    let store = Arc::new(MemoryStore::default());
    let journal: Arc<dyn Journal> = Arc::new(deepagents::MemoryJournal::new());
    let client = serve_on(agent(vec![], journal.clone()), journal, store).await;
    let value = json!({"meta": {"lang": "en", "n": 1.0, "in": {"a": 1, "b": 2}}, "n": 1.0, "dotted": {"a.b": 1}, "e.mail": "a", "e.n": 2, "e.in": {"x": 1}});
    let item = json!({"namespace": ["a"], "key": "k", "value": value});
    assert!(client.send(Method::PUT, "/store/items", &item).await.0.is_success());
    for (filter, found) in [
        (json!({"meta": {"lang": "en"}}), 1),
        (json!({"meta": {"lang": "de"}}), 0),
        (json!({"meta": {"lang": "en", "n": {"$gt": 0}}}), 1),
        (json!({"meta": {"in": {"b": 2}}}), 1),
        (json!({"meta": {"in": {"c": 2}}}), 0),
        (json!({"n": 1}), 1),
        (json!({"n": 2}), 0),
        (json!({"dotted": {"a.b": 1}}), 1),
        (json!({"e.mail": "a"}), 1),
        (json!({"e.mail": "b"}), 0),
        (json!({"e.n": 2}), 1),
        (json!({"e.in": {"x": 1}}), 1),
    ] {
        let body = json!({"namespace_prefix": ["a"], "filter": filter});
        let items = client.post("/store/items/search", body).await["items"].as_array().unwrap().len();
        assert_eq!(items, found, "{filter}");
    }
}
