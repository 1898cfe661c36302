//! Several processes on one undo database, and killed processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents_core::state::{Channel, Schema, State};
use deepagents_fs::{
    Backend, FileUndo, LocalBackend, LocalOptions, OnConflict, RestoreError, UndoStore, VPath, WriteMode,
};
use serde_json::{Map, Value, json};

use crate::shell::LIMIT;

/// Environment variable with the instructions for a child process.
const ORDERS: &str = "DEEPAGENTS_TEST_UNDO";

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn put(&self, path: &str, content: &str) {
        std::fs::write(self.dir.path().join("work").join(path), content).unwrap();
    }

    fn store(&self) -> UndoStore {
        UndoStore::at(self.dir.path().join("undo.db"))
    }

    fn db(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.path().join("undo.db")).unwrap()
    }

    fn tree(&self) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(self.dir.path().join("work")).unwrap().map(Result::unwrap);
        let named = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with(".tmp-"));
        let read = |entry: std::fs::DirEntry| {
            (entry.file_name().to_string_lossy().into_owned(), std::fs::read_to_string(entry.path()).unwrap())
        };
        named.map(read).collect()
    }

    /// Starts a process that writes versions of a file in a thread, until done or killed.
    fn child(&self, thread: &str, versions: u64) -> Child {
        self.child_under("022", thread, versions)
    }

    fn child_under(&self, umask: &str, thread: &str, versions: u64) -> Child {
        let orders = json!({"dir": self.dir.path(), "thread": thread, "versions": versions}).to_string();
        Command::new("/bin/sh")
            .args(["-c", "umask $0; exec \"$@\"", umask])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "undo::child", "--ignored", "--nocapture"])
            .env(ORDERS, orders)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    }
}

fn open(dir: &Path) -> LocalBackend {
    let options = LocalOptions { undo: Some(UndoStore::at(dir.join("undo.db"))), ..LocalOptions::default() };
    LocalBackend::open_with(dir.join("work"), options).unwrap()
}

fn state(files: &LocalBackend, thread: &str, cursor: Option<Value>) -> State {
    let schema = Arc::new(Schema::new(files.channels()).unwrap());
    let Some(cursor) = cursor else {
        let mut state = State::new(schema);
        state.apply(&FileUndo::begin(&state, thread, thread).unwrap()).unwrap();
        return state;
    };
    State::from_json(schema, Map::from_iter([(FileUndo::NAME.to_owned(), cursor)])).unwrap()
}

fn content(thread: &str, n: u64) -> String {
    format!("{thread} {n} {}", "x".repeat(usize::try_from(n % 7).unwrap() * 1000))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
#[ignore = "a process of the other tests"]
fn child() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders: Value = serde_json::from_str(&orders).unwrap();
    let (thread, versions) = (orders["thread"].as_str().unwrap(), orders["versions"].as_u64().unwrap());
    let files = open(Path::new(orders["dir"].as_str().unwrap()));
    let mut state = state(&files, thread, None);
    let path = VPath::parse(&format!("/{thread}.txt")).unwrap();
    runtime().block_on(async {
        println!("\nready");
        for n in 1..=versions {
            if n % 10 == 0 {
                state.apply(&files.delete(&state, &path).await.unwrap()).unwrap();
            } else {
                let data = content(thread, n).into();
                let written = files.write(&state, &path, data, WriteMode::Overwrite).await.unwrap();
                state.apply(&written.update).unwrap();
            }
        }
    });
    println!("\ncursor {}", serde_json::to_string(state.get::<FileUndo>().unwrap()).unwrap());
}

/// The final state of a child process.
fn end(child: Child, files: &LocalBackend, thread: &str) -> (State, Value) {
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("cursor ")).unwrap_or_else(|| panic!("{text}"));
    let cursor: Value = serde_json::from_str(line).unwrap();
    (state(files, thread, Some(cursor.clone())), cursor)
}

/// The state of a thread after its first `seq` changes.
fn earlier(files: &LocalBackend, thread: &str, cursor: &Value, seq: u64) -> State {
    let mut cursor = cursor.clone();
    cursor["changes"].as_object_mut().unwrap().values_mut().for_each(|last| *last = seq.into());
    state(files, thread, Some(cursor))
}

async fn go_back(files: &LocalBackend, thread: &str, here: &State, there: &State) {
    let plan = files.plan_restore(thread, here, there).await.unwrap();
    assert!(plan.conflicts.is_empty() && plan.skipped.is_empty(), "{plan:?}");
    files.restore(thread, here, there, &plan, OnConflict::Refuse).await.unwrap();
}

