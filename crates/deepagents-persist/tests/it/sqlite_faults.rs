//! Faults around a SQLite database, and what they must not affect.
#![allow(clippy::disallowed_methods, reason = "tests look at real files and start themselves again")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deepagents_core::env::{Clock, SystemClock, Timestamp};
use deepagents_core::journal::{Claim, Journal, JournalError, Record, RecordUpdate, ThreadQuery, Threads};
use deepagents_core::message::Message;
use deepagents_core::run::Machine;
use deepagents_core::state::{Channel, ChannelError, Sharing, Update};
use deepagents_core::store::{Query, Store};
use deepagents_persist::{DatabaseError, Sqlite, SqliteOptions};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::sqlite::place;

/// Environment variable with the directory for a test that runs again.
const FOLDER: &str = "DEEPAGENTS_TEST_FOLDER";

fn step() -> Vec<Record> {
    vec![Record::Step { machine: Machine::new(0, 1), run: None }]
}

fn words(text: String) -> Record {
    Record::Update { update: RecordUpdate::Live(Update::message(Message::user(text))) }
}

fn claim() -> Claim {
    Claim::new("test", Duration::from_secs(600))
}

/// Runs a test of this module again, in a directory and inside a shell script, which runs it as `"$@"`.
fn again(test: &str, folder: &Path, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("sqlite_faults::{test}"), "--nocapture"]).current_dir(folder);
    let output = command.env(FOLDER, folder).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The directory, in a child process of a test.
fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

fn block_on(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(case);
}

/// Fails a test that would hang.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

#[derive(Clone, Default, Deserialize)]
struct Panics;

impl Serialize for Panics {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("a bug of the application")
    }
}

impl Channel for Panics {
    const NAME: &'static str = "panics";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::separate();
    type Value = Panics;
    type Update = Panics;
    fn reduce(_: &mut Panics, _: Panics) -> Result<(), ChannelError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_on_one_value_is_an_error_and_leaves_the_database_usable() {
    let database = Sqlite::open(place()).await.unwrap();
    let fence = database.claim("t", claim()).await.unwrap();
    let update = RecordUpdate::Live(Update::new::<Panics>(Panics));
    let records = vec![step().remove(0), Record::Update { update }];
    let error = in_time(database.append("t", fence, 0, records)).await.unwrap_err();
    assert!(matches!(error, JournalError::Encode { position: 1, .. }), "{error:?}");
    assert_eq!(in_time(database.append("t", fence, 0, step())).await.unwrap().end, 1);
}

#[derive(Default)]
struct Breaks(AtomicBool);

impl Clock for Breaks {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "the clock is broken");
        SystemClock.now()
    }
}

#[tokio::test]
async fn a_panic_in_one_write_fails_only_that_write() {
    let clock = Arc::new(Breaks::default());
    let database = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() }.open(place()).await.unwrap();
    let fence = database.claim("t", claim()).await.unwrap();
    clock.0.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert!(in_time(database.append("t", fence, 0, step())).await.is_err());
        assert!(in_time(database.load("t", None)).await.is_err());
    }
    clock.0.store(false, Ordering::SeqCst);
    assert_eq!(in_time(database.append("t", fence, 0, step())).await.unwrap().end, 1);
    assert_eq!(in_time(database.load("t", None)).await.unwrap().end, 1);
}

/// A clock that stops the thread that writes, in the middle of a write, until it is opened.
#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    reached: AtomicBool,
}

