//! Full and read-only file systems.
//!
//! A test runs itself again in a mount namespace, or without the capabilities that override permissions. It reports
//! that it was skipped if neither is possible.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use deepagents_core::journal::{Claim, Journal, Record, RecordUpdate};
use deepagents_core::message::Message;
use deepagents_core::run::Machine;
use deepagents_core::state::Update;
use deepagents_persist::{DatabaseError, Sqlite, SqliteOptions};
use deepagents_testing::skip::skip;

use crate::sqlite::place;

/// Environment variable with the directory for a test that runs again.
const FOLDER: &str = "DEEPAGENTS_TEST_FOLDER";

/// The directory, in a child process of a test.
fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs a test of this module again inside a shell script, which runs it as `"$@"`. Returns whether the script could
/// run; exit code 99 means that a tool is missing.
fn again(test: &str, folder: &Path, script: &str) -> bool {
    let mut command = Command::new("unshare");
    command.arg(if is_root() { "-m" } else { "-Urm" }).args(["sh", "-c", script, "sh"]);
    command.arg(std::env::current_exe().unwrap()).args(["--exact", &format!("places::{test}"), "--nocapture"]);
    let output = match command.env(FOLDER, folder).output() {
        Ok(output) => output,
        Err(error) => {
            skip("unshare", error);
            return false;
        }
    };
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(99) || said.starts_with("unshare:") {
        skip("mounts", said);
        return false;
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    true
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

fn block_on(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(case);
}

fn step() -> Vec<Record> {
    vec![Record::Step { machine: Machine::new(0, 1), run: None }]
}

fn words(bytes: usize) -> Record {
    Record::Update { update: RecordUpdate::Live(Update::message(Message::user("word ".repeat(bytes / 5)))) }
}

/// A closed database with a record.
fn written() -> PathBuf {
    let path = place();
    block_on(async {
        let database = Sqlite::open(&path).await.unwrap();
        let fence = database.claim("t", claim()).await.unwrap();
        database.append("t", fence, 0, step()).await.unwrap();
    });
    // The writer thread closes the database in the background, and then removes the WAL.
    let deadline = Instant::now() + Duration::from_secs(30);
    while path.with_extension("db-wal").exists() {
        assert!(Instant::now() < deadline, "the database stays open");
        std::thread::yield_now();
    }
    path
}

fn claim() -> Claim {
    Claim::new("test", Duration::from_secs(600))
}

#[test]
fn a_full_disk_accepts_no_partial_write_and_the_thread_continues_with_space() {
    let Some(folder) = folder() else {
        let script = r#"mount -t tmpfs -o size=2m tmpfs "$DEEPAGENTS_TEST_FOLDER" || exit 99; exec "$@""#;
        let test = "a_full_disk_accepts_no_partial_write_and_the_thread_continues_with_space";
        again(test, place().parent().unwrap(), script);
        return;
    };
    std::fs::write(folder.join("something else"), vec![1; 900_000]).unwrap();
    block_on(async {
        let path = folder.join("threads.db");
        let database = Sqlite::open(&path).await.unwrap();
        let fence = database.claim("t", claim()).await.unwrap();
        let mut end = 0;
        let error = loop {
            match database.append("t", fence, end, vec![words(20_000), step().remove(0)]).await {
                Ok(appended) => end = appended.end,
                Err(error) => break error,
            }
            assert!(end < 1_000, "2 MB hold all of this");
        };
        assert!(matches!(DatabaseError::of_journal(&error), Some(DatabaseError::Full { .. })), "{error:?}");
        assert!(end > 10, "{end}");
        let another = Sqlite::open(folder.join("another.db")).await.unwrap_err();
        assert!(matches!(another, DatabaseError::Full { .. }), "{another:?}");
        is_read_where_not_even_an_index_has_room(&path, end).await;
        assert_eq!(database.load("t", None).await.unwrap().entries.len() as u64, end, "what was acknowledged is there");
        std::fs::remove_file(folder.join("something else")).unwrap();
        database.append("t", fence, end, vec![words(20_000), step().remove(0)]).await.unwrap();
        database.check().await.unwrap();
        assert_eq!(Sqlite::open(&path).await.unwrap().load("t", None).await.unwrap().entries.len() as u64, end + 2);
    });
}

/// The files left by a process that ended on a full disk: a WAL without its index.
async fn is_read_where_not_even_an_index_has_room(path: &Path, end: u64) {
    let aside = path.with_file_name("copy");
    let (copy, wal) = (aside.join("threads.db"), aside.join("threads.db-wal"));
    std::fs::create_dir(&aside).unwrap();
    let outside = tempfile::tempdir().unwrap();
    for name in ["threads.db", "threads.db-wal"] {
        std::fs::copy(path.with_file_name(name), outside.path().join(name)).unwrap();
    }
    let script =
        r#"mount -t tmpfs -o size=4m tmpfs "$1" && cp "$2"/* "$1" && { cat /dev/zero > "$1/rest"; true; } 2>&-"#;
    let mut full = Command::new("sh");
    full.args(["-c", script, "sh"]).arg(&aside).arg(outside.path());
    assert!(full.status().unwrap().success() && wal.exists());
    let error = Sqlite::open(&copy).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Full { .. }), "{error:?}");
    reads_alone(&copy, end).await;
}