#[test]
fn concurrent_writers_lose_nothing_even_during_garbage_collection() {
    const VERSIONS: u64 = 120;
    let place = Place::new();
    place.put("one.txt", "mine");
    place.child("gone", 30).wait_with_output().unwrap();
    let before = {
        let mut before = place.tree();
        before.remove("gone.txt");
        before
    };
    let mut children = ["one", "two", "three"].map(|thread| (thread, place.child(thread, VERSIONS)));
    // Each call removes a log with its contents, or finds nothing to remove.
    let (mut removed, deadline) = (0, Instant::now() + LIMIT);
    while children.iter_mut().any(|(_, child)| child.try_wait().unwrap().is_none()) {
        assert!(Instant::now() < deadline, "the writers do not end");
        std::thread::sleep(Duration::from_millis(2));
        removed += place.store().gc(|thread| thread != "gone").unwrap().logs;
    }
    // The writers may have ended before the first call.
    removed += place.store().gc(|thread| thread != "gone").unwrap().logs;
    assert_eq!(removed, 1);
    let files = open(place.dir.path());
    let check: String = place.db().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    for (thread, child) in children {
        let (here, cursor) = end(child, &files, thread);
        let settled = "SELECT count(*), sum(done) FROM change JOIN log ON log.key = log WHERE thread = ?1";
        let rows: (i64, i64) = place.db().query_row(settled, [thread], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(rows, (VERSIONS as i64, VERSIONS as i64), "{thread}");
        runtime().block_on(async {
            for seq in [VERSIONS - 3, 55, 11] {
                let there = earlier(&files, thread, &cursor, seq);
                go_back(&files, thread, &here, &there).await;
                assert_eq!(place.tree().get(&format!("{thread}.txt")), Some(&content(thread, seq)));
            }
            go_back(&files, thread, &here, &earlier(&files, thread, &cursor, 0)).await;
        });
    }
    let mut after = place.tree();
    after.remove("gone.txt");
    assert_eq!(after, before);
}

#[test]
fn a_process_killed_at_any_moment_leaves_an_undoable_state() {
    let place = Place::new();
    let files = open(place.dir.path());
    for round in 0..25_u64 {
        let thread = format!("t{round}");
        place.put(&format!("{thread}.txt"), "mine");
        let before = place.tree();
        let mut child = place.child(&thread, u64::MAX);
        // The child is working once its thread has rows.
        let rows = "SELECT count(*) FROM change JOIN log ON log.key = log WHERE thread = ?1";
        let working = || {
            place.dir.path().join("undo.db").exists()
                && place.db().query_row(rows, [&thread], |row| row.get::<_, i64>(0)).is_ok_and(|rows| rows > 0)
        };
        let deadline = Instant::now() + LIMIT;
        while !working() {
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(delay(round)));
        child.kill().unwrap();
        child.wait().unwrap();
        // The thread's journal has no record of these changes.
        let state = state(&files, &thread, None);
        let open_end = place.db().query_row(
            "SELECT count(*) FROM change JOIN log ON log.key = log WHERE thread = ?1 AND NOT done",
            [&thread],
            |row| row.get::<_, i64>(0),
        );
        assert!(open_end.unwrap() <= 1, "all but the last were settled");
        runtime().block_on(go_back(&files, &thread, &state, &state));
        assert_eq!(place.tree(), before, "round {round}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_created_under_a_strict_umask_is_private_again_when_it_is_restored() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let files = open(place.dir.path());
    let (here, cursor) = end(place.child_under("077", "one", 1), &files, "one");
    let mode = || std::fs::metadata(place.dir.path().join("work/one.txt")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let at = |seq| earlier(&files, "one", &cursor, seq);
    runtime().block_on(async {
        go_back(&files, "one", &here, &at(0)).await;
        assert!(place.tree().is_empty());
        go_back(&files, "one", &at(2), &at(1)).await;
    });
    assert_eq!(mode(), 0o600);
}

#[test]
fn directories_restored_before_a_failure_have_their_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let work = place.dir.path().join("work");
    std::fs::create_dir(work.join("d")).unwrap();
    std::fs::set_permissions(work.join("d"), std::fs::Permissions::from_mode(0o751)).unwrap();
    for (name, text) in [("d/a.txt", "a"), ("d/b.txt", "b")] {
        place.put(name, text);
    }
    let files = open(place.dir.path());
    let there = state(&files, "one", None);
    let mut here = there.clone();
    runtime().block_on(async {
        here.apply(&files.delete(&here, &VPath::parse("/d").unwrap()).await.unwrap()).unwrap();
        // No system can make such a link.
        let link = json!({"is": "link", "target": "x".repeat(5000)}).to_string();
        place.db().execute("UPDATE change SET before = ?1 WHERE path = '/d/b.txt'", [link]).unwrap();
        let plan = files.plan_restore("one", &here, &there).await.unwrap();
        let error = files.restore("one", &here, &there, &plan, OnConflict::Refuse).await.unwrap_err();
        assert!(matches!(&error, RestoreError::Partly { restored, .. } if restored.len() == 2), "{error}");
    });
    assert_eq!(std::fs::read_to_string(work.join("d/a.txt")).unwrap(), "a");
    assert_eq!(std::fs::metadata(work.join("d")).unwrap().permissions().mode() & 0o777, 0o751);
}

/// A delay in microseconds that differs in each round.
fn delay(round: u64) -> u64 {
    (round * 2_654_435_761) % 9_000
}

#[test]
fn an_unapplied_change_record_is_distinguished_from_an_applied_one() {
    let place = Place::new();
    place.put("one.txt", "mine");
    let files = open(place.dir.path());
    let (here, cursor) = end(place.child("one", 2), &files, "one");
    let there = earlier(&files, "one", &cursor, 1);
    place.db().execute("UPDATE change SET done = 0 WHERE seq = 2", []).unwrap();
    runtime().block_on(async {
        // Killed before the change: the file has its first version, and nothing needs undoing.
        place.put("one.txt", &content("one", 1));
        assert!(files.plan_restore("one", &here, &there).await.unwrap().is_empty());
        // Killed after the change.
        place.put("one.txt", &content("one", 2));
        go_back(&files, "one", &here, &there).await;
        assert_eq!(place.tree()["one.txt"], content("one", 1));
        // A version that no row records belongs to somebody else.
        place.put("one.txt", "somebody else's");
        let plan = files.plan_restore("one", &here, &earlier(&files, "one", &cursor, 0)).await.unwrap();
        assert_eq!((plan.conflicts.len(), plan.changes.len()), (1, 0), "{plan:?}");
    });
}
