//! Errors of an unusable Postgres name the cause, and nothing is half written.
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]

use std::process::{Command, Output};
use std::time::Duration;

use deepagents_core::journal::{Claim, Fence, Journal, JournalError, Record, RecordUpdate, ThreadQuery};
use deepagents_core::message::Message;
use deepagents_core::run::{FinishReason, Machine};
use deepagents_core::state::Update;
use deepagents_core::store::{KeyQuery, Store};
use deepagents_persist::{DatabaseError, Postgres, PostgresOptions};
use tokio_postgres::Client;

use crate::postgres::url;

fn step() -> Vec<Record> {
    vec![Record::Step { machine: Machine::new(0, 1), run: None }]
}

fn words(text: String) -> Record {
    Record::Update { update: RecordUpdate::Live(Update::message(Message::user(text))) }
}

fn reason(error: &JournalError) -> &DatabaseError {
    DatabaseError::of_journal(error).unwrap_or_else(|| panic!("{error:?}"))
}

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A separate schema with a thread of one record, and another client on the same server.
async fn thread(name: &str) -> Option<(String, String, Client, Postgres, Fence)> {
    let url = url()?;
    let schema = format!("{name}_{}", std::process::id());
    let options =
        PostgresOptions { schema: schema.clone(), wait: Duration::from_millis(100), ..PostgresOptions::default() };
    let database = options.connect(&url).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(600))).await.unwrap();
    database.append("t", fence, 0, step()).await.unwrap();
    let client = client(&url).await;
    Some((url, schema, client, database, fence))
}

#[tokio::test]
async fn a_read_only_postgres_is_a_typed_error() {
    let Some((url, schema, _, database, fence)) = thread("read_only").await else { return };
    let url = format!("{url}?options=-c%20default_transaction_read_only%3Don");
    let reader = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() }.connect(&url).await.unwrap();
    let error = reader.append("t", fence, 1, step()).await.unwrap_err();
    assert!(matches!(reason(&error), DatabaseError::ReadOnly { .. }), "{error:?}");
    assert_eq!(reader.load("t", None).await.unwrap().end, 1, "it can be read");
    let error = PostgresOptions { schema: format!("{schema}_new"), ..PostgresOptions::default() }
        .connect(&url)
        .await
        .unwrap_err();
    assert!(matches!(error, DatabaseError::ReadOnly { .. }), "{error:?}");
    assert_eq!(database.append("t", fence, 1, step()).await.unwrap().end, 2);
}

#[tokio::test]
async fn a_table_locked_by_someone_else_is_waited_for_then_reported() {
    let Some((_, schema, other, database, fence)) = thread("locked").await else { return };
    other.batch_execute(&format!("BEGIN; LOCK TABLE {schema}.event IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    let error = database.append("t", fence, 1, step()).await.unwrap_err();
    assert!(matches!(reason(&error), DatabaseError::Locked { .. }), "{error:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(database.load("t", None).await.unwrap().end, 1);
    assert_eq!(database.append("t", fence, 1, step()).await.unwrap().end, 2);
}

#[tokio::test]
async fn a_damaged_record_and_a_lost_blob_report_their_location() {
    let Some((_, schema, other, database, fence)) = thread("damaged").await else { return };
    database.append("t", fence, 1, vec![words("x".repeat(100_000))]).await.unwrap();
    other.batch_execute(&format!("DELETE FROM {schema}.blob_ref")).await.unwrap();
    let error = database.load("t", None).await.unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 1, .. }), "{error:?}");
    other.batch_execute(&format!("UPDATE {schema}.event SET body = 'x' WHERE position = 0")).await.unwrap();
    let error = database.load("t", None).await.unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 0, .. }), "{error:?}");
}

#[tokio::test]
async fn a_damaged_thread_row_is_an_error_and_is_not_overwritten() {
    let Some((_, schema, other, database, fence)) = thread("damaged_row").await else { return };
    database.release("t", fence).await.unwrap();
    for (column, damage) in [("status", "asleep"), ("metadata", "{\"title\":")] {
        let kept = async || -> String {
            other.query_one(&format!("SELECT {column} FROM {schema}.thread"), &[]).await.unwrap().get(0)
        };
        let was = kept().await;
        let put = format!("UPDATE {schema}.thread SET {column} = $1");
        other.execute(&put, &[&damage]).await.unwrap();
        for error in [
            database.threads().get("t").await.unwrap_err(),
            database.threads().set_metadata("t", serde_json::Map::new()).await.unwrap_err(),
            database.claim("t", Claim::new("test", Duration::from_secs(600))).await.unwrap_err(),
        ] {
            let told = matches!(reason(&error), DatabaseError::Damaged { reason, .. } if reason.contains("`t`"));
            assert!(told && error.to_string().contains(column), "{error:?}");
        }
        assert_eq!(kept().await, damage);
        let listed = database.threads().list(&ThreadQuery::default()).await.unwrap();
        assert!(listed[0].damage.as_ref().is_some_and(|damage| damage.contains(column)), "{listed:?}");
        other.execute(&put, &[&was]).await.unwrap();
        assert_eq!(database.threads().get("t").await.unwrap().unwrap().end, 1);
    }
    other.batch_execute(&format!("UPDATE {schema}.thread SET status = 'asleep'")).await.unwrap();
    assert!(database.threads().delete("t").await.unwrap(), "it can be deleted");
}