impl Clock for Gate {
    fn now(&self) -> Timestamp {
        while self.closed.load(Ordering::SeqCst) {
            self.reached.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
        SystemClock.now()
    }
}

/// Makes writes of the threads `a`, `b`, `big` and `c` that are committed together, and returns their results.
async fn together(database: &Sqlite, gate: &Gate, big: usize) -> [Result<u64, JournalError>; 4] {
    let mut writes = Vec::new();
    for thread in ["first", "a", "b", "big", "c"] {
        let fence = database.claim(thread, claim().take_over()).await.unwrap();
        writes.push((thread, fence, if thread == "big" { vec![words(noise(big))] } else { step() }));
    }
    let (_, first, records) = writes.remove(0);
    gate.closed.store(true, Ordering::SeqCst);
    gate.reached.store(false, Ordering::SeqCst);
    // Writes are queued when they are called, here while the first one is being made.
    let first = database.append("first", first, 0, records);
    let began = std::time::Instant::now();
    while !gate.reached.load(Ordering::SeqCst) {
        if began.elapsed() > std::time::Duration::from_secs(60) {
            gate.closed.store(false, Ordering::SeqCst);
            panic!("the first write does not begin");
        }
        std::thread::yield_now();
    }
    let writes: Vec<_> =
        writes.into_iter().map(|(thread, fence, records)| database.append(thread, fence, 0, records)).collect();
    gate.closed.store(false, Ordering::SeqCst);
    assert_eq!(in_time(first).await.unwrap().end, 1);
    let mut results = Vec::new();
    for write in writes {
        results.push(in_time(write).await.map(|appended| appended.end));
    }
    results.try_into().unwrap()
}

/// A text in which nothing repeats.
fn noise(bytes: usize) -> String {
    (0_u64..).map(|n| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).take(bytes / 16).collect()
}

fn cause(result: &Result<u64, JournalError>) -> &DatabaseError {
    DatabaseError::of_journal(result.as_ref().unwrap_err()).unwrap()
}

#[tokio::test]
async fn a_write_that_cannot_be_stored_fails_only_itself_for_good() {
    let path = place();
    let gate = Arc::new(Gate::default());
    let options = SqliteOptions { max_bytes: Some(2 << 20), clock: gate.clone(), ..SqliteOptions::default() };
    let database = options.open(&path).await.unwrap();
    let [a, b, big, c] = together(&database, &gate, 4 << 20).await;
    assert!(matches!(cause(&big), DatabaseError::Full { .. }) && !big.unwrap_err().is_transient());
    assert_eq!(c.unwrap(), 1, "a write after it is not affected");
    for (thread, result) in [("a", a), ("b", b)] {
        assert!(matches!(cause(&result), DatabaseError::RolledBack { .. }), "{thread}: {result:?}");
        let error = result.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("try again"), "{error}");
        assert_eq!(database.load(thread, None).await.unwrap().end, 0);
        let fence = database.claim(thread, claim().take_over()).await.unwrap();
        assert_eq!(database.append(thread, fence, 0, step()).await.unwrap().end, 1);
    }
    database.check().await.unwrap();
}

