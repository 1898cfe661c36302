//! Subscribers of a run: all see the same, and none blocks it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::env::{FixedClock, Ids, SequentialIds, Timestamp};
use deepagents_core::event::{Event, EventKind, EventStream, Subscribe};
use deepagents_core::journal::{Journal, LogPosition, MemoryJournal, Record, RunStatus};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::tool::DynTool;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::json;

use crate::support::{agent, echo, kinds, lines, records, tool, until};

/// A tool that reports more progress than is buffered for lagging subscribers.
fn chatty() -> impl DynTool {
    tool("chatty", |_, cx| async move {
        for n in 0..5_000 {
            cx.progress(n.to_string());
        }
        Ok("said")
    })
}

fn talking(journal: Arc<MemoryJournal>) -> Agent {
    let turn = Turn::calls([("chatty", json!({})), ("echo", json!({"n": 1})), ("echo", json!({"n": 2}))]);
    let model = ScriptedModel::new([turn, Turn::text("done")]);
    agent(model).tool(chatty()).tool(echo()).journal(journal).build().unwrap()
}

/// Panics unless the events are complete from a number on, counting those that a `Lagged` event replaces.
#[track_caller]
fn assert_without_gaps(events: &[Event], mut next: u64) {
    for event in events {
        if let EventKind::Lagged { dropped } = event.kind {
            assert!(dropped > 0);
            next += dropped - 1;
        }
        assert_eq!(event.seq, next, "{event:?}");
        next += 1;
    }
}

fn durable(events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| event.kind.is_durable()).cloned().collect()
}

async fn collect(stream: EventStream) -> Vec<Event> {
    stream.collect().await
}

#[tokio::test]
async fn a_subscriber_that_never_reads_neither_blocks_the_run_nor_loses_log_records() {
    let journal = Arc::new(MemoryJournal::new());
    let run = talking(journal.clone()).run(RunInput::new("go").thread("t"));
    let handle = run.handle();
    let _unread = handle.subscribe(Subscribe::Start);
    assert_eq!(handle.outcome().await.unwrap().text(), "done");
    assert!(handle.is_finished());
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.status, info.owner), (RunStatus::Ended, None));
    let finished = records(&*journal, "t").await;
    assert_eq!(finished.iter().filter(|r| matches!(r, Record::ToolFinished { .. })).count(), 3);
    drop(run);
}

/// The outcome of a run, its log, and the number of tasks alive in the middle of it.
async fn watched_by(watchers: usize) -> (serde_json::Value, Vec<serde_json::Value>, Vec<usize>) {
    let clock = FixedClock(Timestamp::UNIX_EPOCH);
    let journal = Arc::new(MemoryJournal::with_clock(Arc::new(clock)));
    let tasks = Arc::new(Mutex::new(Vec::new()));
    let alive = tasks.clone();
    let count = tool("count", move |_, _| {
        alive.lock().unwrap().push(tokio::runtime::Handle::current().metrics().num_alive_tasks());
        async { Ok("counted") }
    });
    let turns = [Turn::call("chatty", json!({})), Turn::call("count", json!({})), Turn::text("done")];
    let agent = agent(ScriptedModel::new(turns)).tool(chatty()).tool(count).clock(clock).journal(journal.clone());
    let agent = agent.build().unwrap();
    let run = agent.run(RunInput::new("go").thread("t").id("once")).detach();
    let unread: Vec<EventStream> = (0..watchers).map(|_| run.subscribe(Subscribe::Start)).collect();
    let outcome = run.outcome().await.unwrap();
    let log = journal.read("t", 0..LogPosition::MAX).await.unwrap();
    drop(unread);
    let log = log.iter().map(|entry| serde_json::to_value(&entry.record).unwrap()).collect();
    let tasks = tasks.lock().unwrap().clone();
    (serde_json::to_value(&outcome).unwrap(), log, tasks)
}

#[tokio::test]
async fn subscribers_that_never_read_change_neither_the_cost_nor_the_end_of_a_run() {
    let alone = watched_by(0).await;
    assert_eq!((alone.0["stop"].as_str(), alone.2.len()), (Some("done"), 1), "{}", alone.0);
    assert_eq!(watched_by(1).await, alone);
    assert_eq!(watched_by(100).await, alone);
}

