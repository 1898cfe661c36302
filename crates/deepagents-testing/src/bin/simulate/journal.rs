//! The storage as seen by one process: it fails, hangs and loses responses, and the process may crash at any call.

use std::future::{Future, pending};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::forward_threads;
use deepagents_core::journal::{
    Appended, Claim, Fence, Journal, JournalError, Loaded, LogEntry, LogPosition, Record, Snapshot, ThreadInfo,
    ThreadQuery, Threads, decode, encode,
};
use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use super::process::Process;
use super::world::World;

/// The reported size of any record, followed by that of a snapshot, so that snapshots fall due in short logs.
const RECORD_BYTES: u64 = 20_000;
const SNAPSHOT_BYTES: u64 = 100_000;

/// The journal of a process.
pub(crate) struct FaultyJournal {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

/// What happens to a call.
enum Fault {
    None,
    /// It fails at once without an effect.
    Unavailable,
    /// It takes effect, but the response is lost.
    AnswerLost,
    /// It is delayed for this long and then takes effect or not.
    Hangs(Duration, bool),
    /// It fails permanently without an effect.
    Fails,
    /// The process crashes before the call takes effect, or after it.
    CrashBefore,
    CrashAfter,
}

impl FaultyJournal {
    fn draw(&self, writes: bool) -> Fault {
        let (world, weather) = (&self.world, self.world.scenario.weather);
        if writes && world.happens(weather.crash) && self.process.takes_fault() {
            return if world.below(2) == 0 { Fault::CrashBefore } else { Fault::CrashAfter };
        }
        if !world.happens(weather.journal) || !self.process.takes_fault() {
            return Fault::None;
        }
        match world.below(if writes { 8 } else { 5 }) {
            0..3 => Fault::Unavailable,
            3 => Fault::Hangs(world.random_time(20_000), false),
            4 if !writes && world.below(4) == 0 => Fault::Fails,
            4 => Fault::Hangs(world.random_time(60_000), true),
            5 if world.below(4) == 0 => Fault::Fails,
            _ => Fault::AnswerLost,
        }
    }

    /// Performs a call, with a fault if one is drawn.
    async fn call<T>(
        &self,
        what: &str,
        writes: bool,
        work: impl Future<Output = Result<T, JournalError>>,
    ) -> Result<T, JournalError> {
        self.process.gate().await;
        let fault = self.draw(writes);
        if !matches!(fault, Fault::None) {
            self.world.fault(&format!("{} of {what} in process {}", fault.name(), self.process.number));
        }
        let done = match fault {
            Fault::None => work.await,
            Fault::Unavailable => Err(unavailable()),
            Fault::AnswerLost => work.await.and_then(|_| Err(unavailable())),
            Fault::Hangs(time, carried_out) => {
                tokio::time::sleep(time).await;
                self.process.gate().await;
                if carried_out { work.await } else { Err(unavailable()) }
            }
            Fault::Fails => Err(JournalError::Storage("injected: the disk is gone".into())),
            Fault::CrashBefore => {
                self.process.end();
                pending().await
            }
            Fault::CrashAfter => {
                // The process is gone, so the result does not matter.
                let _ = work.await;
                self.process.end();
                pending().await
            }
        };
        self.process.gate().await;
        done
    }
}

impl Fault {
    fn name(&self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Unavailable => "refusal",
            Self::AnswerLost => "lost answer",
            Self::Hangs(_, true) => "delay",
            Self::Hangs(_, false) => "timeout",
            Self::Fails => "failure",
            Self::CrashBefore => "crash before the end",
            Self::CrashAfter => "crash after the end",
        }
    }
}

fn unavailable() -> JournalError {
    JournalError::Unavailable { source: "injected: no connection".into() }
}

/// Encodes and decodes records, as a database would.
fn through_text(thread: &str, expected: LogPosition, records: Vec<Record>) -> Result<Vec<Record>, JournalError> {
    let through = |(position, record): (LogPosition, Record)| {
        let failed = |reason: String| JournalError::Encode { thread: thread.to_owned(), position, reason };
        let text = encode(&record).map_err(|error| failed(error.to_string()))?;
        decode(thread, position, &text)
    };
    (expected..).zip(records).map(through).collect()
}