#[test]
fn writes_whose_common_commit_failed_succeed_when_repeated_together() {
    let Some(folder) = folder() else {
        let path = place();
        // The tables are in the file before its WAL is limited to a megabyte.
        block_on(async { drop(Sqlite::open(&path).await.unwrap()) });
        let deadline = Instant::now() + Duration::from_secs(60);
        while path.with_extension("db-wal").exists() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        let test = "writes_whose_common_commit_failed_succeed_when_repeated_together";
        again(test, path.parent().unwrap(), r#"trap '' XFSZ; ulimit -f 2000; exec "$@""#);
        return;
    };
    block_on(async {
        let path = folder.join("test.db");
        let gate = Arc::new(Gate::default());
        let options = SqliteOptions { clock: gate.clone(), ..SqliteOptions::default() };
        let database = options.open(&path).await.unwrap();
        // SQLite holds this in memory until the commit, and no WAL can hold it.
        let big = 1_200_000;
        let [a, b, big_one, c] = together(&database, &gate, big).await;
        for result in [&a, &b, &big_one, &c] {
            assert!(matches!(cause(result), DatabaseError::RolledBack { .. }), "{result:?}");
            assert!(cause(result).to_string().contains("ulimit -f"), "{result:?}");
        }
        // The one that does not fit fails by itself now.
        let [a, b, big_one, c] = together(&database, &gate, big).await;
        assert!(matches!(cause(&big_one), DatabaseError::Full { .. }), "{big_one:?}");
        assert_eq!([a, b, c].map(Result::unwrap), [1, 1, 1]);
        database.check().await.unwrap();
    });
}

#[test]
fn loads_beyond_the_open_file_limit_wait_for_each_other() {
    let Some(folder) = folder() else {
        let test = "loads_beyond_the_open_file_limit_wait_for_each_other";
        again(test, place().parent().unwrap(), r#"ulimit -n 100; exec "$@""#);
        return;
    };
    block_on(async {
        let database = Sqlite::open(folder.join("test.db")).await.unwrap();
        let fence = database.claim("t", claim()).await.unwrap();
        database.append("t", fence, 0, vec![words("x".repeat(70_000))]).await.unwrap();
        let mut loads = tokio::task::JoinSet::new();
        for _ in 0..300 {
            let database = database.clone();
            loads.spawn(async move { database.load("t", None).await.map(|loaded| loaded.end) });
        }
        while let Some(end) = loads.join_next().await {
            assert_eq!(end.unwrap().unwrap(), 1);
        }
    });
}

#[test]
fn a_database_opened_by_a_relative_path_keeps_its_location() {
    let Some(folder) = folder() else {
        let test = "a_database_opened_by_a_relative_path_keeps_its_location";
        again(test, place().parent().unwrap(), r#"exec "$@""#);
        return;
    };
    block_on(async {
        let database = Sqlite::open("relative.db").await.unwrap();
        std::fs::create_dir("below").unwrap();
        std::env::set_current_dir("below").unwrap();
        let fence = database.claim("t", claim()).await.unwrap();
        database.append("t", fence, 0, step()).await.unwrap();
        assert_eq!(database.load("t", None).await.unwrap().end, 1);
    });
    assert!(folder.join("relative.db").exists() && !folder.join("below/relative.db").exists());
}

#[tokio::test]
async fn a_damaged_thread_or_item_hides_no_others_and_can_be_replaced() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let notes = ["notes".to_owned()];
    for n in 0..5 {
        database.threads().set_metadata(&format!("t{n}"), json!({"n": n}).as_object().unwrap().clone()).await.unwrap();
        database.put(&notes, &format!("k{n}"), json!({"n": n})).await.unwrap();
    }
    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE thread SET metadata = 'x' WHERE id IN ('t1', 't2')").unwrap();
    other.execute_batch("UPDATE item SET value = '{' WHERE name IN ('k1', 'k2')").unwrap();

    let threads = database.threads().list(&ThreadQuery::default()).await.unwrap();
    let mut damaged: Vec<&str> = threads.iter().filter(|t| t.damage.is_some()).map(|t| t.id.as_str()).collect();
    damaged.sort_unstable();
    assert_eq!((threads.len(), damaged), (5, vec!["t1", "t2"]));
    let items = Store::search(&database, &notes, &Query::default()).await.unwrap();
    assert_eq!(items.iter().map(|item| item.key.as_str()).collect::<Vec<_>>(), ["k0", "k3", "k4"]);
    let many = database.get_many(&notes, &["k0", "k1", "k4"]).await.unwrap();
    assert_eq!(many.iter().map(|item| item.key.as_str()).collect::<Vec<_>>(), ["k0", "k4"]);
    let DatabaseError::Damaged { reason, .. } = database.check().await.unwrap_err() else { panic!("it is damaged") };
    for name in ["`t1`", "`t2`", "`k1`", "`k2`"] {
        assert!(reason.contains(name), "{name} is not in: {reason}");
    }

    assert_eq!(database.put(&notes, "k1", json!(1)).await.unwrap().version, 2);
    assert!(database.put_if(&notes, "k2", json!(1), Some(7)).await.is_err());
    assert!(Store::delete(&database, &notes, "k2").await.unwrap());
    assert!(database.threads().delete("t1").await.unwrap());
    assert!(database.threads().delete("t2").await.unwrap());
    database.check().await.unwrap();
}

#[tokio::test]
async fn texts_are_removed_with_their_last_thread_and_the_file_shrinks() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let fence = database.claim("t", claim()).await.unwrap();
    for end in 0..100 {
        database.append("t", fence, end, vec![words(format!("{end} {}", "x".repeat(200_000)))]).await.unwrap();
    }
    database.threads().copy("t", "u", Some(3)).await.unwrap();
    database.threads().set_metadata("empty", json!({"a": 1}).as_object().unwrap().clone()).await.unwrap();
    let texts = || -> i64 {
        Connection::open(&path).unwrap().query_row("SELECT count(*) FROM blob", [], |row| row.get(0)).unwrap()
    };
    let size = || std::fs::metadata(&path).unwrap().len();
    for (thread, left) in [("empty", 100), ("t", 3), ("u", 0)] {
        assert!(database.threads().delete(thread).await.unwrap());
        assert_eq!(texts(), left, "after {thread}");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while size() > 4_000_000 {
        assert!(Instant::now() < deadline, "the file still has {} bytes", size());
        tokio::task::yield_now().await;
    }
    database.check().await.unwrap();
    // A sweep removes what an interrupted deletion has left.
    let hash = "INSERT INTO blob (hash, body) VALUES (x'00', 'nobody has it')";
    Connection::open(&path).unwrap().execute_batch(hash).unwrap();
    Threads::sweep(&database).await.unwrap();
    assert_eq!(texts(), 0);
}

#[tokio::test]
async fn errors_say_whether_the_same_call_may_succeed_later() {
    let path = place();
    let database =
        SqliteOptions { wait: Duration::from_millis(50), ..SqliteOptions::default() }.open(&path).await.unwrap();
    let fence = database.claim("t", claim()).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(database.append("t", fence, 0, step()).await.unwrap_err().is_transient());
    other.execute_batch("ROLLBACK").unwrap();
    assert!(!database.append("t", fence, 7, step()).await.unwrap_err().is_transient());
    other.execute_batch("DROP TABLE event").unwrap();
    assert!(!database.append("t", fence, 0, step()).await.unwrap_err().is_transient());
}

#[tokio::test]
async fn a_database_removed_or_replaced_while_in_use_rejects_further_writes() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let fence = database.claim("t", claim()).await.unwrap();
    database.append("t", fence, 0, step()).await.unwrap();
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).unwrap();
    for replaced in [false, true] {
        if replaced {
            std::fs::write(&path, "another file").unwrap();
        }
        let error = database.append("t", fence, 1, step()).await.unwrap_err();
        let reason = DatabaseError::of_journal(&error);
        assert!(matches!(reason, Some(DatabaseError::Removed { .. })) && !error.is_transient(), "{error:?}");
        assert!(error.to_string().contains("test.db"), "{error}");
        assert!(
            database.load("t", None).await.is_err()
                && database.put(&["notes".to_owned()], "k", json!(1)).await.is_err()
        );
    }
    std::fs::rename(&aside, &path).unwrap();
    database.load("t", None).await.unwrap();
    database.put(&["notes".to_owned()], "k", json!(1)).await.unwrap();
}

#[tokio::test]
async fn a_database_whose_wal_is_removed_while_in_use_rejects_further_writes() {
    for suffix in ["db-wal", "db-shm"] {
        let path = place();
        let database = Sqlite::open(&path).await.unwrap();
        let fence = database.claim("t", claim()).await.unwrap();
        database.append("t", fence, 0, step()).await.unwrap();
        // Removed by somebody who takes it for a leftover. Another process would not see what is written from here on.
        let aside = path.with_extension("aside");
        std::fs::rename(path.with_extension(suffix), &aside).unwrap();
        let error = database.append("t", fence, 1, step()).await.unwrap_err();
        let reason = DatabaseError::of_journal(&error);
        assert!(matches!(reason, Some(DatabaseError::Removed { .. })) && !error.is_transient(), "{error:?}");
        assert!(error.to_string().contains(suffix), "{error}");
        assert!(database.load("t", None).await.is_err());
        std::fs::rename(&aside, path.with_extension(suffix)).unwrap();
        let end = database.load("t", None).await.unwrap().end;
        database.append("t", fence, end, step()).await.unwrap();
    }
}
