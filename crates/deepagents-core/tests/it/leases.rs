//! Threads owned by workers: one at a time, until released or lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::error::Error;
use deepagents_core::forward_journal;
use deepagents_core::interrupt::DecisionKind;
use deepagents_core::journal::{
    Appended, Claim, Fence, Journal, JournalError, Lease, Loaded, LogPosition, MemoryJournal, ProcessIdentity, Record,
    RunStatus, ThreadInfo, ThreadQuery, Threads,
};
use deepagents_core::message::Message;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::Update;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::{lines, tool};

const MINUTE: Duration = Duration::from_secs(60);

async fn claimed(journal: &Arc<dyn Journal>, owner: &str) -> Result<Lease, JournalError> {
    Lease::claim(journal.clone(), "t", Claim::new(owner, MINUTE)).await
}

#[tokio::test]
async fn a_thread_has_one_owner_until_the_lease_is_released_or_dropped() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let lease = claimed(&journal, "first").await.unwrap();
    assert_eq!(lease.thread(), "t");
    let busy = claimed(&journal, "second").await.unwrap_err();
    assert!(matches!(&busy, JournalError::Busy { owner, .. } if owner == "first"), "{busy}");
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    let lease = claimed(&journal, "second").await.unwrap();
    drop(lease);
    claimed(&journal, "third").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn only_a_run_that_owns_the_thread_writes_its_notes_to_it() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let noting = Arc::new(tokio::sync::Semaphore::new(0));
    let waits = noting.clone();
    let call = tool("wait", move |_, _| {
        let waits = waits.clone();
        async move {
            drop(waits.acquire().await);
            Ok("there".to_owned())
        }
    });
    let model = ScriptedModel::new([Turn::call("wait", json!({})), Turn::text("Done.")]);
    let agent = Agent::builder(model).tool(call).journal(journal.clone()).build().unwrap();
    let note = |word: &str| [("by".to_owned(), json!(word))].into_iter().collect::<serde_json::Map<_, _>>();
    let info = || async { journal.threads().get("t").await.unwrap().unwrap() };
    journal.threads().set_metadata("t", note("nobody")).await.unwrap();
    assert!(!info().await.is_noted_by_owner(), "there is no owner");
    let lease = claimed(&journal, "before").await.unwrap();
    assert!(!info().await.is_noted_by_owner(), "what is there is of somebody else");
    let run = agent.run(RunInput::new("Go.").owned(lease).note(note("the run")));
    run.handle().snapshot().await;
    let now = info().await;
    assert!(now.is_noted_by_owner() && now.metadata["by"] == "the run" && now.metadata["noted_by"] == "before");
    let other = Agent::builder(ScriptedModel::new([])).journal(journal.clone()).build().unwrap();
    let refused = other.invoke(RunInput::new("Mine?").thread("t").note(note("another"))).await.unwrap_err();
    assert!(refused.to_string().contains("is being worked on by before"), "{refused}");
    assert_eq!(info().await.metadata, now.metadata);
    noting.add_permits(1);
    run.outcome().await.unwrap();
    assert_eq!((info().await.owner, info().await.is_noted_by_owner()), (None, false));
}

/// A numbered process. Those below `first_living` are gone.
struct Numbered {
    number: u64,
    first_living: u64,
}

impl ProcessIdentity for Numbered {
    fn metadata(&self) -> serde_json::Map<String, Value> {
        [("number".to_owned(), json!(self.number))].into_iter().collect()
    }

    fn is_gone(&self, thread: &ThreadInfo) -> bool {
        thread.metadata["number"].as_u64().unwrap() < self.first_living
    }
}

#[tokio::test]
async fn a_run_takes_over_threads_of_dead_processes_only() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let run = async |number, first_living| {
        let process = Numbered { number, first_living };
        let model = ScriptedModel::rules().always(Turn::text("Done.")).build();
        let agent = Agent::builder(model).journal(journal.clone()).process(process).build().unwrap();
        agent.invoke(RunInput::new("Go.").thread("t")).await
    };
    let owned_by = async |number: u64, noted_by: &str| {
        let note = [("number".to_owned(), json!(number)), ("noted_by".to_owned(), json!(noted_by))];
        let claim = Claim::new("a", MINUTE).metadata(note.into_iter().collect());
        journal.claim("t", claim).await.unwrap()
    };
    let fence = owned_by(1, "a").await;
    let refused = run(2, 1).await.unwrap_err();
    assert!(refused.to_string().contains("is being worked on by a"), "{refused}");
    run(2, 2).await.unwrap();
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().metadata["number"], 2);
    assert!(journal.renew("t", fence, MINUTE).await.is_err());
    // Metadata of another owner says nothing about this one.
    owned_by(1, "b").await;
    run(2, 2).await.unwrap_err();
}

