//! Idempotency keys: unique per call, and stable when a call is repeated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use deepagents_core::agent::Agent;
use deepagents_core::env::{Clock, RandomIds, Timestamp};
use deepagents_core::interrupt::{ActionRequests, Decision, DecisionKind};
use deepagents_core::journal::{Journal, MemoryJournal, RetentionPolicy, prune};
use deepagents_core::run::{Outcome, RunInput};
use deepagents_core::state::State;
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{Notes, agent, tool};

/// A clock that never returns the same time twice.
#[derive(Default)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.fetch_add(1, Ordering::Relaxed)).unwrap()
    }
}

/// Records its key, then interrupts.
fn paying(name: &str, keys: &Notes) -> impl deepagents_core::tool::DynTool {
    let keys = keys.clone();
    tool(name, move |_, cx| {
        keys.add(cx.key());
        let decision = cx.interrupt("Shall I pay?", [DecisionKind::Approve]);
        async move { decision.map(|_| "paid") }
    })
}

/// An agent that calls a tool over and over, as built by another process.
fn payer(journal: &Arc<MemoryJournal>, keys: &Notes) -> Agent {
    let model = ScriptedModel::rules().always(Turn::call("pay", json!({}))).build();
    agent(model).ids(RandomIds).tool(paying("pay", keys)).journal(journal.clone()).build().unwrap()
}

/// The same, but a subagent makes the calls.
fn delegating(journal: &Arc<MemoryJournal>, keys: &Notes) -> Agent {
    let below = ScriptedModel::rules().always(Turn::call("pay", json!({}))).build();
    let below = agent(below).name("below").ids(RandomIds).tool(paying("pay", keys)).build().unwrap();
    let task = tool("task", move |_, cx| {
        let below = below.clone();
        async move {
            let given = State::new(below.schema().clone());
            Ok(cx.run_child(&below, "task", given, "do it").await?.result?.text())
        }
    });
    let model = ScriptedModel::rules().always(Turn::call("task", json!({}))).build();
    agent(model).ids(RandomIds).tool(task).journal(journal.clone()).build().unwrap()
}

/// Approves the pending interrupt of a thread in a new process, and runs to the next one. Returns the keys of the calls
/// made.
async fn approve(
    make: impl Fn(&Arc<MemoryJournal>, &Notes) -> Agent,
    journal: &Arc<MemoryJournal>,
    thread: &str,
) -> Vec<String> {
    let keys = Notes::default();
    let agent = make(journal, &keys);
    let state = agent.state(thread).await.unwrap();
    let mut asked = state.get::<ActionRequests>().unwrap().values();
    let question = asked.find(|asked| asked.decision.is_none()).unwrap().request.id.clone();
    let resumed = RunInput::resume(thread).decide(question, Decision::Approve);
    let outcome: Outcome = agent.invoke(resumed).await.unwrap();
    assert_eq!(outcome.run, "order-7");
    keys.list()
}

async fn begin(make: impl Fn(&Arc<MemoryJournal>, &Notes) -> Agent, journal: &Arc<MemoryJournal>) -> Vec<String> {
    let keys = Notes::default();
    make(journal, &keys).invoke(RunInput::new("go").thread("t").id("order-7")).await.unwrap();
    keys.list()
}

#[tokio::test]
async fn a_run_resumed_in_a_copied_thread_uses_call_keys_of_its_own() {
    let journal = Arc::new(MemoryJournal::new());
    assert_eq!(begin(payer, &journal).await, ["order-7:0.0"]);
    for copy in ["u", "v"] {
        journal.threads().copy("t", copy, None).await.unwrap();
    }
    assert_eq!(approve(payer, &journal, "t").await, ["order-7:0.0", "order-7:1.0"]);
    assert_eq!(approve(payer, &journal, "t").await, ["order-7:1.0", "order-7:2.0"]);
    let mut all = BTreeSet::from(["order-7:0.0", "order-7:1.0", "order-7:2.0"].map(str::to_owned));
    for copy in ["u", "v"] {
        let first = approve(payer, &journal, copy).await;
        let second = approve(payer, &journal, copy).await;
        // A repeated call keeps its key, over any number of attempts and after pruning.
        assert_eq!((first.len(), second.len(), &first[1]), (2, 2, &second[0]));
        let (journal_of_all, schema) = (journal.clone() as Arc<dyn Journal>, State::default().schema().clone());
        prune(&journal_of_all, copy, schema, &RetentionPolicy::Latest).await.unwrap();
        let third = approve(payer, &journal, copy).await;
        assert_eq!(second[1], third[0]);
        for key in [&first[0], &first[1], &second[1], &third[1]] {
            assert!(all.insert(key.clone()), "{key} is that of another call: {all:?}");
        }
    }
    // A copy of a copy is a copy too.
    journal.threads().copy("u", "w", None).await.unwrap();
    for key in approve(payer, &journal, "w").await {
        assert!(all.insert(key.clone()), "{key} is that of another call: {all:?}");
    }
}

#[tokio::test]
async fn sub_agent_calls_in_a_copied_thread_have_keys_of_their_own_too() {
    let journal = Arc::new(MemoryJournal::new());
    assert_eq!(begin(delegating, &journal).await, ["order-7:task:0.0/0.0"]);
    journal.threads().copy("t", "u", None).await.unwrap();
    let source = approve(delegating, &journal, "t").await;
    assert_eq!(source, ["order-7:task:0.0/0.0", "order-7:task:0.0/1.0"]);
    let first = approve(delegating, &journal, "u").await;
    let second = approve(delegating, &journal, "u").await;
    assert_eq!(first[1], second[0]);
    let copied: BTreeSet<&String> = first.iter().chain(&second).collect();
    assert_eq!(copied.len(), 3);
    assert!(copied.iter().all(|key| !source.contains(key) && key.ends_with(".0")), "{copied:?}");
}

#[tokio::test]
async fn a_copy_that_reuses_a_deleted_threads_name_gets_new_call_keys() {
    let journal = Arc::new(MemoryJournal::with_clock(Arc::new(Ticking::default())));
    begin(payer, &journal).await;
    journal.threads().copy("t", "backup", None).await.unwrap();
    let lost = approve(payer, &journal, "t").await;
    journal.threads().delete("t").await.unwrap();
    journal.threads().copy("backup", "t", None).await.unwrap();
    let again = approve(payer, &journal, "t").await;
    assert!(again.iter().all(|key| !lost.contains(key)), "{again:?} and {lost:?}");
}
