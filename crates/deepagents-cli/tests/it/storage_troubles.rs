//! Databases that are missing, full or read-only.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use deepagents_testing::skip::skip;

use crate::program::{Finished, Start, deepagents, finish, run};
use crate::server::{Reply, Server};

/// Wraps a command in a shell script, which runs it as `"$@"`.
fn within(script: &str, inner: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn removing_the_database_during_a_run_ends_it_and_names_the_database() {
    let (open, gate) = channel();
    let server = Server::start([Reply::Gated("Hello", gate, " there.".to_owned())]);
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("db");
    fs::create_dir(&database).unwrap();
    let mut command = run(dir.path(), &server.address);
    command.arg("--db").arg(database.join("t.db")).arg("Greet").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.start();
    server.wait();
    for entry in fs::read_dir(&database).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    open.send(()).unwrap();
    let finished: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("t.db was removed or replaced"), "{finished:?}");
}

#[test]
fn hitting_the_file_size_limit_is_reported() {
    let text = "x".repeat(4 << 20).leak();
    let server = Server::start([Reply::Text(vec![text])]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(dir.path(), &server.address);
    command.arg("--db").arg(dir.path().join("t.db")).arg("Talk");
    let finished = finish(&mut within(r#"ulimit -f 1500; exec "$@""#, &command));
    assert_eq!(finished.code, Some(1), "{}", finished.err);
    assert!(finished.err.contains("there is no space left") && finished.err.contains("ulimit -f"), "{}", finished.err);
}

#[test]
fn threads_on_a_read_only_disk_can_be_listed_shown_and_exported() {
    let server = Server::start([Reply::Text(vec!["Hello Ada."])]);
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("db");
    fs::create_dir(&database).unwrap();
    let file = database.join("t.db");
    assert_eq!(finish(run(dir.path(), &server.address).arg("--db").arg(&file).arg("I am Ada")).code, Some(0));
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let unshare = if is_root { "unshare -m" } else { "unshare -Urm" };
    let place = database.display();
    let script = format!(
        r#"exec {unshare} sh -c 'mount --bind "{place}" "{place}" && mount -o remount,bind,ro "{place}" || exit 99; exec "$@"' sh "$@""#
    );
    let threads = |args: &[&str]| {
        let mut command = deepagents();
        command.args(["threads", "--db"]).arg(&file).args(args);
        finish(&mut within(&script, &command))
    };
    let listed = threads(&["list"]);
    if listed.code == Some(99) || listed.err.starts_with("unshare:") {
        skip("mounts", listed.err);
        return;
    }
    assert!(listed.code == Some(0) && listed.out.contains("I am Ada"), "{listed:?}");
    let id = listed.out.split_whitespace().next().unwrap().to_owned();
    for args in [["show", &id], ["export", &id]] {
        let read = threads(&args);
        assert!(read.code == Some(0) && read.out.contains("Hello Ada."), "{read:?}");
    }
    let deleted = threads(&["delete", &id]);
    assert!(deleted.code == Some(1) && deleted.err.contains("cannot be written"), "{deleted:?}");
}