/// A journal that answers renewals only while allowed to.
#[derive(Default)]
struct Slow {
    inner: MemoryJournal,
    asked: AtomicUsize,
    answers: AtomicBool,
}

impl Journal for Slow {
    forward_journal!([.inner]; claim, load, read, put_snapshot, threads);

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if !self.answers.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            self.inner.renew(thread, fence, lease).await
        })
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        self.inner.release(thread, fence)
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        self.inner.append(thread, fence, expected, records)
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_suspended_during_a_renewal_renews_again_before_losing_its_thread() {
    let journal = Arc::new(Slow::default());
    let lease = Lease::claim(journal.clone(), "t", Claim::new("first", MINUTE)).await.unwrap();
    let asked = |times: usize| journal.asked.load(Ordering::SeqCst) >= times;
    while !asked(1) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    journal.answers.store(true, Ordering::SeqCst);
    // The process is suspended for an hour, and its first renewal is never answered.
    tokio::time::advance(MINUTE * 60).await;
    while !asked(2) {
        assert!(!lease.lost().is_cancelled(), "it did not ask again");
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(MINUTE * 2).await;
    assert!(!lease.lost().is_cancelled());
    // A process that was not suspended loses its thread when the lease expires.
    journal.answers.store(false, Ordering::SeqCst);
    lease.lost().cancelled().await;
}

#[tokio::test]
async fn a_lease_proves_the_ownership_required_for_appends() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let lease = claimed(&journal, "first").await.unwrap();
    let record =
        || vec![Record::RunStarted { run: "r".to_owned(), at: "1970-01-01T00:00:00Z".to_owned(), thread: None }];
    journal.append("t", lease.fence(), 0, record()).await.unwrap();
    let taken = Lease::claim(journal.clone(), "t", Claim::new("second", MINUTE).take_over()).await.unwrap();
    assert!(taken.fence() > lease.fence());
    let fenced = journal.append("t", lease.fence(), 1, record()).await.unwrap_err();
    assert!(matches!(fenced, JournalError::Fenced { .. }), "{fenced}");
    journal.append("t", taken.fence(), 1, record()).await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_is_signalled_by_its_token() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let quick = Claim::new("first", Duration::from_millis(60));
    let lease = Lease::claim(journal.clone(), "t", quick).await.unwrap();
    let _taken = Lease::claim(journal.clone(), "t", Claim::new("second", MINUTE).take_over()).await.unwrap();
    lease.lost().cancelled().await;

    let lease = Lease::claim(journal.clone(), "u", Claim::new("first", MINUTE)).await.unwrap();
    let _taken = Lease::claim(journal.clone(), "u", Claim::new("second", MINUTE).take_over()).await.unwrap();
    assert!(!lease.lost().is_cancelled(), "the next renewal is far away");
    assert!(matches!(lease.renew().await.unwrap_err(), JournalError::Fenced { .. }));
    assert!(lease.lost().is_cancelled(), "one who asks knows at once");
}

fn worker(journal: &Arc<MemoryJournal>, turns: Vec<Turn>) -> Agent {
    Agent::builder(ScriptedModel::new(turns)).journal(journal.clone()).build().unwrap()
}

/// A thread whose run was left by a killed process.
async fn killed(journal: &Arc<MemoryJournal>, name: &str) {
    let began = Arc::new(Notify::new());
    let notify = began.clone();
    let hanging = tool("hang", move |_, _| {
        notify.notify_one();
        std::future::pending::<Result<String, _>>()
    });
    let model = ScriptedModel::new([Turn::call("hang", json!({}))]);
    let run = Agent::builder(model).journal(journal.clone()).tool(hanging).build().unwrap();
    let run = run.run(RunInput::new("go").thread("living"));
    began.notified().await;
    journal.threads().copy("living", name, None).await.unwrap();
    run.cancel();
    run.outcome().await.unwrap();
}

#[tokio::test]
async fn a_worker_claims_open_threads_and_passes_its_lease_to_the_resumed_run() {
    let journal = Arc::new(MemoryJournal::new());
    killed(&journal, "t").await;
    let shared: Arc<dyn Journal> = journal.clone();
    let open = ThreadQuery::default().status(RunStatus::Open).claimable();
    let found = journal.list(&open).await.unwrap();
    assert_eq!(found.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), ["t"]);
    let lease = claimed(&shared, "worker-1").await.unwrap();
    assert!(claimed(&shared, "worker-2").await.is_err());
    assert!(journal.list(&open).await.unwrap().is_empty(), "one that is owned is not to be claimed");
    let fence = lease.fence();
    let outcome = worker(&journal, vec![Turn::text("done")]).invoke(RunInput::resume("t").owned(lease)).await.unwrap();
    assert_eq!(lines(outcome.messages()).last().unwrap(), "assistant: done");
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.status, info.owner), (RunStatus::Ended, None));
    assert!(claimed(&shared, "next").await.unwrap().fence() > fence);
}

