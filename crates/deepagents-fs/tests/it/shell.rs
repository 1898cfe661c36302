use std::path::Path;
use std::time::{Duration, Instant};

use deepagents_fs::sandbox::Level;
use deepagents_fs::shell::{Command, CommandOutput, Confinement, Exit, LocalShell, Shell, ShellError, WithShell};
use deepagents_fs::{Backend, LocalBackend, VPath};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

fn workspace() -> (TempDir, LocalShell) {
    let dir = tempfile::tempdir().unwrap();
    let shell = LocalShell::open(dir.path(), Confinement::Unconfined).unwrap();
    (dir, shell)
}

async fn run(shell: &LocalShell, text: &str) -> CommandOutput {
    shell.run(Command::new(text), CancellationToken::new(), None).await.unwrap()
}

/// How long a test waits for what must happen. Only a failing one waits that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Fails if a future does not complete in time.
pub(crate) async fn ends<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it does not end")
}

/// Runs a command that does not end by itself with longer and longer time limits, until it has printed a text before
/// it was killed.
pub(crate) async fn times_out(shell: &dyn Shell, text: &str, printed: &str) -> CommandOutput {
    for limit in [300, 3_000, 30_000].map(Duration::from_millis) {
        let command = Command::new(text).timeout(limit);
        let done = ends(shell.run(command, CancellationToken::new(), None)).await.unwrap();
        assert_eq!(done.exit, Exit::TimedOut { after: limit });
        if done.output.ends_with(printed) {
            return done;
        }
    }
    panic!("it has not printed {printed:?}");
}

/// Waits until a file exists, which a command creates to report its progress.
pub(crate) async fn appears(path: &Path) {
    let deadline = Instant::now() + LIMIT;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} did not appear", path.display());
        tokio::task::yield_now().await;
    }
}

/// Whether a process is alive, zombies excluded.
pub(crate) fn lives(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) else { return false };
    !matches!(stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()), Some('Z' | 'X'))
}

