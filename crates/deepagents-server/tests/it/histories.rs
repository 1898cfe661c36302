//! The history of a thread in pages: its content and its cost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use deepagents::Journal;
use deepagents::models::scripted::Turn;
use deepagents_core::store::MemoryStore;
use serde_json::{Value, json};

use crate::counted::Counted;
use crate::support::{agent, say, serve, serve_on};

#[tokio::test]
async fn a_history_page_reads_the_log_once_however_many_states_it_has() {
    let journal = Arc::new(Counted::default());
    let turns = (0..100).map(|_| Turn::text("Yes.")).collect();
    let client = serve_on(agent(turns, journal.clone()), journal.clone(), Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    for _ in 0..100 {
        client.post(&format!("/threads/{id}/runs/wait"), say("go")).await;
    }
    let history = format!("/threads/{id}/history");
    let all = client.post(&history, json!({"limit": 1000})).await;
    let (states, end) = (all.as_array().unwrap(), journal.threads().get(&id).await.unwrap().unwrap().end);
    assert!(states.len() > 200, "{}", states.len());
    let page = async |body: Value| {
        journal.entries.store(0, Ordering::Relaxed);
        let page = client.post(&history, body).await;
        (page, journal.entries.load(Ordering::Relaxed))
    };
    // The log is read twice, for the states and for the interrupts between them, plus a little for what was added
    // since.
    for body in [json!({"limit": 1000}), json!({"limit": 1000, "metadata": {"source": "loop"}})] {
        let (_, read) = page(body.clone()).await;
        assert!(read <= 3 * end, "{read} of {end} entries for {body}");
    }
    let (found, read) = page(json!({"limit": 50, "before": states[9]["checkpoint"]})).await;
    assert_eq!(found.as_array().unwrap(), &states[10..60]);
    assert!(read <= 2 * end, "{read} of {end} entries");
}

#[tokio::test]
async fn checking_whether_agents_share_the_servers_journal_writes_nothing() {
    let journal = Arc::new(Counted::default());
    let handle: Arc<dyn Journal> = Arc::new(journal.clone());
    let client = serve_on(agent(vec![], handle), journal.clone(), Arc::new(MemoryStore::default())).await;
    assert_eq!(client.get("/ok").await, json!({"ok": true}));
    assert_eq!(journal.claims.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_history_page_shows_each_state_as_it_is_shown_individually() {
    let book = || Turn::call("book", json!({"city": "Turin"}));
    let client = serve(vec![book(), Turn::text("Booked."), Turn::text("Two."), Turn::text("Other."), book()]).await;
    let id = client.thread().await;
    let run = format!("/threads/{id}/runs/wait");
    client.post(&run, say("book")).await;
    let resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    client.post(&run, resume).await;
    let first = client.get(&format!("/threads/{id}/state")).await["checkpoint"].clone();
    client.post(&run, say("second")).await;
    let note = json!({"values": {"messages": [{"role": "user", "content": "note"}]}});
    client.post(&format!("/threads/{id}/state"), note).await;
    let mut other = say("another second");
    other["checkpoint"] = first;
    client.post(&run, other).await;
    client.post(&run, say("book again")).await;
    let all = client.post(&format!("/threads/{id}/history"), json!({"limit": 100})).await;
    let all = all.as_array().unwrap();
    assert_eq!(all.iter().filter(|state| state["interrupts"] != json!([])).count(), 2, "{all:?}");
    for state in all {
        let alone = client.get(&format!("/threads/{id}/state/{}", state["checkpoint_id"].as_str().unwrap())).await;
        assert_eq!(state, &alone);
    }
}

/// The runtime of a test has one thread.
#[tokio::test]
async fn other_requests_are_answered_while_a_long_history_is_rendered() {
    let client = serve(vec![]).await;
    let id = client.thread().await;
    let place = format!("/threads/{id}/state");
    let said = json!({"role": "user", "content": "hello"});
    client.post(&place, json!({"values": {"messages": vec![said.clone(); 3_000]}})).await;
    for _ in 0..9 {
        client.post(&place, json!({"values": {"messages": [said]}})).await;
    }
    let mut answered = 0;
    let path = format!("/threads/{id}/history?limit=10");
    let mut history = std::pin::pin!(client.get(&path));
    let states = loop {
        tokio::select! {
            biased;
            states = &mut history => break states,
            _ = client.get("/ok") => answered += 1,
        }
    };
    assert_eq!(states.as_array().unwrap().len(), 10);
    assert!(answered >= 20, "{answered} answers while the history was rendered");
}
