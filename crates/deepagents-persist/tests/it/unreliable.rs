//! Databases that are unreachable for a while: each append is stored once, and runs finish.
#![allow(clippy::disallowed_methods, reason = "tests mount disks and look at real files")]

use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::{Agent, AgentBuilder};
use deepagents_core::error::Error;
use deepagents_core::journal::{Appended, Claim, Fence, Journal, JournalError, Record, RecordUpdate};
use deepagents_core::message::Message;
use deepagents_core::run::{FinishReason, Outcome, RunInput};
use deepagents_core::state::Update;
use deepagents_core::tool::json_tool;
use deepagents_models::scripted::{ScriptedModel, Turn, check_history};
use deepagents_persist::{DatabaseError, Postgres, PostgresOptions, Sqlite, SqliteOptions};
use deepagents_testing::skip::skip;
use deepagents_testing::watched::{Watch, Watched};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::postgres::url;
use crate::sqlite::place;

const LEASE: Duration = Duration::from_secs(300);
const TURNS: usize = 10;
const CALLS: usize = 3;

fn words(text: &str) -> Vec<Record> {
    vec![Record::Update { update: RecordUpdate::Live(Update::message(Message::user(text))) }]
}

/// Fails a test that would hang.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("it hangs")
}

/// When the connections of a line break.
#[derive(Clone, Copy)]
enum Breaks {
    Never,
    /// After this many bytes of a request that contains a word.
    InRequest(&'static str, usize),
    /// After this many bytes of the response to it.
    InAnswer(&'static str, usize),
    /// Each after a pseudo-random number of bytes in both directions, derived from this seed.
    After(u32),
}

/// A connection to the server that breaks.
struct Line {
    url: String,
    breaks: Arc<Mutex<Breaks>>,
    broken: Arc<AtomicUsize>,
}

/// One connection, with the number of bytes that may still pass.
struct Passage {
    breaks: Arc<Mutex<Breaks>>,
    broken: Arc<AtomicUsize>,
    left: Mutex<Option<usize>>,
    closed: watch::Sender<bool>,
}

impl Line {
    async fn new(url: &str) -> Self {
        let server = url.split(['@', '/']).find(|part| part.contains(':') && !part.ends_with(':')).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap().to_string();
        let line = Self {
            url: url.replace(&server, &near),
            breaks: Arc::new(Mutex::new(Breaks::Never)),
            broken: Arc::default(),
        };
        let (breaks, broken) = (line.breaks.clone(), line.broken.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let passage = Arc::new(Passage {
                    breaks: breaks.clone(),
                    broken: broken.clone(),
                    left: Mutex::default(),
                    closed: watch::Sender::new(false),
                });
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = TcpStream::connect(&server).await.unwrap().into_split();
                tokio::spawn(passage.clone().pass(from_client, to_server, true));
                tokio::spawn(passage.pass(from_server, to_client, false));
            }
        });
        line
    }

    fn set(&self, breaks: Breaks) {
        *self.breaks.lock().unwrap() = breaks;
    }

    fn broken(&self) -> usize {
        self.broken.load(Ordering::SeqCst)
    }
}

