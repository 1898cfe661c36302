//! Faults between processes and Postgres, and whom they must not block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use deepagents_core::journal::{Claim, Journal, JournalError, Record, RecordUpdate, Snapshot, Threads};
use deepagents_core::message::Message;
use deepagents_core::run::Machine;
use deepagents_core::state::Update;
use deepagents_core::store::Store;
use deepagents_persist::{DatabaseError, PostgresOptions};
use futures_util::FutureExt;
use futures_util::future::select_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::postgres::url;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(300);

/// A short timeout that the test waits for.
const SHORT: Duration = Duration::from_secs(1);

fn schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("faults_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn step() -> Vec<Record> {
    vec![Record::Step { machine: Machine::new(0, 1), run: None }]
}

fn words(text: &str) -> Record {
    Record::Update { update: RecordUpdate::Live(Update::message(Message::user(text))) }
}

fn claim(lease: Duration) -> Claim {
    Claim::new("test", lease)
}

fn reason(error: &JournalError) -> &DatabaseError {
    DatabaseError::of_journal(error).unwrap_or_else(|| panic!("{error:?}"))
}

/// Fails a test that would hang.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

/// A connection to the server that can be cut. Then data that contains a certain word, and everything after it on that
/// connection, is held back: to the server, the process seems frozen.
struct Line {
    url: String,
    cut: Arc<AtomicBool>,
    held: Arc<AtomicBool>,
}

