//! Journals that are unavailable for longer than a lease, and for less.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::error::Error;
use deepagents_core::forward_journal;
use deepagents_core::journal::{
    Appended, Claim, Fence, Journal, JournalError, Lease, LogPosition, MemoryJournal, Record, RunStatus,
};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{agent, assert_sound, lines, records, tool};

const LEASE: Duration = Duration::from_secs(15);

/// A journal that is unavailable for a while, in seconds since its creation.
struct Away {
    inner: MemoryJournal,
    made: Instant,
    away: Range<f64>,
    /// When leases were renewed.
    renewed: Mutex<Vec<f64>>,
}

impl Away {
    fn during(away: Range<f64>) -> Arc<Self> {
        Arc::new(Self { inner: MemoryJournal::new(), made: Instant::now(), away, renewed: Mutex::default() })
    }

    fn check(&self) -> Result<f64, JournalError> {
        let now = self.made.elapsed().as_secs_f64();
        if self.away.contains(&now) {
            return Err(JournalError::Unavailable { source: "the connection was lost".into() });
        }
        Ok(now)
    }
}

impl Journal for Away {
    forward_journal!([.inner]; claim, load, read, put_snapshot, threads);

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            let now = self.check()?;
            self.inner.renew(thread, fence, lease).await?;
            self.renewed.lock().unwrap().push(now);
            Ok(())
        })
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.release(thread, fence).await
        })
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.append(thread, fence, expected, records).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_outage_longer_than_the_lease_fails_the_run_which_can_be_resumed() {
    for with_call in [false, true] {
        let journal = Away::during(4.0..19.5);
        let waits = tool("wait", |_, _| async {
            tokio::time::sleep(Duration::from_secs(120)).await;
            Ok("waited")
        });
        let first = if with_call { Turn::call("wait", json!({})) } else { Turn::text("never") };
        let first = if with_call { first } else { first.delay(Duration::from_secs(120)) };
        let model = ScriptedModel::new([first, Turn::text("done")]);
        let agent = agent(model).tool(waits).journal(journal.clone()).build().unwrap();
        let error = agent.invoke(RunInput::new("go").thread("t").lease(LEASE)).await.unwrap_err();
        assert!(matches!(&*error.error, Error::Journal(JournalError::Unavailable { .. })), "{error}");
        assert_sound(error.state.messages());
        // Nothing in flight reaches the log once the storage is back.
        tokio::time::sleep(LEASE * 4).await;
        let ends = |record: &Record| match record {
            Record::RunFinished { .. } | Record::ToolFinished { .. } => true,
            other => format!("{other:?}").contains("Cancelled"),
        };
        let log = records(&*journal, "t").await;
        assert!(!log.iter().any(ends), "{log:?}");
        assert_eq!(journal.threads().get("t").await.unwrap().unwrap().status, RunStatus::Open);
        // The paused clock is not that of the journal, so its lease has not expired.
        let outcome = agent.invoke(RunInput::resume("t").take_over()).await.unwrap();
        assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "done".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_outage_shorter_than_the_lease_changes_nothing() {
    let journal = Away::during(4.0..10.1);
    let model = ScriptedModel::new([Turn::text("done").delay(Duration::from_secs(120))]);
    let agent = agent(model).journal(journal.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t").lease(LEASE)).await.unwrap();
    assert_eq!(lines(outcome.messages()), ["user: go", "assistant: done"]);
    let renewed = journal.renewed.lock().unwrap().clone();
    assert!(renewed.iter().any(|at| (10.1..11.0).contains(at)), "{renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_says_why_it_was_lost() {
    let journal = Away::during(4.0..1_000.0);
    let lease = Lease::claim(journal, "t", Claim::new("first", LEASE)).await.unwrap();
    assert!(lease.why_lost().is_none());
    lease.lost().cancelled().await;
    let why = lease.why_lost().unwrap();
    assert!(matches!(&why, JournalError::Unavailable { .. }), "{why}");
    assert!(why.to_string().contains("the lease of thread `t` expired: "), "{why}");

    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let lease = Lease::claim(journal.clone(), "t", Claim::new("first", LEASE)).await.unwrap();
    let _taken = Lease::claim(journal, "t", Claim::new("second", LEASE).take_over()).await.unwrap();
    lease.lost().cancelled().await;
    assert!(matches!(lease.why_lost(), Some(JournalError::Fenced { .. })));
}

#[tokio::test]
async fn a_lease_may_have_the_maximum_duration() {
    let agent = agent(ScriptedModel::new([Turn::text("done")])).journal(MemoryJournal::new()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t").lease(Duration::MAX)).await.unwrap();
    assert_eq!(outcome.text(), "done");
}