impl Passage {
    async fn pass(
        self: Arc<Self>,
        mut from: impl AsyncReadExt + Unpin,
        mut to: impl AsyncWriteExt + Unpin,
        asks: bool,
    ) {
        let (mut bytes, mut closed) = (vec![0; 1 << 16], self.closed.subscribe());
        loop {
            let count = tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => break,
                read = from.read(&mut bytes) => match read { Ok(count @ 1..) => count, _ => break },
            };
            let may = self.may_pass(&bytes[..count], asks);
            if to.write_all(&bytes[..may]).await.is_err() {
                break;
            }
            if may < count {
                self.broken.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
        self.closed.send_replace(true);
    }

    /// How many of the bytes pass before the connection breaks.
    fn may_pass(&self, bytes: &[u8], asks: bool) -> usize {
        let mut breaks = self.breaks.lock().unwrap();
        let mut left = self.left.lock().unwrap();
        let has = |word: &str| asks && bytes.windows(word.len()).any(|part| part == word.as_bytes());
        match *breaks {
            Breaks::InRequest(word, after) if has(word) => {
                *breaks = Breaks::Never;
                *left = Some(0);
                return after.min(bytes.len() - 1);
            }
            Breaks::InAnswer(word, after) if has(word) => {
                *breaks = Breaks::Never;
                // The request itself passes.
                *left = Some(after + bytes.len());
            }
            Breaks::After(number) if left.is_none() => {
                let number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *breaks = Breaks::After(number);
                *left = Some(2_000 + (number >> 8) as usize % 10_000);
            }
            _ => {}
        }
        let Some(still) = left.as_mut() else { return bytes.len() };
        let may = bytes.len().min(*still);
        *still -= may;
        may
    }
}

/// A database behind a line, and the same one over reliable connections.
async fn behind(line: &Line, url: &str, name: &str) -> (Postgres, Postgres) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let schema = format!("{name}_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let options = || PostgresOptions {
        schema: schema.clone(),
        connections: 3,
        wait: Duration::from_secs(60),
        ..PostgresOptions::default()
    };
    (options().connect(&line.url).await.unwrap(), options().connect(url).await.unwrap())
}