/// A database that cannot be written can still be read.
async fn reads_alone(path: &Path, end: u64) {
    let database = SqliteOptions::default().open_read_only(path).await.unwrap();
    for _ in 0..2 {
        assert_eq!(database.load("t", None).await.unwrap().entries.len() as u64, end);
    }
    let (one, other) = tokio::join!(database.load("t", None), database.load("t", None));
    assert_eq!(one.unwrap().entries.len(), other.unwrap().entries.len());
    let error = database.claim("t", claim()).await.unwrap_err();
    assert!(matches!(DatabaseError::of_journal(&error), Some(DatabaseError::ReadOnly { .. })), "{error:?}");
}

#[test]
fn a_read_only_file_system_is_a_typed_error_and_nothing_changes() {
    let Some(folder) = folder() else {
        let path = written();
        let before = std::fs::read(&path).unwrap();
        let script = r#"mount --bind "$DEEPAGENTS_TEST_FOLDER" "$DEEPAGENTS_TEST_FOLDER" &&
            mount -o remount,bind,ro "$DEEPAGENTS_TEST_FOLDER" || exit 99; exec "$@""#;
        again("a_read_only_file_system_is_a_typed_error_and_nothing_changes", path.parent().unwrap(), script);
        assert!(std::fs::read(&path).unwrap() == before, "the file has changed");
        return;
    };
    block_on(async {
        for name in ["test.db", "new.db"] {
            let error = Sqlite::open(folder.join(name)).await.unwrap_err();
            assert!(matches!(error, DatabaseError::ReadOnly { .. }), "{name}: {error:?}");
        }
        reads_alone(&folder.join("test.db"), 1).await;
        assert!(SqliteOptions::default().open_read_only(folder.join("new.db")).await.is_err());
    });
}

#[test]
fn a_file_without_write_permission_is_a_typed_error_and_nothing_changes() {
    use std::os::unix::fs::PermissionsExt;
    let Some(folder) = folder() else {
        let path = written();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
        let before = std::fs::read(&path).unwrap();
        let test = "a_file_without_write_permission_is_a_typed_error_and_nothing_changes";
        // Root can write anything unless it drops its capabilities.
        let script = r#"setpriv --bounding-set -all true || exit 99; exec setpriv --bounding-set -all "$@""#;
        again(test, path.parent().unwrap(), script);
        assert!(std::fs::read(&path).unwrap() == before, "the file has changed");
        return;
    };
    block_on(async {
        let error = Sqlite::open(folder.join("test.db")).await.unwrap_err();
        assert!(matches!(error, DatabaseError::ReadOnly { .. }), "{error:?}");
        reads_alone(&folder.join("test.db"), 1).await;
    });
}