#[tokio::test]
async fn a_run_whose_lease_is_taken_over_ends_and_writes_nothing_more() {
    let journal = Arc::new(MemoryJournal::new());
    let shared: Arc<dyn Journal> = journal.clone();
    let lease = Lease::claim(shared.clone(), "t", Claim::new("worker-1", Duration::from_millis(60))).await.unwrap();
    let hanging = worker(&journal, vec![Turn::text("never").delay(Duration::from_secs(3600))]);
    let run = hanging.run(RunInput::new("go").owned(lease));
    run.handle().snapshot().await;
    let taken = Lease::claim(shared.clone(), "t", Claim::new("worker-2", MINUTE).take_over()).await.unwrap();
    let end = journal.threads().get("t").await.unwrap().unwrap().end;
    assert_eq!(run.outcome().await.unwrap_err().kind(), "journal");
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().end, end);
    taken.release().await.unwrap();
}

#[tokio::test]
async fn another_threads_lease_is_refused_and_released() {
    let journal = Arc::new(MemoryJournal::new());
    let shared: Arc<dyn Journal> = journal.clone();
    let lease = claimed(&shared, "worker").await.unwrap();
    let agent = worker(&journal, vec![Turn::text("done")]);
    let refused = agent.invoke(RunInput::new("go").owned(lease).thread("u")).await.unwrap_err();
    assert_eq!(refused.to_string(), "the lease is for thread `t`, but the run continues `u`");
    // The thread was released, and its next owner keeps others away.
    let next = claimed(&shared, "next").await.unwrap();
    agent.update_state("t", Update::message(Message::user("x"))).await.unwrap_err();
    next.release().await.unwrap();
}

/// A journal that makes each claim after a delay, whether or not the caller still waits, as with a locked database.
struct Locked {
    inner: Arc<MemoryJournal>,
}

impl Journal for Locked {
    forward_journal!([.inner]; renew, release, read, append, load, put_snapshot, threads);

    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>> {
        let (inner, thread) = (self.inner.clone(), thread.to_owned());
        let claimed = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            inner.claim(&thread, claim).await
        });
        Box::pin(async move { claimed.await.unwrap() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_completes_after_its_caller_gave_up_is_released() {
    let journal = Arc::new(Locked { inner: Arc::default() });
    let model = ScriptedModel::rules().always(Turn::text("done")).build();
    let agent = Agent::builder(model).journal(journal).build().unwrap();
    let input = || RunInput::new("go").thread("t");
    tokio::time::timeout(Duration::from_millis(100), agent.invoke(input())).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(agent.invoke(input()).await.unwrap().text(), "done");
}

/// A journal whose release returns some time after it took effect.
struct SlowRelease {
    inner: MemoryJournal,
}

impl Journal for SlowRelease {
    forward_journal!([.inner]; claim, renew, load, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        self.inner.append(thread, fence, expected, records)
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.inner.release(thread, fence).await?;
            tokio::time::sleep(Duration::from_secs(4)).await;
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_cancel_a_run_that_ended_to_wait() {
    let cancelled: Arc<Mutex<Option<CancellationToken>>> = Arc::default();
    let token = cancelled.clone();
    let ask = tool("ask", move |_, cx| {
        *token.lock().unwrap() = Some(cx.cancellation().clone());
        async move {
            cx.interrupt("May I?", [DecisionKind::Approve])?;
            Ok("asked")
        }
    });
    let model = ScriptedModel::new([Turn::call("ask", json!({}))]);
    let agent = Agent::builder(model).tool(ask).journal(SlowRelease { inner: MemoryJournal::new() }).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t").lease(Duration::from_secs(6))).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    let token = cancelled.lock().unwrap().clone().unwrap();
    assert!(!token.is_cancelled());
}

/// A journal that hangs when a thread is read at a position, and whose leases are lost.
struct Stuck {
    inner: MemoryJournal,
}

impl Journal for Stuck {
    forward_journal!([.inner]; claim, read, put_snapshot, threads);

    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> BoxFuture<'a, Result<Loaded, JournalError>> {
        if at.is_some() { Box::pin(std::future::pending()) } else { self.inner.load(thread, at) }
    }

    fn renew<'a>(&'a self, thread: &'a str, _: Fence, _: Duration) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async { Err(JournalError::Fenced { thread: thread.to_owned() }) })
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        self.inner.release(thread, fence)
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        self.inner.append(thread, fence, expected, records)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_loses_its_thread_while_reading_its_start_position_fails() {
    let model = ScriptedModel::rules().always(Turn::text("done")).build();
    let agent = Agent::builder(model).journal(Stuck { inner: MemoryJournal::new() }).build().unwrap();
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let error = agent.invoke(RunInput::new("again").thread("t").at(2)).await.unwrap_err();
    assert!(matches!(&*error.error, Error::Journal(JournalError::Fenced { .. })), "{error}");
}
