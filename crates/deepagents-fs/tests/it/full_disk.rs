//! Writes that fail because the disk is full.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deepagents_core::state::{Schema, State};
use deepagents_fs::{Backend, FileUndo, FsError, LocalBackend, LocalOptions, OnConflict, UndoStore, WriteMode};
use deepagents_testing::skip::{self, skip};
use rustix::process::{Gid, Uid};

use crate::suite::p;

const OLD_BYTES: usize = 100_000;
/// Fits on the disk once beside the old content, but not twice.
const NEW_BYTES: usize = 600_000;

/// Runs a test again with a disk of one megabyte that only it sees. In that process, returns a directory that contains
/// `disk` and `undo`.
fn with_a_small_disk(name: &str) -> Option<PathBuf> {
    const ROLE: &str = "a_test_with_a_small_disk";
    if let Some(place) = std::env::var_os(ROLE) {
        return Some(place.into());
    }
    let dir = tempfile::tempdir().unwrap();
    for at in [dir.path().join("disk"), dir.path().join("undo")] {
        std::fs::create_dir(&at).unwrap();
        std::fs::set_permissions(&at, Permissions::from_mode(0o777)).unwrap();
    }
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let text = "mount -t tmpfs -o size=1m,mode=777 none \"$1\" || exit 9; shift; exec \"$@\"";
    let mut program = std::process::Command::new("unshare");
    program.args(["--mount", "--propagation", "private", "sh", "-c", text, "sh"]);
    program.arg(dir.path().join("disk")).arg(std::env::current_exe().unwrap());
    let Ok(told) = program.args([name, "--exact", "--nocapture"]).env(ROLE, dir.path()).output() else {
        skip("mounts", "there is no unshare");
        return None;
    };
    skip::pass_on(&told);
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(!said.contains("running 0 tests"), "{name} names no test");
    match said.contains("running 1 test") {
        true => assert!(told.status.success(), "{told:?}"),
        false => skip("mounts", format_args!("no disk can be made here: {told:?}")),
    }
    None
}

/// Makes this thread, and those that it starts, act as another user in no group of root's.
fn become_nobody() {
    let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
}

fn open(place: &Path, max_read: u64) -> LocalBackend {
    let undo = Some(UndoStore::at(place.join("undo/undo.db")));
    LocalBackend::open_with(place.join("disk"), LocalOptions { max_read, undo, ..LocalOptions::default() }).unwrap()
}

#[test]
fn a_write_in_place_that_fails_halfway_loses_nothing() {
    let Some(place) = with_a_small_disk("full_disk::a_write_in_place_that_fails_halfway_loses_nothing") else { return };
    let disk = place.join("disk");
    let file = disk.join("shared.txt");
    // A file of a group that its owner cannot give to another file is written in place.
    std::fs::write(&file, "a".repeat(OLD_BYTES)).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
    std::os::unix::fs::chown(&file, Some(65_534), Some(0)).unwrap();
    become_nobody();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        // The previous content is put back, or, if it may not be held in memory, recorded.
        for (thread, max_read) in [("put back", u64::MAX), ("recorded", 10)] {
            let before = std::fs::metadata(&file).unwrap();
            let files = open(&place, max_read);
            let mut state = State::new(Arc::new(Schema::new(files.channels()).unwrap()));
            state.apply(&FileUndo::begin(&state, thread, thread).unwrap()).unwrap();
            let (path, data) = (p("/shared.txt"), "b".repeat(NEW_BYTES));
            let error = files.write(&state, &path, data.into(), WriteMode::Overwrite).await.unwrap_err();
            let kind = match &error {
                FsError::Io { kind, .. } => *kind,
                other => panic!("{other}"),
            };
            assert_eq!(kind, std::io::ErrorKind::StorageFull, "{error}");
            let after = std::fs::metadata(&file).unwrap();
            assert_eq!(after.ino(), before.ino(), "the file was not replaced");
            let content = std::fs::read_to_string(&file).unwrap();
            let plan = files.plan_restore(thread, &state, &state).await.unwrap();
            if thread == "put back" {
                assert!(content == "a".repeat(OLD_BYTES), "{}", content.len());
                assert_eq!(after.modified().unwrap(), before.modified().unwrap());
                assert!(plan.is_empty() && !error.to_string().contains("part"), "{error} {plan:?}");
                continue;
            }
            assert!(content.starts_with('b') && content.len() < NEW_BYTES, "the write failed halfway");
            assert!(error.to_string().contains("may hold a part of the new content"), "{error}");
            assert_eq!(plan.unrecorded, [path]);
            assert_eq!((plan.changes.len(), plan.conflicts.len(), plan.skipped.len()), (0, 1, 0), "{plan:?}");
            let done = files.restore(thread, &state, &state, &plan, OnConflict::Overwrite).await.unwrap();
            assert_eq!(done.restored.len(), 1);
            assert!(std::fs::read_to_string(&file).unwrap() == "a".repeat(OLD_BYTES));
        }
    });
}
