//! Errors of unusable databases name the cause, and nothing is half written.
#![allow(clippy::disallowed_methods, reason = "tests damage files")]

use std::time::Duration;

use deepagents_core::journal::{Claim, Journal, JournalError, Record, RunStatus, ThreadQuery};
use deepagents_core::message::{Message, MessageOp};
use deepagents_core::run::{FinishReason, Machine};
use deepagents_core::state::{MessagesChannel, Update};
use deepagents_core::store::{KeyQuery, Store};
use deepagents_persist::{DatabaseError, Sqlite, SqliteOptions, Synchronous};
use rusqlite::Connection;

use crate::sqlite::place;

fn step() -> Vec<Record> {
    vec![Record::Step { machine: Machine::new(0, 1), run: None }]
}

fn reason(error: &JournalError) -> &DatabaseError {
    DatabaseError::of_journal(error).unwrap_or_else(|| panic!("{error:?}"))
}

#[tokio::test]
async fn a_foreign_file_is_rejected_and_left_unchanged() {
    let path = place();
    std::fs::write(&path, "My notes. ".repeat(1000)).unwrap();
    let error = Sqlite::open(&path).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Foreign { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "My notes. ".repeat(1000));

    // SQLite would treat this as an empty database.
    let path = place();
    std::fs::write(&path, "x").unwrap();
    let error = Sqlite::open(&path).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Foreign { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");

    let path = place();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE thread (id)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Sqlite::open(&path).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Foreign { .. }), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_newer_schema_is_rejected_and_left_unchanged() {
    let path = place();
    drop(Sqlite::open(&path).await.unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Sqlite::open(&path).await.unwrap_err();
    assert!(matches!(error, DatabaseError::NewerSchema { found: 99, .. }), "{error:?}");
    let version: i64 = Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[tokio::test]
async fn a_damaged_file_is_detected() {
    let path = place();
    {
        let database = Sqlite::open(&path).await.unwrap();
        let fence = database.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
        for end in 0..300 {
            database.append("t", fence, end, step()).await.unwrap();
        }
        database.check().await.unwrap();
    }
    // The last connection checkpoints the WAL.
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    for page in bytes.chunks_mut(8192).skip(2) {
        page[..2000].fill(0xa5);
    }
    std::fs::write(&path, bytes).unwrap();
    let found = match Sqlite::open(&path).await {
        Err(error) => error,
        Ok(database) => {
            let error = database.load("t", None).await.unwrap_err();
            assert!(matches!(reason(&error), DatabaseError::Damaged { .. }), "{error:?}");
            database.check().await.unwrap_err()
        }
    };
    assert!(matches!(found, DatabaseError::Damaged { .. }), "{found:?}");
}

#[tokio::test]
async fn a_full_database_accepts_no_partial_write_and_recovers_with_space() {
    let path = place();
    let small = SqliteOptions { max_bytes: Some(400_000), ..SqliteOptions::default() }.open(&path).await.unwrap();
    let fence = small.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
    let large = |n: u64| {
        let mut message = Message::user(format!("{n} ").repeat(5_000));
        message.set_id(n.to_string());
        let update = Update::new::<MessagesChannel>(vec![MessageOp::put(message)]);
        vec![Record::Update { update: deepagents_core::journal::RecordUpdate::Live(update) }, step().remove(0)]
    };
    let mut end = 0;
    let error = loop {
        match small.append("t", fence, end, large(end)).await {
            Ok(appended) => end = appended.end,
            Err(error) => break error,
        }
        assert!(end < 1_000, "the limit is not kept");
    };
    assert!(matches!(reason(&error), DatabaseError::Full { .. }), "{error:?}");
    assert!(end > 10, "{end}");
    assert_eq!(small.load("t", None).await.unwrap().entries.len() as u64, end);
    drop(small);
    let roomy = Sqlite::open(&path).await.unwrap();
    roomy.check().await.unwrap();
    assert_eq!(roomy.append("t", fence, end, large(end)).await.unwrap().end, end + 2);
}

#[tokio::test]
async fn a_file_locked_by_another_process_is_waited_for_then_reported() {
    let path = place();
    let database =
        SqliteOptions { wait: Duration::from_millis(50), ..SqliteOptions::default() }.open(&path).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = database.append("t", fence, 0, step()).await.unwrap_err();
    assert!(matches!(reason(&error), DatabaseError::Locked { .. }), "{error:?}");
    assert_eq!(database.load("t", None).await.unwrap().end, 0, "readers go on");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(database.append("t", fence, 0, step()).await.unwrap().end, 1);
}

#[tokio::test]
async fn a_file_held_exclusively_by_another_process_is_waited_for_then_reported() {
    let path = place();
    drop(Sqlite::open(&path).await.unwrap());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE epoch SET last = 7").unwrap();
    let error =
        SqliteOptions { wait: Duration::from_millis(50), ..SqliteOptions::default() }.open(&path).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Locked { .. }), "{error:?}");
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    Sqlite::open(&path).await.unwrap().check().await.unwrap();
}

#[tokio::test]
async fn a_damaged_record_and_a_lost_blob_are_detected_and_located() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
    let update = Update::message(Message::user("x".repeat(100_000)));
    let large = Record::Update { update: deepagents_core::journal::RecordUpdate::Live(update) };
    database.append("t", fence, 0, vec![step().remove(0), large]).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("DELETE FROM blob").unwrap();
    let error = database.load("t", None).await.unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 1, .. }), "{error:?}");
    let error = database.check().await.unwrap_err();
    assert!(matches!(&error, DatabaseError::Damaged { reason, .. } if reason.contains("blob")), "{error:?}");
    other.execute_batch("UPDATE event SET body = 'x' WHERE position = 0").unwrap();
    let error = database.load("t", None).await.unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 0, .. }), "{error:?}");
    assert_eq!(database.append("t", fence, 2, step()).await.unwrap().end, 3, "what is there stays as it is");
}

