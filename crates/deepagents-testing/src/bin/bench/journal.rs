//! What a database costs a run: one append a step, snapshots as they fall due, and a cold load.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use deepagents_core::agent::Agent;
use deepagents_core::journal::{
    Appended, Claim, Entry, Fence, Journal, JournalError, Loaded, Position, Record, Snapshot, Threads,
};
use deepagents_core::middleware::{Go, Step, after_model};
use deepagents_core::run::{Context, RunInput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_persist::{Sqlite, Synchronous};
use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{Bench, timed, usage};

impl Bench {
    pub(super) async fn journal(&self) -> Result<Map<String, Value>> {
        let (steps, bytes): (usize, usize) = (self.arg(0)?, self.arg(1)?);
        let path: PathBuf = self.args.get(2).context("argument 3 is missing: where the database is")?.into();
        let synchronous = match self.args.get(3).map(String::as_str) {
            None | Some("normal") => Synchronous::Normal,
            Some("full") => Synchronous::Full,
            Some(other) => bail!("there is no `{other}`, only normal and full"),
        };
        let database = Sqlite::options().synchronous(synchronous).open(&path).await?;
        ensure!(database.threads().get("t").await?.is_none(), "{} has been used before; name another", path.display());
        let timer = Arc::new(Timed { inner: database, times: Mutex::default() });
        let (started, cpu) = (Instant::now(), usage::cpu());
        let outcome = agent(timer.clone(), steps, bytes)?.invoke(RunInput::new("go").thread("t")).await?;
        let mut out = timed(started.elapsed(), usage::cpu().saturating_sub(cpu));
        ensure!(outcome.messages().len() == steps + 1, "the run made {} messages", outcome.messages().len());
        out.insert("mb".to_owned(), json!(size(&path) as f64 / 1e6));
        let times = timer.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        appends(&mut out, &times);
        drop(timer);
        let before = Value::Object(outcome.state.to_json(true)?);
        let database = Sqlite::open(&path).await?;
        let reader = agent(Arc::new(Timed { inner: database, times: Mutex::default() }), steps, bytes)?;
        let started = Instant::now();
        let state = reader.state("t").await?;
        out.insert("load_ms".to_owned(), json!(milliseconds(started.elapsed())));
        ensure!(Value::Object(state.to_json(true)?) == before, "the thread came back as another");
        Ok(out)
    }
}

/// An agent whose model says so many bytes, so many times.
fn agent(journal: Arc<Timed>, steps: usize, bytes: usize) -> Result<Agent> {
    let model = ScriptedModel::rules().always(Turn::with(move |_| Turn::text(words(bytes)))).build();
    let again = after_model(move |cx: Context| async move {
        Ok(if cx.messages().len() <= steps { Step::go(Go::Model) } else { Step::next() })
    });
    Ok(Agent::builder(model).middleware(again).dyn_journal(journal).build()?)
}

/// Text that repeats nothing.
fn words(bytes: usize) -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(bytes).collect()
}

fn appends(out: &mut Map<String, Value>, times: &[Duration]) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |share: usize| sorted.get(sorted.len() * share / 100).copied().unwrap_or_default();
    let mean = |part: Option<&[Duration]>| {
        let part = part.unwrap_or_default();
        milliseconds(part.iter().sum::<Duration>()) / part.len().max(1) as f64
    };
    let fifth = times.len() / 5;
    let (first, last) = (mean(times.get(..fifth)), mean(times.get(times.len() - fifth..)));
    for (name, value) in [
        ("append_p50_ms", milliseconds(at(50))),
        ("append_p99_ms", milliseconds(at(99))),
        ("first_fifth_ms", first),
        ("last_fifth_ms", last),
        ("last_to_first", last / first),
    ] {
        out.insert(name.to_owned(), json!(value));
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Bytes of the database and its WAL.
fn size(path: &Path) -> u64 {
    let of = |suffix: &str| std::fs::metadata(format!("{}{suffix}", path.display())).map_or(0, |file| file.len());
    of("") + of("-wal")
}

/// Notes how long appends take, with the snapshots that fall due between them.
struct Timed {
    inner: Sqlite,
    times: Mutex<Vec<Duration>>,
}

impl Timed {
    fn note(&self, time: Duration, last: bool) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        match times.last_mut().filter(|_| last) {
            Some(step) => *step += time,
            None => times.push(time),
        }
    }
}

impl Journal for Timed {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>> {
        self.inner.claim(thread, claim)
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>> {
        self.inner.renew(thread, fence, lease)
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        self.inner.release(thread, fence)
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: Position,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            let started = Instant::now();
            let appended = self.inner.append(thread, fence, expected, records).await;
            self.note(started.elapsed(), false);
            appended
        })
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<Position>) -> BoxFuture<'a, Result<Loaded, JournalError>> {
        self.inner.load(thread, at)
    }

    fn read<'a>(
        &'a self,
        thread: &'a str,
        positions: Range<Position>,
    ) -> BoxFuture<'a, Result<Vec<Entry>, JournalError>> {
        Journal::read(&self.inner, thread, positions)
    }

    fn put_snapshot<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<u64, JournalError>> {
        Box::pin(async move {
            let started = Instant::now();
            let bytes = self.inner.put_snapshot(thread, fence, snapshot).await;
            // A snapshot is part of what its step costs.
            self.note(started.elapsed(), true);
            bytes
        })
    }

    fn threads(&self) -> &dyn Threads {
        self.inner.threads()
    }
}