#[tokio::test(start_paused = true)]
async fn an_unread_run_can_be_cancelled_meets_its_deadline_and_keeps_its_thread() {
    let work = || {
        tool("work", |_, cx| async move {
            for n in 0..300 {
                cx.progress(n.to_string());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok("worked")
        })
    };
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::calls((0..20).map(|_| ("work", json!({}))))).build();
    let agent = agent(model).tool(work()).max_model_calls(100_000).journal(journal.clone()).build().unwrap();

    let run = agent.run(RunInput::new("go").thread("t").timeout(Duration::from_secs(60)));
    let mut other = run.handle().subscribe(Subscribe::Now);
    while !matches!(other.next().await.unwrap().kind, EventKind::ToolFinished { .. }) {}
    assert!(journal.threads().get("t").await.unwrap().unwrap().owner.is_some());
    assert_eq!(run.handle().outcome().await.unwrap().stop, FinishReason::Deadline);
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().owner, None);

    let run = agent.run(RunInput::new("go").thread("u"));
    let mut other = run.handle().subscribe(Subscribe::Now);
    while !matches!(other.next().await.unwrap().kind, EventKind::ToolFinished { .. }) {}
    run.cancel();
    assert_eq!(run.handle().outcome().await.unwrap().stop, FinishReason::Cancelled);
}