#[tokio::test]
async fn a_damaged_value_is_an_error_but_its_key_is_still_listed() {
    let Some((_, schema, other, database, _)) = thread("damaged_value").await else { return };
    let a = ["a".to_owned()];
    database.put(&a, "k", serde_json::json!({"n": 1})).await.unwrap();
    other.batch_execute(&format!("UPDATE {schema}.item SET value = '{{'")).await.unwrap();
    let error = Store::get(&database, &a, "k").await.unwrap_err();
    assert!(matches!(DatabaseError::of_store(&error), Some(DatabaseError::Damaged { .. })), "{error:?}");
    assert_eq!(database.list_keys(&a, &KeyQuery::default()).await.unwrap()[0].size, 7);
}

#[tokio::test]
async fn a_version_1_postgres_schema_is_migrated() {
    let Some((url, schema, other, database, _)) = thread("first_version").await else { return };
    let a = ["a".to_owned()];
    database.put(&a, "k", serde_json::json!("ü")).await.unwrap();
    drop(database);
    let before = format!(
        "DROP INDEX {schema}.item_keys; ALTER TABLE {schema}.item DROP COLUMN size;
         ALTER TABLE {schema}.thread DROP COLUMN parent; DROP INDEX {schema}.thread_claimable;
         DROP TRIGGER item_deleted ON {schema}.item; DROP FUNCTION {schema}.note_deleted_version;
         DROP TABLE {schema}.deleted_version; ALTER TABLE {schema}.thread DROP COLUMN minute;
         DROP INDEX {schema}.thread_created;
         DROP TRIGGER thread_stop ON {schema}.thread; DROP FUNCTION {schema}.forget_stop;
         ALTER TABLE {schema}.thread DROP COLUMN stop; ALTER TABLE {schema}.event DROP COLUMN stop;
         ALTER TABLE {schema}.blob ALTER COLUMN body TYPE text USING convert_from(body, 'UTF8');
         UPDATE {schema}.deepagents_version SET version = 1"
    );
    other.batch_execute(&before).await.unwrap();
    let database =
        PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() }.connect(&url).await.unwrap();
    assert_eq!(database.list_keys(&a, &KeyQuery::default()).await.unwrap()[0].size, 4);
    assert_eq!(Store::get(&database, &a, "k").await.unwrap().unwrap().value, "ü");
}