#[tokio::test]
async fn a_damaged_thread_row_is_an_error_and_is_not_overwritten() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
    database.append("t", fence, 0, step()).await.unwrap();
    let other = Connection::open(&path).unwrap();
    for (column, damage) in [("status", "asleep"), ("metadata", "{\"title\":")] {
        let was: String = other.query_row(&format!("SELECT {column} FROM thread"), [], |row| row.get(0)).unwrap();
        let put = |value: &str| other.execute(&format!("UPDATE thread SET {column} = ?1"), [value]).unwrap();
        put(damage);
        for error in [
            database.threads().get("t").await.unwrap_err(),
            database.threads().set_metadata("t", serde_json::Map::new()).await.unwrap_err(),
        ] {
            let told = matches!(reason(&error), DatabaseError::Damaged { reason, .. } if reason.contains("`t`"));
            assert!(told && error.to_string().contains(column), "{error:?}");
        }
        let kept: String = other.query_row(&format!("SELECT {column} FROM thread"), [], |row| row.get(0)).unwrap();
        assert_eq!(kept, damage);
        let listed = database.threads().list(&ThreadQuery::default()).await.unwrap();
        assert!(listed[0].damage.as_ref().is_some_and(|damage| damage.contains(column)), "{listed:?}");
        // Damage that a run does not read does not stop it.
        let appended = database.append("t", fence, 1, step()).await;
        assert_eq!(appended.is_ok(), column == "metadata", "{appended:?}");
        put(&was);
        let end = if column == "metadata" { 2 } else { 1 };
        assert_eq!(database.threads().get("t").await.unwrap().unwrap().end, end);
    }
    other.execute_batch("UPDATE thread SET status = 'asleep'").unwrap();
    assert!(database.threads().delete("t").await.unwrap(), "it can be deleted");
}

#[tokio::test]
async fn a_damaged_value_is_an_error_but_its_key_is_still_listed() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let a = ["a".to_owned()];
    database.put(&a, "k", serde_json::json!({"n": 1})).await.unwrap();
    Connection::open(&path).unwrap().execute_batch("UPDATE item SET value = '{'").unwrap();
    let error = Store::get(&database, &a, "k").await.unwrap_err();
    assert!(matches!(DatabaseError::of_store(&error), Some(DatabaseError::Damaged { .. })), "{error:?}");
    assert_eq!(database.list_keys(&a, &KeyQuery::default()).await.unwrap()[0].size, 7);
}

#[tokio::test]
async fn a_version_1_sqlite_schema_is_migrated() {
    let path = place();
    let a = ["a".to_owned()];
    {
        let database = Sqlite::open(&path).await.unwrap();
        database.put(&a, "k", serde_json::json!("ü")).await.unwrap();
        let fence = database.claim("t", Claim::new("ada", Duration::from_secs(60))).await.unwrap();
        let ended = Record::RunFinished { run: "r".to_owned(), stop: Some(FinishReason::StepLimit) };
        database.append("t", fence, 0, vec![ended]).await.unwrap();
    }
    let before = "DROP INDEX item_keys; ALTER TABLE item DROP COLUMN size; DROP INDEX thread_parent;
        ALTER TABLE thread DROP COLUMN parent; DROP INDEX thread_claimable; DROP TRIGGER item_deleted;
        DROP TABLE deleted_version; DROP TRIGGER thread_inserted; DROP TRIGGER thread_updated;
        DROP INDEX thread_updated; DROP INDEX thread_created; ALTER TABLE thread DROP COLUMN minute;
        DROP TRIGGER thread_stop; ALTER TABLE thread DROP COLUMN stop; ALTER TABLE event DROP COLUMN stop;
        PRAGMA user_version = 1";
    Connection::open(&path).unwrap().execute_batch(before).unwrap();
    let database = Sqlite::open(&path).await.unwrap();
    assert_eq!(database.list_keys(&a, &KeyQuery::default()).await.unwrap()[0].size, 4);
    assert_eq!(Store::get(&database, &a, "k").await.unwrap().unwrap().value, "ü");
    // The reason for which a run ended was not stored then.
    let info = database.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.status, info.stop), (RunStatus::Ended, None));
}