#[tokio::test]
async fn all_subscribers_see_the_same_events_in_the_same_order() {
    let turns = [Turn::call("echo", json!({"n": 1})).and_text("First this."), Turn::text("And that was it.")];
    let agent = agent(ScriptedModel::new(turns)).tool(echo()).build().unwrap();
    let run = agent.run("go");
    let (one, two) = (run.handle().subscribe(Subscribe::Start), run.handle().subscribe(Subscribe::Start));
    let (one, two, own) = tokio::join!(collect(one), collect(two), run.collect::<Vec<_>>());
    assert_eq!(one, two);
    assert_eq!(one, own);
    assert_without_gaps(&one, 0);
    assert!(one.iter().all(|event| !matches!(event.kind, EventKind::Lagged { .. })));
    assert_eq!(kinds(&one).last().unwrap(), "run_finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscribers_on_many_threads_see_every_durable_event_without_gaps() {
    for _ in 0..10 {
        let run = talking(Arc::new(MemoryJournal::new())).run(RunInput::new("go").thread("t")).detach();
        let readers: Vec<_> = (0..16)
            .map(|n| {
                let mut stream = run.subscribe(Subscribe::Start);
                tokio::spawn(async move {
                    let mut events = Vec::new();
                    while let Some(event) = stream.next().await {
                        events.push(event);
                        if n % 4 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                    events
                })
            })
            .collect();
        let all = durable(&collect(run.subscribe(Subscribe::Start)).await);
        for reader in readers {
            let events = reader.await.unwrap();
            assert_without_gaps(&events, 0);
            assert_eq!(durable(&events), all);
        }
    }
}

#[tokio::test]
async fn a_lagging_subscriber_gets_all_durable_events_and_gap_markers() {
    let run = talking(Arc::new(MemoryJournal::new())).run(RunInput::new("go").thread("t"));
    let handle = run.handle();
    let late = handle.subscribe(Subscribe::Start);
    handle.outcome().await.unwrap();
    let late = collect(late).await;
    assert_without_gaps(&late, 0);
    let told: VecDeque<String> = kinds(&durable(&late)).into();
    let mut expected = vec!["run_started", "agent_started", "model_finished"];
    expected.extend(["tool_started"; 3]);
    expected.extend(["tool_finished"; 3]);
    expected.extend(["model_finished", "agent_finished", "run_finished"]);
    assert_eq!(told, expected);
    let dropped: u64 = late.iter().map(|e| if let EventKind::Lagged { dropped } = e.kind { dropped } else { 0 }).sum();
    assert!(dropped > 3_900, "{dropped}");
    let kept = late.iter().filter(|e| matches!(e.kind, EventKind::ToolProgress { .. })).count();
    assert!(kept > 900, "what is still there is given: {kept}");
}

#[tokio::test]
async fn after_the_end_a_subscriber_gets_durable_events_from_its_chosen_start() {
    let run = talking(Arc::new(MemoryJournal::new())).run(RunInput::new("go").thread("t")).detach();
    run.outcome().await.unwrap();
    let all = collect(run.subscribe(Subscribe::Start)).await;
    assert_without_gaps(&all, 0);
    assert_eq!(durable(&all).len(), 12);
    assert!(all.iter().all(|event| event.kind.is_durable() || matches!(event.kind, EventKind::Lagged { .. })));
    let from = durable(&all)[5].seq;
    let rest = collect(run.subscribe(Subscribe::After(from))).await;
    assert_without_gaps(&rest, from + 1);
    assert_eq!(durable(&rest), durable(&all)[6..]);
    assert!(collect(run.subscribe(Subscribe::Now)).await.is_empty());
    assert!(collect(run.subscribe(Subscribe::After(u64::MAX))).await.is_empty());
}

#[tokio::test]
async fn a_returning_subscriber_continues_after_the_last_event_it_saw() {
    let turns = [Turn::call("echo", json!({"n": 1})).and_text("First."), Turn::text("Then.")];
    let mut run = agent(ScriptedModel::new(turns)).tool(echo()).build().unwrap().run("go");
    let seen = until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    let again = run.handle().subscribe(Subscribe::After(seen.seq));
    let (rest, again) = tokio::join!(run.collect::<Vec<_>>(), collect(again));
    assert_eq!(rest, again);
    assert_without_gaps(&again, seen.seq + 1);
}

#[tokio::test]
async fn a_panicking_run_releases_its_thread_even_if_its_context_is_kept() {
    struct BreaksLater(Arc<AtomicBool>, SequentialIds);
    impl Ids for BreaksLater {
        fn next(&self, prefix: &str) -> String {
            assert!(!self.0.load(Ordering::SeqCst), "a bug in a maker of ids");
            self.1.next(prefix)
        }
    }
    let (broken, journal) = (Arc::new(AtomicBool::new(false)), Arc::new(MemoryJournal::new()));
    let breaks = broken.clone();
    let work = tool("work", move |_, cx| {
        // A task that outlives the run.
        tokio::spawn(async move {
            let _kept = cx;
            std::future::pending::<()>().await;
        });
        breaks.store(true, Ordering::SeqCst);
        async { Ok("worked") }
    });
    let model = ScriptedModel::new([Turn::call("work", json!({})), Turn::text("never")]);
    let ids = BreaksLater(broken.clone(), SequentialIds::default());
    let agent = Agent::builder(model).ids(ids).tool(work).journal(journal.clone()).build().unwrap();
    let run = agent.run(RunInput::new("go").thread("t"));
    let handle = run.handle();
    let events: Vec<Event> = run.collect().await;
    assert!(matches!(&events.last().unwrap().kind, EventKind::RunFailed { error, .. } if error.contains("a bug")));
    assert!(handle.outcome().await.unwrap_err().to_string().contains("a bug in a maker of ids"));
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().owner, None, "the thread is given up");
    broken.store(false, Ordering::SeqCst);
    let model = ScriptedModel::new([Turn::text("done")]);
    let agent =
        Agent::builder(model).tool(tool("work", |_, _| async { Ok("again") })).journal(journal).build().unwrap();
    let outcome = agent.invoke(RunInput::resume("t")).await.unwrap();
    assert_eq!(outcome.text(), "done");
    assert!(
        lines(outcome.messages())[2].contains("whether it took effect is unknown"),
        "{:?}",
        lines(outcome.messages())
    );
}

#[tokio::test]
async fn a_panicking_run_reports_the_panic_and_ends() {
    struct Broken;
    impl Ids for Broken {
        fn next(&self, prefix: &str) -> String {
            assert_ne!(prefix, "msg", "a bug in a maker of ids");
            prefix.to_owned()
        }
    }
    let agent = Agent::builder(ScriptedModel::new([Turn::text("never")])).ids(Broken).build().unwrap();
    let run = agent.run("go");
    let handle = run.handle();
    let events: Vec<Event> = run.collect().await;
    assert!(
        matches!(&events.last().unwrap().kind, EventKind::RunFailed { error, .. } if error.contains("a bug in a maker of ids"))
    );
    assert!(handle.outcome().await.unwrap_err().to_string().contains("a bug in a maker of ids"));
}

#[tokio::test]
async fn a_run_that_keeps_recent_events_only_says_how_many_a_late_subscriber_missed() {
    let calls = || Turn::calls((0..600).map(|n| ("echo", json!({"n": n}))));
    let agent = || agent(ScriptedModel::new([calls(), Turn::text("done")])).tool(echo()).build().unwrap();
    let run = agent().run(RunInput::new("go").recent_events_only()).detach();
    run.outcome().await.unwrap();
    let late = collect(run.subscribe(Subscribe::Start)).await;
    assert_without_gaps(&late, 0);
    assert!(matches!(late[0].kind, EventKind::Lagged { dropped } if dropped > 100), "{:?}", late[0]);
    assert_eq!(durable(&late).len(), 1_024);
    assert!(late.last().unwrap().kind.is_end());
    // By default, none is missed.
    let run = agent().run("go").detach();
    run.outcome().await.unwrap();
    let all = collect(run.subscribe(Subscribe::Start)).await;
    assert!(durable(&all).len() > 1_200 && matches!(all[0].kind, EventKind::RunStarted { .. }));
}