pub(crate) fn dies(pid: &str) {
    let deadline = Instant::now() + LIMIT;
    while lives(pid) {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn exit_codes_and_signals_are_reported() {
    let (_dir, shell) = workspace();
    assert_eq!(run(&shell, "exit 7").await.exit, Exit::Code(7));
    let killed = run(&shell, "kill -TERM $$").await.exit;
    assert_eq!((killed, killed.signal_name()), (Exit::Signal(15), Some("SIGTERM")));
    let done = run(&shell, "true").await;
    assert!(done.exit.success());
    assert_eq!(done.level, Level::None);
}

#[tokio::test]
async fn both_streams_arrive_in_the_order_written() {
    let (_dir, shell) = workspace();
    let text = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
    assert_eq!(run(&shell, text).await.output, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
}

#[tokio::test]
async fn non_text_bytes_are_replaced_not_lost() {
    let (_dir, shell) = workspace();
    assert_eq!(run(&shell, r"printf 'a\377b\000c'").await.output, "a\u{FFFD}b\0c");
}

#[tokio::test]
async fn stdin_is_empty_and_the_requested_directory_is_used() {
    let (dir, shell) = workspace();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let command = Command::new("cat; pwd -P").cwd(VPath::parse("/sub").unwrap());
    let done = shell.run(command, CancellationToken::new(), None).await.unwrap();
    assert_eq!(done.output.trim(), dir.path().canonicalize().unwrap().join("sub").to_str().unwrap());
}

#[tokio::test]
async fn a_directory_that_is_missing_or_outside_is_refused() {
    let (dir, shell) = workspace();
    std::os::unix::fs::symlink("/", dir.path().join("out")).unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for cwd in ["/none", "/out", "/file"] {
        let command = Command::new("true").cwd(VPath::parse(cwd).unwrap());
        let error = shell.run(command, CancellationToken::new(), None).await.unwrap_err();
        assert!(matches!(error, ShellError::Directory { .. }), "{cwd}: {error}");
    }
}

#[tokio::test]
async fn empty_or_invalid_commands_are_refused() {
    let (_dir, shell) = workspace();
    let refusal = async |command| shell.run(command, CancellationToken::new(), None).await.unwrap_err();
    assert_eq!(refusal(Command::new(" \n")).await, ShellError::Empty);
    assert_eq!(refusal(Command::new("true").timeout(Duration::ZERO)).await, ShellError::NoTime);
    assert!(matches!(refusal(Command::new("echo \0")).await, ShellError::Invalid { .. }));
    assert!(matches!(refusal(Command::new("true").env("A=B", "")).await, ShellError::Invalid { .. }));
    assert!(matches!(refusal(Command::new("x".repeat(200_000))).await, ShellError::TooLong { .. }));
    let missing = shell.clone().program("/no/such/shell");
    let error = missing.run(Command::new("true"), CancellationToken::new(), None).await.unwrap_err();
    assert!(matches!(error, ShellError::Start(_)));
}

#[tokio::test]
async fn only_allowed_environment_variables_are_passed_on() {
    // This test runs itself with two variables, of which only one may be passed on.
    const ROLE: &str = "only_allowed_environment_variables_are_passed_on";
    if std::env::var_os(ROLE).is_none() {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args(["shell::only_allowed_environment_variables_are_passed_on", "--exact"]).env(ROLE, "1");
        let told = program.env("WANTED", "w").env("SECRET", "s").output().unwrap();
        assert!(told.status.success(), "{told:?}");
        assert!(String::from_utf8_lossy(&told.stdout).contains("1 passed"), "{told:?}");
        return;
    }
    assert!(std::env::var_os("SECRET").is_some());
    let (dir, shell) = workspace();
    let shell = shell.env("GIVEN", "1").inherit(["WANTED", "NOT_SET_ANYWHERE"]);
    let command = Command::new("env").env("MORE", "2").env("TERM", "other").env("go", "on");
    let done = shell.run(command, CancellationToken::new(), None).await.unwrap();
    let mut names: Vec<&str> = done.output.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["GIVEN", "HOME", "LANG", "MORE", "PATH", "TERM", "WANTED", "go"]);
    assert!(done.output.contains("TERM=other\n") && done.output.contains("go=on\n"));
    assert!(done.output.contains(&format!("HOME={}\n", dir.path().canonicalize().unwrap().display())));
}

#[test]
fn variable_values_do_not_appear_in_debug_output() {
    let command = Command::new("true").env("TOKEN", "hunter2");
    assert!(!format!("{command:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_timeout_kills_the_process_group_and_keeps_the_output() {
    let (dir, shell) = workspace();
    let text = "sleep 1000 & echo $! > child; echo before; sleep 1000";
    let done = times_out(&shell, text, "before\n").await;
    assert_eq!(done.output, "before\n");
    dies(&std::fs::read_to_string(dir.path().join("child")).unwrap());
}

#[tokio::test]
async fn cancelling_kills_the_process_group_and_keeps_the_output() {
    let (dir, shell) = workspace();
    let cancel = CancellationToken::new();
    let run = shell.run(Command::new("echo before; echo $$ > pid; touch ready; sleep 1000"), cancel.clone(), None);
    let ready = dir.path().join("ready");
    let (done, ()) = tokio::join!(run, async {
        appears(&ready).await;
        cancel.cancel();
    });
    let done = done.unwrap();
    assert_eq!((done.exit, done.output.as_str()), (Exit::Cancelled, "before\n"));
    dies(&std::fs::read_to_string(dir.path().join("pid")).unwrap());
    let done = shell.run(Command::new("touch never"), cancel, None).await.unwrap();
    assert_eq!(done.exit, Exit::Cancelled);
    assert!(!dir.path().join("never").exists());
}

#[tokio::test]
async fn dropping_the_future_kills_the_command() {
    let (dir, shell) = workspace();
    let ready = dir.path().join("ready");
    let run = shell.run(Command::new("echo $$ > pid; touch ready; sleep 1000"), CancellationToken::new(), None);
    tokio::select! {
        _ = run => panic!("it does not end by itself"),
        () = appears(&ready) => {}
    }
    dies(&std::fs::read_to_string(dir.path().join("pid")).unwrap());
}

#[tokio::test]
async fn a_background_process_neither_delays_the_end_nor_outlives_it() {
    let (_dir, shell) = workspace();
    let done = ends(run(&shell, "sleep 1000 & echo $!")).await;
    assert_eq!(done.exit, Exit::Code(0));
    dies(&done.output);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_has_a_session_of_its_own_and_thus_no_terminal() {
    let (_dir, shell) = workspace();
    let done = run(&shell, "echo $$; cut -d' ' -f5,6,7 /proc/$$/stat").await;
    let words: Vec<&str> = done.output.split_whitespace().collect();
    assert_eq!(words, [words[0], words[0], words[0], "0"], "group, session and terminal: {done:?}");
    let asks =
        run(&shell, "(read -r password </dev/tty) 2>&1; echo $?; exec 2>/dev/null; printf x >/dev/tty || echo none")
            .await;
    assert!(asks.output.contains("none"), "{asks:?}");
}

#[tokio::test]
async fn excessive_output_is_limited_and_both_ends_are_kept() {
    let (_dir, shell) = workspace();
    let shell = shell.output_limit(10_000);
    let done = run(&shell, "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last").await;
    assert!(done.output.len() < 10_100);
    assert!(done.output.starts_with("first\nxxx") && done.output.ends_with("xxx\nlast\n"));
    assert!(done.truncated());
    assert_eq!(done.dropped, 6 + 50_000_000 + 6 - 10_000);
    assert!(done.output.contains(&format!("\n[... {} bytes of output left out ...]\n", done.dropped)));
}

#[tokio::test]
async fn progress_is_sent_while_the_command_runs() {
    let (dir, shell) = workspace();
    let (sender, mut pieces) = mpsc::channel(16);
    let command = Command::new("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two");
    let run = shell.run(command, CancellationToken::new(), Some(sender));
    let (done, ()) = tokio::join!(run, async {
        assert_eq!(pieces.recv().await.unwrap(), "one\n");
        std::fs::write(dir.path().join("go"), "").unwrap();
        assert_eq!(pieces.recv().await.unwrap(), "two\n");
        assert_eq!(pieces.recv().await, None);
    });
    assert_eq!(done.unwrap().output, "one\ntwo\n");
}

#[tokio::test]
async fn a_stalled_reader_does_not_block_the_command() {
    let (_dir, shell) = workspace();
    let (sender, _pieces) = mpsc::channel(1);
    let command = Command::new("head -c 5000000 /dev/zero");
    let done = shell.run(command, CancellationToken::new(), Some(sender)).await.unwrap();
    assert!(done.exit.success());
    assert_eq!(done.dropped, 5_000_000 - (1 << 20));
}

#[tokio::test]
async fn many_commands_run_at_once_on_one_thread() {
    let (dir, shell) = workspace();
    // Each command waits until all have started.
    let text = "touch $N; while [ $(ls | wc -l) -lt 8 ]; do sleep 0.01; done";
    let runs = (0..8).map(|n| shell.run(Command::new(text).env("N", n.to_string()), CancellationToken::new(), None));
    let done = futures_util::future::join_all(runs).await;
    assert!(done.into_iter().all(|done| done.unwrap().exit.success()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 8);
}

#[test]
fn adding_a_shell_leaves_a_backends_capabilities_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let files = LocalBackend::open(dir.path()).unwrap();
    assert!(files.shell().is_none());
    let capabilities = files.capabilities();
    let both = WithShell::new(files, LocalShell::open(dir.path(), Confinement::Unconfined).unwrap());
    assert!(both.shell().is_some());
    assert_eq!(both.capabilities(), capabilities);
}