/// Repeats an append until it is acknowledged. The pool may need a moment to notice a broken connection.
async fn until_appended(database: &Postgres, fence: Fence, end: u64, records: impl Fn() -> Vec<Record>) -> Appended {
    in_time(async {
        loop {
            match database.append("t", fence, end, records()).await {
                Ok(appended) => break appended,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// The caller of a broken append does not know whether it was executed, and repeats it until it is acknowledged.
async fn is_appended_once(breaks: impl Fn(&'static str, usize) -> Breaks, name: &str) {
    let Some(url) = url() else { return };
    let line = Line::new(&url).await;
    let (database, near) = behind(&line, &url, name).await;
    let fence = database.claim("t", Claim::new("test", LEASE)).await.unwrap();
    // The connection has prepared the statement.
    database.append("t", fence, 0, words("the first")).await.unwrap();
    let mut end = 1;
    for after in (0..).step_by(3) {
        line.set(breaks("unmistakable", after));
        let records = || words(&format!("unmistakable {after}"));
        let before = line.broken();
        let mut appended = in_time(database.append("t", fence, end, records())).await;
        let whole = appended.is_ok() && line.broken() == before;
        if let Err(error) = &appended {
            assert!(error.is_transient(), "after {after} bytes: {error:?}");
            appended = Ok(until_appended(&database, fence, end, records).await);
        }
        end += 1;
        assert_eq!(appended.unwrap().end, end, "after {after} bytes");
        let log = near.read("t", 0..end + 10).await.unwrap();
        assert_eq!(log.len() as u64, end, "after {after} bytes");
        if whole {
            break;
        }
    }
    assert!(line.broken() > 3, "nothing broke");
    near.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_happens_once_wherever_its_response_is_cut_off() {
    is_appended_once(Breaks::InAnswer, "answers").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_happens_once_wherever_its_request_is_cut_off() {
    // A request never passes completely: at least its last byte is missing.
    let Some(url) = url() else { return };
    let line = Line::new(&url).await;
    let (database, near) = behind(&line, &url, "requests").await;
    let fence = database.claim("t", Claim::new("test", LEASE)).await.unwrap();
    for (end, after) in [0, 1, 5, 40, 150, 250, 100_000].into_iter().enumerate() {
        let end = end as u64;
        line.set(Breaks::InRequest("unmistakable", after));
        let records = || words(&format!("unmistakable {after}"));
        let error = in_time(database.append("t", fence, end, records())).await.unwrap_err();
        assert!(error.is_transient(), "after {after} bytes: {error:?}");
        let appended = until_appended(&database, fence, end, records).await;
        assert_eq!(appended.end, end + 1, "after {after} bytes");
        assert_eq!(near.read("t", 0..end + 10).await.unwrap().len() as u64, end + 1, "after {after} bytes");
    }
    assert!(line.broken() >= 7, "nothing broke");
    near.check().await.unwrap();
}

/// An agent that makes `CALLS` parallel calls in each of `TURNS` turns.
fn sender(made: &Arc<Mutex<Vec<String>>>) -> AgentBuilder {
    let answer = |request: &deepagents_core::model::ModelRequest| {
        let turn = request.messages.iter().filter(|message| message.as_assistant().is_some()).count();
        if turn == TURNS {
            return Turn::text("All is sent.");
        }
        Turn::calls((0..CALLS).map(|n| (format!("{turn}-{n}"), "send", json!({"what": format!("{turn}-{n}")}))))
    };
    let made = made.clone();
    let send = json_tool("send", "Sends.", json!({"type": "object"}), move |args: Value, _cx| {
        let what = args["what"].as_str().unwrap_or_default().to_owned();
        made.lock().unwrap().push(what.clone());
        async move { Ok(format!("sent {what}")) }
    });
    Agent::builder(ScriptedModel::rules().always(Turn::with(answer)).build()).tool(send)
}

/// Resumes until the run ends, as a host does after a database failure.
async fn to_the_end(agent: &Agent) -> Outcome {
    let mut input = RunInput::new("Send it all.").thread("t");
    for _ in 0..60 {
        match in_time(Box::pin(agent.invoke(input.lease(LEASE).take_over()))).await {
            Ok(outcome) => return outcome,
            Err(error) => {
                assert!(matches!(&*error.error, Error::Journal(error) if error.is_transient()), "{error:?}");
                let begun = error.state.messages().iter().next().is_some();
                input = if begun { RunInput::resume("t") } else { RunInput::new("Send it all.").thread("t") };
            }
        }
    }
    panic!("the run comes to no end");
}

/// Finished calls were made once, and are in the log once.
async fn check_sent(journal: &dyn Journal, outcome: &Outcome, made: &[String]) {
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "All is sent.".to_owned()));
    check_history(outcome.messages()).unwrap();
    let mut expected: Vec<String> =
        (0..TURNS).flat_map(|turn| (0..CALLS).map(move |n| format!("{turn}-{n}"))).collect();
    let mut results: Vec<String> = outcome
        .messages()
        .iter()
        .filter(|message| message.as_tool().is_some())
        .map(|message| message.text().trim_start_matches("sent ").to_owned())
        .collect();
    let mut made = made.to_vec();
    for list in [&mut expected, &mut results, &mut made] {
        list.sort_unstable();
    }
    assert_eq!(made, expected, "each call is made once");
    assert_eq!(results, expected, "and its result is what it gave");
    let end = journal.load("t", None).await.unwrap().end;
    let log = journal.read("t", 0..end + 10).await.unwrap();
    assert!(log.iter().enumerate().all(|(at, entry)| entry.position == at as u64) && log.len() as u64 == end);
    let finished = log.iter().filter(|entry| matches!(entry.record, Record::ToolFinished { .. })).count();
    assert_eq!(finished, expected.len(), "no result is there twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_finishes_despite_repeatedly_broken_connections() {
    let Some(url) = url() else { return };
    let mut broken = 0;
    for seed in 1..=6 {
        let line = Line::new(&url).await;
        let (database, near) = behind(&line, &url, "agents").await;
        line.set(Breaks::After(seed));
        let made = Arc::<Mutex<Vec<String>>>::default();
        let agent = sender(&made).journal(database).build().unwrap();
        let outcome = Box::pin(to_the_end(&agent)).await;
        let made = made.lock().unwrap().clone();
        check_sent(&near, &outcome, &made).await;
        near.check().await.unwrap();
        broken += line.broken();
    }
    assert!(broken > 6, "{broken} connections broke");
}

/// Another process's lock on the file, released at the third attempt of an append.
#[derive(Clone, Default)]
struct Lock {
    connection: Arc<Mutex<Option<Connection>>>,
    tries: Arc<AtomicUsize>,
}

impl Watch for Lock {
    fn appending(&self) {
        let mut connection = self.connection.lock().unwrap();
        if connection.is_some() && self.tries.fetch_add(1, Ordering::SeqCst) == 2 {
            connection.take().unwrap().execute_batch("ROLLBACK").unwrap();
        }
    }

    fn appended(&self, _: Appended, _: Duration) -> Result<(), JournalError> {
        Ok(())
    }

    fn snapshot_put(&self, _: Duration) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_waits_for_a_file_another_process_locks_mid_run() {
    let path = place();
    let database = Arc::new(
        SqliteOptions { wait: Duration::from_millis(20), ..SqliteOptions::default() }.open(&path).await.unwrap(),
    );
    let (made, lock) = (Arc::<Mutex<Vec<String>>>::default(), Lock::default());
    let send = {
        let (made, lock) = (made.clone(), lock.clone());
        json_tool("send", "Sends.", json!({"type": "object"}), move |args: Value, _cx| {
            made.lock().unwrap().push(args["what"].to_string());
            let other = Connection::open(&path).unwrap();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            *lock.connection.lock().unwrap() = Some(other);
            async { Ok("sent") }
        })
    };
    let model = ScriptedModel::new([Turn::call("send", json!({"what": "it"})), Turn::text("Done.")]);
    let journal = Arc::new(Watched::new(database.clone(), lock.clone()));
    let agent = Agent::builder(model).tool(send).journal(journal).build().unwrap();
    let outcome = in_time(Box::pin(agent.invoke(RunInput::new("Go.").thread("t")))).await.unwrap();
    assert_eq!((outcome.stop, made.lock().unwrap().len()), (FinishReason::Done, 1));
    assert!(lock.tries.load(Ordering::SeqCst) > 2, "the file was never locked");
    let log = database.read("t", 0..1_000).await.unwrap();
    assert_eq!(log.iter().filter(|entry| matches!(entry.record, Record::ToolFinished { .. })).count(), 1);
    database.check().await.unwrap();
}

/// A small disk, unmounted on drop.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder.path());
        if !mount.output().is_ok_and(|output| output.status.success()) {
            skip("mounts", "no disk can be mounted");
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_rejects_whole_writes_and_the_thread_continues_with_space() {
    let Some(disk) = Disk::new("1m") else { return };
    let (path, ballast) = (disk.0.path().join("threads.db"), disk.0.path().join("ballast"));
    let database = Sqlite::open(&path).await.unwrap();
    let fence = database.claim("t", Claim::new("test", LEASE)).await.unwrap();
    std::fs::write(&ballast, vec![7; 300_000]).unwrap();
    let large = |n: u64| words(&format!("{n} ").repeat(5_000));
    let mut end = 0;
    let error = loop {
        match database.append("t", fence, end, large(end)).await {
            Ok(appended) => end = appended.end,
            Err(error) => break error,
        }
        assert!(end < 1_000, "the disk is never full");
    };
    let reason = DatabaseError::of_journal(&error);
    assert!(matches!(reason, Some(DatabaseError::Full { .. })), "{error:?}");
    assert!(end > 3, "{end}");
    assert_eq!(database.read("t", 0..end + 10).await.unwrap().len() as u64, end, "what was acknowledged is there");
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(database.append("t", fence, end, large(end)).await.unwrap().end, end + 1);
    drop(database);
    let again = Sqlite::open(&path).await.unwrap();
    again.check().await.unwrap();
    assert_eq!(again.load("t", None).await.unwrap().end, end + 1);
}