impl Journal for FaultyJournal {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>> {
        Box::pin(self.call("claim", true, async move {
            let fence = self.world.journal.claim(thread, claim).await?;
            self.world.note(&format!("{} claims {thread} as {}", self.process.number, fence.epoch()));
            let mut known = self.world.lock();
            known.owners.insert(thread.to_owned(), fence.epoch());
            if thread == known.thread {
                known.claims.push(self.process.number);
            }
            drop(known);
            Ok(fence)
        }))
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(self.call("renew", false, async move { self.world.journal.renew(thread, fence, lease).await }))
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(self.call("release", true, async move { self.world.journal.release(thread, fence).await }))
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(self.call("append", true, async move {
            let read = through_text(thread, expected, records)?;
            let before = self.world.journal.threads().get(thread).await?.map_or(0, |info| info.end);
            let appended = self.world.journal.append(thread, fence, expected, read.clone()).await?;
            // A repeated append adds nothing.
            if appended.end > before {
                self.world.appended(thread, fence.epoch(), appended.end, &read);
            }
            Ok(Appended { bytes: RECORD_BYTES * read.len() as u64, ..appended })
        }))
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> BoxFuture<'a, Result<Loaded, JournalError>> {
        Box::pin(self.call("load", false, async move { self.world.journal.load(thread, at).await }))
    }

    fn read<'a>(
        &'a self,
        thread: &'a str,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<Vec<LogEntry>, JournalError>> {
        Box::pin(self.call("read", false, async move { self.world.journal.read(thread, positions).await }))
    }

    fn put_snapshot<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<u64, JournalError>> {
        Box::pin(self.call("put_snapshot", true, async move {
            self.world.note(&format!("snapshot of {thread} at {}", snapshot.position));
            self.world.journal.put_snapshot(thread, fence, snapshot).await?;
            Ok(SNAPSHOT_BYTES)
        }))
    }

    fn threads(&self) -> &dyn Threads {
        self
    }
}

impl Threads for FaultyJournal {
    forward_threads!([.world.journal.threads()]; set_ttl, sweep);

    fn get<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<Option<ThreadInfo>, JournalError>> {
        Box::pin(self.call("get", false, async move { self.world.journal.threads().get(thread).await }))
    }

    fn list<'a>(&'a self, query: &'a ThreadQuery) -> BoxFuture<'a, Result<Vec<ThreadInfo>, JournalError>> {
        Box::pin(self.call("list", false, async move { self.world.journal.threads().list(query).await }))
    }

    fn set_metadata<'a>(
        &'a self,
        thread: &'a str,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        let work = async move { self.world.journal.threads().set_metadata(thread, metadata).await };
        Box::pin(self.call("set_metadata", true, work))
    }

    fn update_metadata<'a>(
        &'a self,
        thread: &'a str,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        let work = async move { self.world.journal.threads().update_metadata(thread, metadata).await };
        Box::pin(self.call("update_metadata", true, work))
    }

    fn set_parent<'a>(&'a self, thread: &'a str, parent: Option<&'a str>) -> BoxFuture<'a, Result<(), JournalError>> {
        let work = async move { self.world.journal.threads().set_parent(thread, parent).await };
        Box::pin(self.call("set_parent", true, work))
    }

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        until: Option<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        let work = async move { self.world.journal.threads().copy(from, to, until).await };
        Box::pin(self.call("copy", true, work))
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<bool, JournalError>> {
        let work = async move { self.world.journal.threads().delete(thread).await };
        Box::pin(self.call("delete", true, work))
    }

    fn remove<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        let work = async move {
            self.world.journal.threads().remove(thread, fence, positions.clone()).await?;
            self.world.lock().removed(thread, positions);
            Ok(())
        };
        Box::pin(self.call("remove", true, work))
    }
}