#[tokio::test]
async fn a_process_that_starts_during_a_long_migration_waits_for_it() {
    let Some((url, schema, other, _, _)) = thread("migrating").await else { return };
    let observer = client(&url).await;
    // A process holds this lock while it migrates the schema.
    let migration = format!("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('{schema}', 1684105076))");
    other.batch_execute(&migration).await.unwrap();
    let options =
        PostgresOptions { schema: schema.clone(), wait: Duration::from_millis(100), ..PostgresOptions::default() };
    let mut connecting = tokio::spawn(async move { options.connect(&url).await });
    // It waits for much longer than other locks are waited for.
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND NOT granted AND clock_timestamp() - query_start > interval '500 ms'
        AND (classid::bigint << 32) + objid::bigint = hashtextextended($1, 1684105076)";
    let waiting = async {
        while observer.query_one(waits, &[&schema]).await.unwrap().get::<_, i64>(0) == 0 {
            if connecting.is_finished() {
                panic!("it did not wait: {:?}", (&mut connecting).await);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
    other.batch_execute("COMMIT").await.unwrap();
    let database = connecting.await.unwrap().unwrap();
    // Locks are waited for as briefly as before.
    observer.batch_execute(&format!("BEGIN; LOCK TABLE {schema}.event IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(600)).take_over()).await.unwrap();
    let error = database.append("t", fence, 1, step()).await.unwrap_err();
    assert!(matches!(reason(&error), DatabaseError::Locked { .. }), "{error:?}");
}

#[tokio::test]
async fn the_reason_of_an_earlier_run_goes_when_an_older_program_changes_the_status() {
    let Some((_, schema, other, database, fence)) = thread("older_program").await else { return };
    let ended = || Record::RunFinished { run: "r".to_owned(), stop: Some(FinishReason::StepLimit) };
    database.append("t", fence, 1, vec![ended()]).await.unwrap();
    let stop = async || database.threads().get("t").await.unwrap().unwrap().stop;
    assert_eq!(stop().await, Some(FinishReason::StepLimit));
    // What the earlier version ran: an append that does not change the status, then those of a run that begins and ends.
    let append = format!(
        "WITH t AS (
            UPDATE {schema}.thread SET head = head + 1, status = coalesce($1, status), updated_at = updated_at + 1
            WHERE id = 't' RETURNING key, head, updated_at
         )
         INSERT INTO {schema}.event (thread, position, at, status, bytes, how, body)
            SELECT key, head - 1, updated_at, $1, 1, 0, '{{}}' FROM t"
    );
    for (status, left) in [(None, Some(FinishReason::StepLimit)), (Some("open"), None), (Some("ended"), None)] {
        other.execute(&append, &[&status]).await.unwrap();
        assert_eq!(stop().await, left, "{status:?}");
    }
    // A newer program beside it gives a reason again, also the same one.
    database.append("t", fence, 5, vec![ended()]).await.unwrap();
    assert_eq!(stop().await, Some(FinishReason::StepLimit));
}

#[tokio::test]
async fn lost_connections_are_reported_and_then_replaced() {
    let Some(url) = url() else { return };
    let name = format!("lost_{}", std::process::id());
    let database = PostgresOptions { schema: name.clone(), ..PostgresOptions::default() };
    let database = database.connect(&format!("{url}?application_name={name}")).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(600))).await.unwrap();
    let other = client(&url).await;
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    assert!(!other.query(ended, &[&name]).await.unwrap().is_empty());
    let mut failed = 0;
    let end = loop {
        match database.append("t", fence, 0, step()).await {
            Ok(appended) => break appended.end,
            Err(error) => assert!(matches!(reason(&error), DatabaseError::Unavailable { .. }), "{error:?}"),
        }
        failed += 1;
        assert!(failed < 20, "there is no new connection");
    };
    assert_eq!(end, 1);
}

/// A separate server with a small disk, so that filling it affects nobody else.
struct Server {
    folder: tempfile::TempDir,
    url: String,
}

impl Server {
    /// Starts a server, if this process may mount a disk.
    fn start() -> Option<Self> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let disk = folder.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(&disk);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            deepagents_testing::skip::skip("mounts", "no disk can be mounted");
            return None;
        }
        let mut server = Self { folder, url: String::new() };
        let started = server.script("start");
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        server.url = String::from_utf8_lossy(&started.stdout).trim().to_owned();
        let owner = std::fs::metadata(server.folder.path().join("server/data")).unwrap();
        chown(&disk, Some(owner.uid()), Some(owner.gid())).unwrap();
        Some(server)
    }

    fn script(&self, action: &str) -> Output {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/postgres.sh");
        Command::new("bash").args([script, action]).arg(self.folder.path().join("server")).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.script("stop");
        let _ = Command::new("umount").arg("-l").arg(self.folder.path().join("disk")).status();
    }
}

#[tokio::test]
async fn a_full_disk_accepts_no_partial_write_and_the_thread_continues_with_space() {
    let Some(server) = url().and_then(|_| Server::start()) else { return };
    let other = client(&server.url).await;
    let disk = server.folder.path().join("disk");
    other.batch_execute(&format!("CREATE TABLESPACE small LOCATION '{}'", disk.display())).await.unwrap();
    let filled = "AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)";
    other.batch_execute(&format!("CREATE TABLE something TABLESPACE small {filled}")).await.unwrap();
    let small = format!("{}?options=-c%20default_tablespace%3Dsmall", server.url);
    let database = Postgres::connect(&small).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(600))).await.unwrap();
    // Random text, because the server compresses repetitions.
    let large = |n: u64| {
        let mut seed = n + 1;
        let letters = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'!' + (seed >> 33) as u8 % 90)
        });
        vec![words(letters.take(20_000).collect()), step().remove(0)]
    };
    let mut end = 0;
    let error = loop {
        match database.append("t", fence, end, large(end)).await {
            Ok(appended) => end = appended.end,
            Err(error) => break error,
        }
        assert!(end < 2_000, "3 MB hold all of this");
    };
    assert!(matches!(reason(&error), DatabaseError::Full { .. }), "{error:?}");
    assert!(end > 10, "{end}");
    assert_eq!(database.load("t", None).await.unwrap().entries.len() as u64, end, "what was acknowledged is there");
    other.batch_execute("DROP TABLE something").await.unwrap();
    assert_eq!(database.append("t", fence, end, large(end)).await.unwrap().end, end + 2);
}
