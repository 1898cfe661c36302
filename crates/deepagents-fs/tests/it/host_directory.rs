//! Commands, and files that other programs open by their paths.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deepagents_fs::HostDirectory;
use deepagents_fs::shell::{Command, Confinement, Exit, LocalShell, SessionOptions, ShellError};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::shell::{appears, ends, lives};

fn open(path: impl AsRef<Path>) -> HostDirectory {
    HostDirectory::open(path).unwrap()
}

/// Waits until a value is dropped.
async fn is_dropped<T>(value: Weak<T>) {
    ends(async {
        while value.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_access_is_refused_while_a_command_runs_or_waits_and_a_command_waits_for_earlier_accesses() {
    let dir = tempfile::tempdir().unwrap();
    let (editor, commands) = (open(dir.path()), open(dir.path()));
    let first = editor.access().await.unwrap();
    let second = editor.access().await.expect("accesses do not exclude each other");
    let mut command = Box::pin(commands.exclude_access());
    assert!((&mut command).now_or_never().is_none());
    assert!(editor.access().await.is_none(), "no access is put before a command that waits");
    drop(first);
    assert!((&mut command).now_or_never().is_none());
    drop(second);
    let command = command.await.unwrap();
    let other = commands.exclude_access().await.expect("commands do not exclude each other");
    drop(command);
    assert!(editor.access().await.is_none());
    drop(other);
    assert!(editor.access().await.is_some());
}

#[tokio::test]
async fn a_command_that_waits_and_is_given_up_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let access = directory.access().await.unwrap();
    let mut command = Box::pin(directory.exclude_access());
    assert!((&mut command).now_or_never().is_none());
    drop(command);
    assert!(directory.access().await.is_some());
    let shell = directory.shell(Arc::new(LocalShell::open(dir.path(), Confinement::Unconfined).unwrap()));
    let cancel = CancellationToken::new();
    let mut run = shell.run(Command::new("touch ran"), cancel.clone(), None);
    assert!((&mut run).now_or_never().is_none());
    cancel.cancel();
    assert_eq!(run.await.unwrap().exit, Exit::Cancelled);
    assert!(!dir.path().join("ran").exists());
    drop(access);
    assert!(directory.access().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_command_is_refused_if_an_access_does_not_end() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let access = directory.access().await.unwrap();
    let refused = directory.exclude_access().await.unwrap_err();
    assert!(matches!(&refused, ShellError::Start(why) if why.contains("has not answered")), "{refused}");
    let at_once = directory.exclude_access().now_or_never();
    assert!(matches!(at_once, Some(Err(_))), "the next command does not wait again");
    drop(access);
    assert!(directory.exclude_access().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_command_that_must_not_be_skipped_waits_for_as_long_as_an_access_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let shell = directory.waiting_shell(Arc::new(LocalShell::open(dir.path(), Confinement::Unconfined).unwrap()));
    let access = directory.access().await.unwrap();
    let mut run = shell.run(Command::new("touch ran"), CancellationToken::new(), None);
    assert!(tokio::time::timeout(Duration::from_secs(100_000), &mut run).await.is_err());
    assert!(!dir.path().join("ran").exists());
    drop(access);
    assert_eq!(run.await.unwrap().exit, Exit::Code(0));
    assert!(dir.path().join("ran").exists());
}

#[tokio::test]
async fn commands_exclude_accesses_in_every_directory_that_they_could_lead_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    for path in ["work/below", "other", "links"] {
        std::fs::create_dir_all(dir.join(path)).unwrap();
    }
    symlink(dir.join("work"), dir.join("links/second")).unwrap();
    symlink("links/second/below", dir.join("first")).unwrap();
    let excludes = async |commands: &str, accessed: &str| {
        let _command = open(dir.join(commands)).exclude_access().await.unwrap();
        open(dir.join(accessed)).access().await.is_none()
    };
    for (commands, accessed) in
        [("work", "work/below"), ("work/below", "work"), ("", "work"), ("links", "first"), ("first", "work/below")]
    {
        assert!(excludes(commands, accessed).await, "{commands} {accessed}");
    }
    for (commands, accessed) in [("work", "other"), ("other", "first"), ("links", "work/below")] {
        assert!(!excludes(commands, accessed).await, "{commands} {accessed}");
    }
}

#[tokio::test]
async fn a_directory_that_was_replaced_is_not_accessed_by_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    std::fs::create_dir_all(at("above/work")).unwrap();
    std::fs::create_dir_all(at("outside/work")).unwrap();
    symlink(at("above"), at("link")).unwrap();
    let (plain, linked) = (open(at("above/work")), open(at("link/work")));
    assert!(plain.access().await.is_some() && linked.access().await.is_some());
    // Another directory with the same name, then a link to the right one.
    std::fs::rename(at("above/work"), at("kept")).unwrap();
    std::fs::create_dir(at("above/work")).unwrap();
    assert!(plain.access().await.is_none() && linked.access().await.is_none());
    std::fs::remove_dir(at("above/work")).unwrap();
    symlink(at("kept"), at("above/work")).unwrap();
    assert!(plain.access().await.is_none());
    // Back again, but the directory above is elsewhere.
    std::fs::remove_file(at("above/work")).unwrap();
    std::fs::rename(at("kept"), at("above/work")).unwrap();
    assert!(plain.access().await.is_some() && linked.access().await.is_some());
    std::fs::remove_file(at("link")).unwrap();
    symlink(at("outside"), at("link")).unwrap();
    assert!(linked.access().await.is_none());
    std::fs::rename(at("above"), at("moved")).unwrap();
    symlink(at("outside"), at("above")).unwrap();
    assert!(plain.access().await.is_none());
}

#[tokio::test]
async fn accesses_are_excluded_until_the_processes_of_a_dropped_command_have_ended() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let shell = directory.shell(Arc::new(LocalShell::open(dir.path(), Confinement::Unconfined).unwrap()));
    let value = Arc::new(());
    let kept = Arc::downgrade(&value);
    let command = Command::new("echo $$ > pid.new; mv pid.new pid; exec sleep 1000").while_running(value);
    let (run, file) = (shell.run(command, CancellationToken::new(), None), dir.path().join("pid"));
    tokio::select! {
        _ = run => panic!("it goes on"),
        () = appears(&file) => {}
    }
    let pid = std::fs::read_to_string(&file).unwrap();
    is_dropped(kept).await;
    assert!(!lives(&pid));
    assert!(directory.access().await.is_some());
}

#[tokio::test]
async fn accesses_are_excluded_until_a_session_and_what_it_left_running_have_ended() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let shell = directory.shell(Arc::new(LocalShell::open(dir.path(), Confinement::Unconfined).unwrap()));
    let session = shell.session(&SessionOptions::default()).unwrap();
    assert!(directory.access().await.is_some(), "its process starts with the first command");
    let value = Arc::new(());
    let kept = Arc::downgrade(&value);
    let command = Command::new("sleep 1000 & echo $!").while_running(value);
    let pid = ends(session.run(command, CancellationToken::new(), None)).await.unwrap().output;
    assert!(kept.upgrade().is_some() && lives(&pid));
    assert!(directory.access().await.is_none());
    drop(session);
    is_dropped(kept).await;
    assert!(!lives(&pid));
    assert!(directory.access().await.is_some());
}

#[tokio::test]
async fn an_access_right_after_a_command_is_not_refused() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let shell = directory.shell(Arc::new(LocalShell::open(dir.path(), Confinement::Unconfined).unwrap()));
    for _ in 0..20 {
        ends(shell.run(Command::new("true"), CancellationToken::new(), None)).await.unwrap();
        assert!(directory.access().await.is_some());
    }
}