impl Line {
    async fn new(url: &str, word: &'static str) -> Self {
        let server = url.split(['@', '/']).find(|part| part.contains(':') && !part.ends_with(':')).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = listener.local_addr().unwrap().to_string();
        let line = Self { url: url.replace(&server, &near), cut: Arc::default(), held: Arc::default() };
        let (cut, held) = (line.cut.clone(), line.held.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = TcpStream::connect(&server).await.unwrap().into_split();
                let (cut, held) = (cut.clone(), held.clone());
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                tokio::spawn(async move {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                        let sent = &bytes[..count];
                        let has =
                            word.is_empty() || sent.windows(word.len().max(1)).any(|part| part == word.as_bytes());
                        if has && cut.load(Ordering::SeqCst) {
                            held.store(true, Ordering::SeqCst);
                            std::future::pending::<()>().await;
                        }
                        if to_server.write_all(sent).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        line
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }

    async fn wait_until_held(&self) {
        in_time(async {
            while !self.held.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

fn options(schema: &str) -> PostgresOptions {
    PostgresOptions {
        schema: schema.to_owned(),
        connections: 8,
        wait: Duration::from_secs(20),
        ..PostgresOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_cut_off_in_a_transaction_holds_its_thread_only_until_the_timeout() {
    let Some(url) = url() else { return };
    let schema = schema();
    let near = options(&schema).connect(&url).await.unwrap();
    let line = Line::new(&url, "COMMIT").await;
    let far =
        PostgresOptions { idle_in_transaction_timeout: SHORT, ..options(&schema) }.connect(&line.url).await.unwrap();
    let lost = far.claim("t", claim(SHORT)).await.unwrap();
    line.cut();
    let change = json!({"changed": true}).as_object().unwrap().clone();
    let stuck = tokio::spawn({
        let far = far.clone();
        async move { far.threads().set_metadata("t", change).await }
    });
    line.wait_until_held().await;
    in_time(near.claim("t", claim(LONG).take_over())).await.unwrap();
    assert!(near.threads().get("t").await.unwrap().unwrap().metadata.is_empty(), "what was not committed is gone");
    assert!(in_time(stuck).await.unwrap().unwrap_err().is_transient());
    line.mend();
    let error = in_time(far.append("t", lost, 0, step())).await.unwrap_err();
    assert!(matches!(error, JournalError::Fenced { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_process_does_not_block_other_threads_with_the_same_texts() {
    let Some(url) = url() else { return };
    let schema = schema();
    let near = PostgresOptions { wait: SHORT, ..options(&schema) }.connect(&url).await.unwrap();
    let line = Line::new(&url, "COMMIT").await;
    let far =
        PostgresOptions { idle_in_transaction_timeout: LONG, ..options(&schema) }.connect(&line.url).await.unwrap();
    let large = "0123456789".repeat(10_000);
    let fence = far.claim("far", claim(LONG)).await.unwrap();
    far.append("far", fence, 0, step()).await.unwrap();
    line.cut();
    let snapshot = Snapshot { position: 1, body: json!({"text": large}).to_string() };
    let stuck = tokio::spawn({
        let far = far.clone();
        async move { far.put_snapshot("far", fence, snapshot).await }
    });
    line.wait_until_held().await;
    let fence = near.claim("near", claim(LONG)).await.unwrap();
    in_time(near.append("near", fence, 0, vec![words(&large)])).await.unwrap();
    assert!(in_time(near.threads().delete("near")).await.unwrap());
    assert_eq!(in_time(Threads::sweep(&near)).await.unwrap(), 0);
    let fence = near.claim("near", claim(LONG)).await.unwrap();
    in_time(near.append("near", fence, 0, vec![words(&large)])).await.unwrap();
    stuck.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_server_is_waited_for_only_until_the_timeout() {
    let Some(url) = url() else { return };
    let schema = schema();
    let near = options(&schema).connect(&url).await.unwrap();
    let fence = near.claim("t", claim(LONG)).await.unwrap();
    near.append("t", fence, 0, step()).await.unwrap();
    let line = Line::new(&url, "").await;
    let far = PostgresOptions { connections: 2, statement_timeout: SHORT, acquire_timeout: SHORT, ..options(&schema) };
    let far = PostgresOptions { connect_timeout: SHORT, ..far }.connect(&line.url).await.unwrap();
    line.cut();
    // The first call uses the silent connection, the second cannot open another.
    let load = in_time(far.load("t", None)).await.map(|_| ());
    let append = in_time(far.append("t", fence, 1, step())).await.map(|_| ());
    for error in [load.unwrap_err(), append.unwrap_err()] {
        assert!(matches!(reason(&error), DatabaseError::TimedOut { .. }) && error.is_transient(), "{error:?}");
    }
    line.mend();
    assert_eq!(in_time(far.append("t", fence, 1, step())).await.unwrap().end, 2, "new connections are made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_connections_and_long_statements_time_out() {
    let Some(url) = url() else { return };
    let schema = schema();
    let one =
        PostgresOptions { connections: 1, acquire_timeout: SHORT, ..options(&schema) }.connect(&url).await.unwrap();
    let (other, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = format!("BEGIN; LOCK TABLE {schema}.thread IN ACCESS EXCLUSIVE MODE");
    other.batch_execute(&lock).await.unwrap();
    // One call has the connection and waits for the lock, the other waits for the connection.
    let (first, _, rest) = in_time(select_all([one.load("t", None), one.load("t", None)])).await;
    let error = first.unwrap_err();
    assert!(matches!(reason(&error), DatabaseError::TimedOut { reason, .. } if reason.contains("pool")), "{error:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    for waiting in rest {
        assert_eq!(in_time(waiting).await.unwrap().end, 0);
    }
    let hurried = PostgresOptions { statement_timeout: SHORT, ..options(&schema) }.connect(&url).await.unwrap();
    other.batch_execute(&lock).await.unwrap();
    let error = in_time(hurried.load("t", None)).await.unwrap_err();
    assert!(matches!(reason(&error), DatabaseError::TimedOut { .. }) && error.is_transient(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_and_snapshots_of_the_same_texts_do_not_block_each_other() {
    let Some(url) = url() else { return };
    let database = options(&schema()).connect(&url).await.unwrap();
    for round in 0..20 {
        let texts: Vec<String> = (0..6).map(|n| format!("{round} {n} {}", "x".repeat(70_000))).collect();
        let forward: Vec<Record> = texts.iter().map(|text| words(text)).collect();
        let backward: Vec<Record> = texts.iter().rev().map(|text| words(text)).collect();
        let snapshot = |texts: Vec<&String>| Snapshot { position: 0, body: json!({ "texts": texts }).to_string() };
        let names = ["a", "b", "c", "d"].map(|name| format!("{name}{round}"));
        let mut fences = Vec::new();
        for name in &names {
            fences.push(database.claim(name, claim(LONG)).await.unwrap());
        }
        let done = in_time(async {
            tokio::join!(
                database.append(&names[0], fences[0], 0, forward),
                database.append(&names[1], fences[1], 0, backward),
                database.put_snapshot(&names[2], fences[2], snapshot(texts.iter().collect())),
                database.put_snapshot(&names[3], fences[3], snapshot(texts.iter().rev().collect())),
            )
        });
        let (a, b, c, d) = done.await;
        assert_eq!((a.unwrap().end, b.unwrap().end), (6, 6));
        assert!(c.is_ok() && d.is_ok());
        let (first, second) = tokio::join!(database.threads().delete(&names[0]), database.threads().delete(&names[1]));
        assert!(first.unwrap() && second.unwrap());
    }
    database.check().await.unwrap();
}

/// A thread is started while another is copied to its name. The copy notices only when it writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_never_overwrites_a_thread_created_meanwhile() {
    let Some(url) = url() else { return };
    let schema = schema();
    let journal = Arc::new(options(&schema).connect(&url).await.unwrap());
    let fence = journal.claim("from", claim(LONG)).await.unwrap();
    journal.append("from", fence, 0, step()).await.unwrap();
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let begun = client.transaction().await.unwrap();
    let insert = format!(
        "INSERT INTO {schema}.thread (id, epoch, owner, lease_until, created_at, updated_at) \
         VALUES ('to', 1000, 'ada', 99999999999999, 0, 0)"
    );
    begun.batch_execute(&insert).await.unwrap();
    let copying = journal.clone();
    let copy = tokio::spawn(async move { copying.threads().copy("from", "to", None).await });
    let (watch, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO thread%'";
    in_time(async {
        while watch.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    begun.commit().await.unwrap();
    let copied = in_time(copy).await.unwrap();
    assert!(matches!(copied, Err(JournalError::Exists { .. })), "{copied:?}");
    assert_eq!(journal.load("to", None).await.unwrap().end, 0);
    assert_eq!(journal.threads().get("to").await.unwrap().unwrap().owner.as_deref(), Some("ada"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_thread_is_free_for_the_next_call_of_the_process() {
    let Some(url) = url() else { return };
    let database = options(&schema()).connect(&url).await.unwrap();
    for _ in 0..30 {
        let fence = database.claim("t", claim(LONG)).await.unwrap();
        // As when a run is dropped.
        let mut release = Box::pin({
            let database = database.clone();
            async move { database.release("t", fence).await }
        });
        // A fast database may have responded already.
        let begun = (&mut release).now_or_never();
        let release = tokio::spawn(async move {
            match begun {
                Some(done) => done,
                None => release.await,
            }
        });
        let next = in_time(database.claim("t", claim(LONG))).await.unwrap();
        in_time(release).await.unwrap().unwrap();
        database.release("t", next).await.unwrap();
        drop(database.release("t", next));
    }
}

#[tokio::test]
async fn damage_is_reported_and_hides_nothing_else() {
    let Some(url) = url() else { return };
    let schema = schema();
    let database = options(&schema).connect(&url).await.unwrap();
    let (other, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let notes = ["notes".to_owned()];
    for n in 0..3 {
        database.put(&notes, &format!("k{n}"), json!({"n": n})).await.unwrap();
        database.threads().set_metadata(&format!("t{n}"), json!({"n": n}).as_object().unwrap().clone()).await.unwrap();
    }
    database.check().await.unwrap();
    let damage = format!(
        "UPDATE {schema}.item SET value = '{{' WHERE name = 'k1'; UPDATE {schema}.thread SET status = 'asleep' WHERE id = 't1'"
    );
    other.batch_execute(&damage).await.unwrap();
    assert_eq!(Store::search(&database, &notes, &Default::default()).await.unwrap().len(), 2);
    let threads = database.threads().list(&Default::default()).await.unwrap();
    assert_eq!((threads.len(), threads.iter().filter(|thread| thread.damage.is_some()).count()), (3, 1));
    let error = database.check().await.unwrap_err();
    assert!(error.to_string().contains("`k1`") && error.to_string().contains("`t1`"), "{error}");
    assert_eq!(database.put(&notes, "k1", json!(1)).await.unwrap().version, 2);
    assert!(database.threads().delete("t1").await.unwrap());
    database.check().await.unwrap();
}
