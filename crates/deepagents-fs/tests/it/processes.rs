//! Several processes on one directory, and processes that end in the middle of their work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use deepagents_fs::edit::Edit;
use deepagents_fs::{FsError, LocalBackend};

use crate::suite::{Files, p};

/// Runs this test again in a child process that works in a directory.
fn again(name: &str, role: &str, directory: &Path) -> Child {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args([name, "--exact"]).env(role, directory).stdout(Stdio::null());
    program.spawn().unwrap()
}

#[tokio::test]
async fn two_processes_that_edit_one_file_lose_no_edit() {
    const ROLE: &str = "two_processes_that_edit_one_file";
    const EDITS: usize = 150;
    if let Some(directory) = std::env::var_os(ROLE) {
        let mut files = Files::new(Arc::new(LocalBackend::open(directory).unwrap()));
        for number in 0..EDITS {
            let line = format!("{} {number}\nEND", std::process::id());
            files.edit("/log", &[Edit::new("END", line)]).await.unwrap();
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log"), "END\n").unwrap();
    let name = "processes::two_processes_that_edit_one_file_lose_no_edit";
    let mut children: Vec<Child> = (0..3).map(|_| again(name, ROLE, dir.path())).collect();
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    assert_eq!(fs::read_to_string(dir.path().join("log")).unwrap().lines().count(), 3 * EDITS + 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_another_program_keeps_locked_delays_no_change_elsewhere() {
    use std::os::unix::fs::MetadataExt;

    let dir = tempfile::tempdir().unwrap();
    for name in ["locked", "free"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("locked/old"), "old").unwrap();
    let lock = fs::File::open(dir.path().join("locked")).unwrap();
    let own = lock.metadata().unwrap().ino();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let backend = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let waiting: Vec<_> = (0..3)
        .map(|number| {
            let mut files = Files::new(backend.clone());
            let work = async move {
                if number == 0 {
                    files.delete("/locked/old").await
                } else {
                    files.write("/locked/new", "x").await.map(drop)
                }
            };
            tokio::spawn(work)
        })
        .collect();
    // One of them has opened the directory in order to lock it.
    let opened = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| fs::metadata(fd.path()).ok());
        open.filter(|found| found.is_dir() && found.ino() == own).count()
    };
    let deadline = Instant::now() + crate::shell::LIMIT;
    while opened() < 1 + 3 + 1 {
        assert!(Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    let mut files = Files::new(backend.clone());
    files.write("/free/new", "x").await.unwrap();
    files.delete("/free/new").await.unwrap();
    assert!(waiting.iter().all(|change| !change.is_finished()));
    for change in waiting {
        let error = change.await.unwrap().unwrap_err();
        assert!(matches!(&error, FsError::TimedOut { reason, .. } if reason.contains("locked")), "{error}");
    }
    drop(lock);
    files.write("/locked/new", "x").await.unwrap();
    assert!(dir.path().join("locked/old").exists());
}

#[tokio::test]
async fn a_versioned_write_replaces_exactly_that_version_or_nothing() {
    // Another program saves the file by renaming, ignoring locks, while edits are made.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "0 0\n").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, own) = (stop.clone(), dir.path().to_owned());
    let saver = std::thread::spawn(move || {
        let mut saved = 0;
        while !flag.load(Ordering::Relaxed) {
            let read = || fs::read_to_string(own.join("f")).unwrap();
            let number = |text: &str| text.trim().split_once(' ').unwrap().1.parse::<u64>().unwrap();
            let text = read();
            saved += 1;
            fs::write(own.join("save"), format!("{} {saved}\n", text.split(' ').next().unwrap())).unwrap();
            fs::rename(own.join("save"), own.join("f")).unwrap();
            // An edit based on an older save may be visible until it is reverted, which may take as long as its thread
            // waits for a processor.
            let deadline = Instant::now() + crate::shell::LIMIT;
            while number(&read()) != saved {
                assert!(Instant::now() < deadline, "save {saved} was replaced by an edit of an older one");
            }
        }
    });
    let files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    for _ in 0..2000 {
        let read = files.backend.read(&files.state, &p("/f"), deepagents_fs::ByteRange::ALL).await.unwrap();
        let text = String::from_utf8(read.bytes.to_vec()).unwrap();
        let (left, right) = text.trim().split_once(' ').unwrap();
        let text = format!("{} {right}\n", left.parse::<u64>().unwrap() + 1);
        let mode = deepagents_fs::WriteMode::IfVersion(read.stat.version);
        match files.backend.write(&files.state, &p("/f"), text.into(), mode).await {
            Ok(_) | Err(FsError::Changed(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    saver.join().unwrap();
}

#[tokio::test]
async fn nobody_else_can_read_a_private_file_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "old").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, own) = (stop.clone(), dir.path().to_owned());
    let watcher = std::thread::spawn(move || {
        let mut open = Vec::new();
        while !flag.load(Ordering::Relaxed) {
            for entry in fs::read_dir(&own).unwrap().flatten() {
                let Ok(found) = entry.metadata() else { continue };
                if found.permissions().mode() & 0o077 != 0 {
                    open.push((entry.file_name(), found.permissions().mode()));
                }
            }
        }
        open
    });
    let mut files = Files::new(Arc::new(LocalBackend::open(dir.path()).unwrap()));
    for _ in 0..100 {
        files.write("/secret", vec![b'x'; 1 << 20]).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(watcher.join().unwrap(), []);
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_process_killed_during_a_write_leaves_no_partial_file() {
    const ROLE: &str = "a_process_that_is_killed_while_it_writes";
    const SIZE: usize = 4 << 20;
    if let Some(directory) = std::env::var_os(ROLE) {
        let mut files = Files::new(Arc::new(LocalBackend::open(directory).unwrap()));
        loop {
            files.write("/f", vec![b'x'; SIZE]).await.unwrap();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "processes::a_process_killed_during_a_write_leaves_no_partial_file";
    for round in 0..20 {
        let mut child = again(name, ROLE, dir.path());
        crate::shell::appears(&dir.path().join("f")).await;
        // In the middle of one of the next writes.
        assert!((0..300 * round).all(|_| dir.path().join("f").exists()));
        child.kill().unwrap();
        child.wait().unwrap();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().len(), SIZE as u64, "{:?}", entry.file_name());
        }
        fs::remove_file(dir.path().join("f")).unwrap();
    }
}

#[tokio::test]
async fn processes_of_an_unsandboxed_command_end_when_the_program_is_killed() {
    const ROLE: &str = "what_a_command_without_a_sandbox_has_started";
    const START: &str =
        "sleep 1000 & echo $! > pid.new; mv pid.new pid; trap '' HUP INT TERM; while :; do sleep 1000; done";
    if let Some(directory) = std::env::var_os(ROLE) {
        use deepagents_fs::shell::{Command, Confinement, LocalShell, Shell};
        let shell = LocalShell::open(Path::new(&directory), Confinement::Unconfined).unwrap();
        let _ = shell.run(Command::new(START), tokio_util::sync::CancellationToken::new(), None).await;
        return;
    }
    let name = "processes::processes_of_an_unsandboxed_command_end_when_the_program_is_killed";
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let mut child = again(name, ROLE, dir.path());
        crate::shell::appears(&dir.path().join("pid")).await;
        let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
        assert!(crate::shell::lives(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        crate::shell::dies(&pid);
    }
}
