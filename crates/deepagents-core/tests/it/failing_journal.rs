//! Journals that hang, fail, or respond late.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::NewTask;
use deepagents_core::event::EventKind;
use deepagents_core::forward_journal;
use deepagents_core::journal::{
    Appended, Claim, Fence, Journal, JournalError, LogPosition, MemoryJournal, Record, Snapshot,
};
use deepagents_core::message::Message;
use deepagents_core::run::{FinishReason, RunHandle, RunInput};
use deepagents_core::state::State;
use deepagents_core::tool::{CallId, ToolError};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::support::{Notes, agent, assert_sound, lines, records, tool, watch};

/// A journal whose appends fail from number `from` on.
struct Troubled {
    inner: MemoryJournal,
    appends: AtomicUsize,
    from: usize,
    trouble: Trouble,
    reached: Notify,
}

#[derive(Clone, Copy)]
enum Trouble {
    /// Appends hang.
    Hangs,
    /// Appends fail `times` times, with or without having written.
    Away { times: usize, wrote: bool },
}

impl Troubled {
    fn new(from: usize, trouble: Trouble) -> Arc<Self> {
        let (inner, appends) = (MemoryJournal::new(), AtomicUsize::new(0));
        Arc::new(Self { inner, appends, from, trouble, reached: Notify::new() })
    }
}