#[tokio::test]
async fn the_reason_of_an_earlier_run_goes_when_an_older_program_changes_the_status() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let fence = database.claim("t", Claim::new("ada", Duration::from_secs(60))).await.unwrap();
    let ended = Record::RunFinished { run: "r".to_owned(), stop: Some(FinishReason::StepLimit) };
    database.append("t", fence, 0, vec![ended]).await.unwrap();
    let stop = async || database.threads().get("t").await.unwrap().unwrap().stop;
    assert_eq!(stop().await, Some(FinishReason::StepLimit));
    // What the earlier version ran for a run that begins and ends.
    for status in ["open", "ended"] {
        Connection::open(&path).unwrap().execute("UPDATE thread SET status = ?1", [status]).unwrap();
        assert_eq!(stop().await, None);
    }
}

#[tokio::test]
async fn a_path_in_a_missing_directory_is_a_typed_error() {
    let error = Sqlite::open(place().join("no").join("where.db")).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Unavailable { .. }), "{error:?}");
    let error = Sqlite::open(place().parent().unwrap()).await.unwrap_err();
    assert!(!matches!(error, DatabaseError::Other { .. }), "{error:?}");
}

#[tokio::test]
async fn the_database_file_is_accessible_only_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let path = place();
    let database =
        SqliteOptions { synchronous: Synchronous::Full, ..SqliteOptions::default() }.open(&path).await.unwrap();
    database.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_processes_can_open_and_share_a_new_file_at_once() {
    // A race may not occur in a single round, so there are many.
    for _ in 0..20 {
        let path = place();
        let opened = (0..6).map(|_| tokio::spawn(Sqlite::open(path.clone()))).collect::<Vec<_>>();
        let mut all = Vec::new();
        for database in opened {
            all.push(database.await.unwrap().unwrap());
        }
        let fence = all[0].claim("t", Claim::new("one", Duration::from_secs(60))).await.unwrap();
        let busy = all[1].claim("t", Claim::new("two", Duration::from_secs(60))).await;
        assert!(matches!(busy, Err(JournalError::Busy { .. })));
        all[0].append("t", fence, 0, step()).await.unwrap();
        assert_eq!(all[5].load("t", None).await.unwrap().end, 1);
    }
}

#[tokio::test]
async fn a_large_value_is_stored_only_once() {
    let path = place();
    let database = Sqlite::open(&path).await.unwrap();
    let fence = database.claim("t", Claim::new("test", Duration::from_secs(60))).await.unwrap();
    let large = "0123456789".repeat(50_000);
    for end in 0..20 {
        let mut message = Message::user(&*large);
        message.set_id(end.to_string());
        let update = Update::new::<MessagesChannel>(vec![MessageOp::put(message)]);
        let record = Record::Update { update: deepagents_core::journal::RecordUpdate::Live(update) };
        database.append("t", fence, end, vec![record]).await.unwrap();
    }
    database.threads().copy("t", "u", None).await.unwrap();
    let size = |suffix: &str| std::fs::metadata(format!("{}{suffix}", path.display())).map_or(0, |file| file.len());
    assert!(size("") + size("-wal") < 3_000_000, "{} and {}", size(""), size("-wal"));
    assert_eq!(database.load("u", None).await.unwrap().entries.len(), 20);
}

#[tokio::test]
async fn waiting_for_a_database_can_be_unlimited() {
    SqliteOptions { wait: Duration::MAX, ..SqliteOptions::default() }.open(place()).await.unwrap();
}

#[tokio::test]
async fn a_thread_owned_without_end_is_busy_until_the_last_time_there_is() {
    let database = Sqlite::open(place()).await.unwrap();
    database.claim("t", Claim::new("first", Duration::MAX)).await.unwrap();
    let busy = database.claim("t", Claim::new("second", Duration::from_secs(1))).await.unwrap_err();
    assert!(busy.to_string().contains("until 9999-"), "{busy}");
}