impl Journal for Troubled {
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            let after = self.appends.fetch_add(1, Ordering::SeqCst).checked_sub(self.from);
            match (self.trouble, after) {
                (Trouble::Hangs, Some(_)) => {
                    self.reached.notify_one();
                    std::future::pending().await
                }
                (Trouble::Away { times, wrote }, Some(after)) if after < times => {
                    if wrote && after == 0 {
                        self.inner.append(thread, fence, expected, records).await?;
                    }
                    Err(JournalError::Unavailable { source: "the connection was lost".into() })
                }
                _ => self.inner.append(thread, fence, expected, records).await,
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_journal_blocks_neither_cancelling_nor_the_deadline() {
    for (deadline, expected) in [(None, FinishReason::Cancelled), (Some(60), FinishReason::Deadline)] {
        for from in 0..4 {
            let journal = Troubled::new(from, Trouble::Hangs);
            let work = tool("work", |_, _| async { Ok("worked") });
            let model = ScriptedModel::new([Turn::call("work", json!({})), Turn::text("done")]);
            let agent = agent(model).tool(work).journal(journal.clone()).build().unwrap();
            let mut input = RunInput::new("go").thread("t");
            if let Some(seconds) = deadline {
                input = input.timeout(Duration::from_secs(seconds));
            }
            let run = agent.run(input);
            journal.reached.notified().await;
            let started = Instant::now();
            if expected == FinishReason::Cancelled {
                run.cancel();
            }
            let ended = run.outcome().await;
            assert!(started.elapsed() < Duration::from_secs(deadline.unwrap_or(0) + 30), "append {from}");
            let error = ended.expect_err("what cannot be written is an error");
            assert!(error.to_string().contains("journal"), "append {from}: {error}");
            assert_sound(error.state.messages());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_briefly_unavailable_journal_loses_no_result_and_writes_none_twice() {
    for from in 0..8 {
        for wrote in [false, true] {
            let journal = Troubled::new(from, Trouble::Away { times: 3, wrote });
            let notes = Notes::default();
            let made = notes.clone();
            let work = tool("work", move |_, _| {
                made.add("worked");
                async { Ok("worked") }
            });
            let model = ScriptedModel::new([Turn::call("work", json!({})), Turn::text("done")]);
            let agent = agent(model).tool(work).journal(journal.clone()).build().unwrap();
            let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
            let expected = ["user: go", "assistant: [work {}]", "result: worked", "assistant: done"];
            assert_eq!(lines(outcome.messages()), expected, "append {from}");
            assert_eq!(lines(agent.state("t").await.unwrap().messages()), expected, "append {from}, wrote {wrote}");
            assert_eq!(notes.list().len(), 1);
            let finished = records(&*journal, "t").await;
            let finished = finished.iter().filter(|record| matches!(record, Record::ToolFinished { .. }));
            assert_eq!(finished.count(), 1, "append {from}, wrote {wrote}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_stays_unavailable_fails_the_run_when_the_lease_may_expire() {
    let journal = Troubled::new(2, Trouble::Away { times: usize::MAX, wrote: false });
    let model = ScriptedModel::new([Turn::text("done")]);
    let agent = agent(model).journal(journal).build().unwrap();
    let started = Instant::now();
    let error = agent.invoke(RunInput::new("go").thread("t").lease(Duration::from_secs(40))).await.unwrap_err();
    assert!(error.to_string().contains("the connection was lost"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// Returns the calls with a result, in a list of records.
fn finished(records: Vec<Record>) -> Vec<CallId> {
    let own = records.into_iter().map(|record| if let Record::Child { entry, .. } = record { *entry } else { record });
    own.filter_map(|record| if let Record::ToolFinished { call, .. } = record { Some(call) } else { None }).collect()
}

#[tokio::test(start_paused = true)]
async fn no_event_reports_what_a_failing_journal_did_not_store() {
    for from in 0..10 {
        let journal = Troubled::new(from, Trouble::Away { times: usize::MAX, wrote: false });
        let work = || tool("work", |_, _| async { Ok("worked") });
        let script = || ScriptedModel::new([Turn::call("work", json!({})), Turn::text("done")]);
        let child = agent(script()).tool(work()).name("child").build().unwrap();
        let delegate = tool("delegate", move |_, cx| {
            let child = child.clone();
            async move {
                let state = State::new(child.schema().clone());
                Ok(cx.run_child(&child, "task", state, "Work.").await?.result?.text())
            }
        });
        let calls = Turn::calls([("work", json!({})), ("delegate", json!({}))]);
        let agent = agent(ScriptedModel::new([calls, Turn::text("done")])).tool(work()).tool(delegate);
        let agent = agent.journal(journal.clone()).build().unwrap();
        let run = agent.run(RunInput::new("go").thread("t").lease(Duration::from_secs(40)));
        let handle = run.handle();
        let (events, outcome) = watch(run).await;
        if from < 6 {
            outcome.unwrap_err();
        }
        let (mut answers, mut results) = (0, Vec::new());
        for event in &events {
            match &event.kind {
                EventKind::ModelFinished { .. } if event.path.is_empty() => answers += 1,
                EventKind::ToolFinished { call, .. } => results.push(call.clone()),
                _ => {}
            }
        }
        assert_eq!(results, finished(records(&*journal, "t").await), "append {from}");
        let stored = agent.state("t").await.unwrap();
        let is_answer = |message: &&Message| message.as_assistant().is_some();
        assert_eq!(answers, stored.messages().iter().map(|m| &**m).filter(is_answer).count(), "append {from}");
        let ends = events.iter().filter(|event| event.kind.is_end()).count();
        assert_eq!((ends, events.last().unwrap().kind.is_end()), (1, true), "append {from}");
        let shown = handle.snapshot().await.state;
        assert!(shown.messages().len() <= stored.messages().len(), "append {from}");
    }
}

/// A journal whose appends panic.
struct Panicking {
    inner: MemoryJournal,
}

impl Journal for Panicking {
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        _: &'a str,
        _: Fence,
        _: LogPosition,
        _: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async { panic!("the journal panics") })
    }
}

#[tokio::test]
async fn a_panicking_journal_is_an_error_for_watched_and_invoked_runs() {
    let agent = agent(ScriptedModel::new([])).journal(Panicking { inner: MemoryJournal::new() }).build().unwrap();
    let watched = agent.run(RunInput::new("go").thread("a")).outcome().await.unwrap_err();
    let invoked = agent.invoke(RunInput::new("go").thread("b")).await.unwrap_err();
    for error in [watched, invoked] {
        assert_eq!(error.to_string(), "the run panicked: the journal panics");
    }
}

/// A journal that panics at append number `at`, once notified.
struct PanicsAt {
    inner: MemoryJournal,
    appends: AtomicUsize,
    at: usize,
    reached: Notify,
    go: Notify,
}

impl Journal for PanicsAt {
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            if self.appends.fetch_add(1, Ordering::SeqCst) == self.at {
                self.reached.notify_one();
                self.go.notified().await;
                panic!("the journal panics");
            }
            self.inner.append(thread, fence, expected, records).await
        })
    }
}

#[tokio::test]
async fn a_journal_panic_while_several_agents_write_leaves_none_waiting() {
    let child = agent(ScriptedModel::rules().always(Turn::text("found")).build()).name("child").build().unwrap();
    for at in 0.. {
        let (inner, appends) = (MemoryJournal::new(), AtomicUsize::new(0));
        let (reached, go) = (Notify::new(), Notify::new());
        let journal = Arc::new(PanicsAt { inner, appends, at, reached, go });
        let below = child.clone();
        let delegate = tool("delegate", move |_, cx| {
            let child = below.clone();
            async move {
                let state = State::new(child.schema().clone());
                Ok(cx.run_child(&child, "task", state, "Find it.").await?.result?.text())
            }
        });
        let calls = Turn::calls([("delegate", json!({})), ("delegate", json!({})), ("delegate", json!({}))]);
        let model = ScriptedModel::new([calls, Turn::text("done")]);
        let agent = agent(model).tool(delegate).journal(journal.clone()).build().unwrap();
        let run = agent.run(RunInput::new("go").thread("t")).detach();
        tokio::select! {
            () = journal.reached.notified() => {}
            // The run has ended with fewer appends.
            outcome = run.outcome() => return assert_eq!(outcome.unwrap().text(), "done", "append {at}"),
        }
        // By now, every concurrent writer waits for its turn.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        journal.go.notify_one();
        // The run must end; how does not matter.
        let _ = run.outcome().await;
    }
}

/// A journal whose snapshots and claims of child threads hang.
#[derive(Default)]
struct Hanging {
    inner: MemoryJournal,
    reached: Notify,
    /// Whether snapshots are due.
    snapshots: bool,
}

impl Hanging {
    async fn hang<T>(&self) -> T {
        self.reached.notify_one();
        std::future::pending().await
    }
}

impl Journal for Hanging {
    forward_journal!([.inner]; renew, release, read, load, threads);

    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>> {
        if thread.contains('/') { Box::pin(self.hang()) } else { self.inner.claim(thread, claim) }
    }
    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            let appended = self.inner.append(thread, fence, expected, records).await?;
            let bytes = if self.snapshots { 1 << 20 } else { 0 };
            Ok(Appended { bytes, ..appended })
        })
    }
    fn put_snapshot<'a>(&'a self, _: &'a str, _: Fence, _: Snapshot) -> BoxFuture<'a, Result<u64, JournalError>> {
        Box::pin(self.hang())
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_snapshot_does_not_block_cancelling() {
    let journal = Arc::new(Hanging { snapshots: true, ..Hanging::default() });
    let agent = agent(ScriptedModel::new([Turn::text("done")])).journal(journal.clone()).build().unwrap();
    let run = agent.run(RunInput::new("go").thread("t"));
    journal.reached.notified().await;
    let started = Instant::now();
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_thread_start_does_not_block_cancelling_a_background_agent() {
    let journal = Arc::new(Hanging::default());
    let below = agent(ScriptedModel::new([])).name("below").build().unwrap();
    let started: Arc<Mutex<Option<RunHandle>>> = Arc::default();
    let handle = started.clone();
    let start = tool("start", move |_, cx| {
        let (agent, handle) = (below.clone(), handle.clone());
        async move {
            let state = cx.state().fork(agent.schema().clone())?;
            let (id, name, input) = ("errand".to_owned(), "below".to_owned(), RunInput::new("Send both."));
            let begun = cx.background().start(NewTask { id, name, agent, state, input }, 1);
            *handle.lock().unwrap() = Some(begun.map_err(ToolError::fatal)?);
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let model = ScriptedModel::new([Turn::call("start", json!({}))]);
    let agent = agent(model).tool(start).journal(journal.clone()).build().unwrap();
    let _run = agent.run(RunInput::new("go").thread("t"));
    journal.reached.notified().await;
    let began = Instant::now();
    let handle = started.lock().unwrap().clone().unwrap();
    handle.cancel();
    assert_eq!(handle.outcome().await.unwrap().stop, FinishReason::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(30));
}
