//! Commands that share one process.

use std::sync::Arc;
use std::time::Duration;

use deepagents_fs::VPath;
use deepagents_fs::permissions::{AccessMode, CommandRule, OnAsk, PermissionedBackend, Permissions};
use deepagents_fs::shell::{
    Command, CommandOutput, Confinement, Exit, LocalShell, SessionOptions, Shell, ShellError, WithShell,
};
use deepagents_fs::{Backend, LocalBackend};
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::shell::{appears, dies, ends, lives, times_out};

struct Session {
    dir: TempDir,
    shell: Arc<dyn Shell>,
}

impl Session {
    fn new() -> Self {
        Self::starting_with([])
    }

    fn starting_with<const N: usize>(startup: [&str; N]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let shell = LocalShell::open(dir.path(), Confinement::Unconfined).unwrap();
        Self { shell: shell.session(&options(&startup)).unwrap(), dir }
    }

    async fn try_run(&self, command: Command) -> Result<CommandOutput, ShellError> {
        ends(self.shell.run(command, CancellationToken::new(), None)).await
    }

    async fn run(&self, text: &str) -> CommandOutput {
        self.try_run(Command::new(text)).await.unwrap()
    }

    async fn told(&self, text: &str) -> (String, Exit) {
        let done = self.run(text).await;
        (done.output, done.exit)
    }
}

fn options(startup: &[&str]) -> SessionOptions {
    SessionOptions { startup: startup.iter().map(|text| (*text).to_owned()).collect() }
}

fn printed(text: &str) -> (String, Exit) {
    (text.to_owned(), Exit::Code(0))
}

#[tokio::test]
async fn directory_variables_and_functions_persist_in_a_session() {
    let session = Session::new();
    std::fs::create_dir(session.dir.path().join("below")).unwrap();
    let first = session.run("cd below; one=1; export TWO=2; three() { echo three; }").await;
    assert!(first.session.began && !first.session.ended);
    let second = session.run("basename \"$PWD\"; echo $one; sh -c 'echo $TWO'; three").await;
    assert_eq!((second.output.as_str(), second.exit), ("below\n1\n2\nthree\n", Exit::Code(0)));
    assert!(!second.session.began && !second.session.ended);
}

#[tokio::test]
async fn a_command_ends_whatever_it_prints_or_reads_and_however_it_fails() {
    let session = Session::new();
    for (text, output, code) in [
        ("printf foo", "foo", 0),
        ("cat", "", 0),
        ("read -r line; echo $?", "1\n", 0),
        ("(exit 7)", "", 7),
        ("cat <<END\n  a\\b\nEND\nfalse", "  a\\b\n", 1),
        ("# nothing", "", 0),
        ("printf '\\036%s' 1:0", "\u{1e}1:0", 0),
        ("echo a; exec 1>&1", "a\n", 0),
    ] {
        let done = session.run(text).await;
        assert_eq!((done.output.as_str(), done.exit), (output, Exit::Code(code)), "{text}");
        assert!(!done.session.ended, "{text}");
    }
    for text in ["echo 'unclosed", "if", "cat <<END\nno end", ")"] {
        let done = session.run(text).await;
        assert!(!done.session.ended, "{text}: {done:?}");
    }
    session.run("exec >/dev/null").await;
    assert_eq!(session.told("echo unseen").await, printed(""));
}

#[tokio::test]
async fn a_command_that_ends_the_shell_says_so_and_the_next_starts_a_new_one() {
    let session = Session::new();
    session.run("kept=1").await;
    let done = session.run("echo last; exit 3").await;
    assert_eq!((done.output.as_str(), done.exit, done.session.ended), ("last\n", Exit::Code(3), true));
    let next = session.run("echo [$kept]").await;
    assert_eq!(next.output, "[]\n");
    assert!(next.session.began && !next.session.ended);
    let killed = session.run("kill -KILL $$").await;
    assert_eq!((killed.exit, killed.session.ended), (Exit::Signal(9), true));
    assert!(session.run("set -eu; true").await.exit.success());
    let failed = session.run("false; echo not here").await;
    assert_eq!((failed.output.as_str(), failed.exit, failed.session.ended), ("", Exit::Code(1), true));
}

#[tokio::test]
async fn a_timeout_ends_the_session_and_keeps_the_output() {
    let session = Session::new();
    let text = "sleep 1000 & echo $!; echo $$; echo printed; sleep 1000";
    let done = times_out(&*session.shell, text, "printed\n").await;
    assert!(done.session.ended, "{done:?}");
    done.output.lines().take(2).for_each(dies);
    assert!(session.run("true").await.session.began);
}

#[tokio::test]
async fn a_shell_that_stops_itself_times_out_too() {
    let session = Session::new();
    let command = Command::new("kill -STOP $$").timeout(Duration::from_millis(300));
    let done = session.try_run(command).await.unwrap();
    assert!(done.session.ended && matches!(done.exit, Exit::TimedOut { .. }), "{done:?}");
}

#[tokio::test]
async fn an_abandoned_command_ends_its_session() {
    let session = Session::new();
    let stop = CancellationToken::new();
    let wait = "echo $$ > pid.new; mv pid.new pid; sleep 1000";
    let path = session.dir.path().join("pid");
    let run = session.shell.run(Command::new(wait), stop.clone(), None);
    let cancel = async {
        appears(&path).await;
        stop.cancel();
    };
    let (done, ()) = ends(futures_util::future::join(run, cancel)).await;
    let done = done.unwrap();
    assert_eq!((done.exit, done.session.ended), (Exit::Cancelled, true));
    dies(&std::fs::read_to_string(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    // The future of this command is dropped.
    tokio::select! {
        _ = session.shell.run(Command::new(wait), CancellationToken::new(), None) => unreachable!(),
        () = appears(&path) => {}
    }
    let pid = std::fs::read_to_string(&path).unwrap();
    assert!(session.run("true").await.session.began);
    dies(&pid);
}

#[tokio::test]
async fn dropping_a_session_ends_the_processes_it_left_running() {
    let session = Session::new();
    let pids = session.run("sleep 1000 & echo $!; echo $$").await.output;
    assert!(pids.lines().all(lives), "{pids}");
    drop(session);
    pids.lines().for_each(dies);
}

#[tokio::test]
async fn background_output_is_returned_with_the_next_command() {
    let session = Session::new();
    session.run("{ while [ ! -e go ]; do sleep 0.01; done; echo late; : > gone; } &").await;
    std::fs::write(session.dir.path().join("go"), "").unwrap();
    appears(&session.dir.path().join("gone")).await;
    let done = session.run("wait; echo now").await;
    assert_eq!(format!("{}{}", done.session.earlier_output, done.output), "late\nnow\n");
}

#[tokio::test]
async fn output_is_streamed_as_it_arrives_and_limited_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let shell = LocalShell::open(dir.path(), Confinement::Unconfined).unwrap().output_limit(1_000);
    let session = shell.session(&SessionOptions::default()).unwrap();
    let (tell, mut told) = mpsc::channel(16);
    let text = "echo first; while [ ! -e go ]; do sleep 0.01; done; yes | head -c 1000000";
    let run = session.run(Command::new(text), CancellationToken::new(), Some(tell));
    let watch = async {
        assert_eq!(told.recv().await.as_deref(), Some("first\n"));
        std::fs::write(dir.path().join("go"), "").unwrap();
        while told.recv().await.is_some() {}
    };
    let (done, ()) = ends(futures_util::future::join(run, watch)).await;
    let done = done.unwrap();
    assert!(done.output.len() < 1_200 && done.output.starts_with("first\n"));
    assert_eq!(done.dropped, 1_000_006 - 1_000);
}

#[tokio::test]
async fn concurrent_commands_of_a_session_run_one_after_another() {
    let session = Session::new();
    session.run("n=0").await;
    let more = (0..20).map(|_| session.run("n=$((n + 1)); echo $n"));
    let done = ends(futures_util::future::join_all(more)).await;
    let mut counted: Vec<u32> = done.iter().map(|done| done.output.trim().parse().unwrap()).collect();
    counted.sort_unstable();
    assert_eq!(counted, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn each_session_runs_its_startup_and_fails_if_the_startup_fails() {
    let session = Session::starting_with(["echo begun; one=1", "two=$((one + 1))"]);
    assert_eq!(session.told("echo $one $two").await, printed("1 2\n"));
    session.run("one=9; exit").await;
    assert_eq!(session.told("echo $one $two").await, printed("1 2\n"));
    for (startup, exit) in [("echo no; false", Exit::Code(1)), ("echo no; exit 4", Exit::Code(4))] {
        let failed = Session::starting_with([startup]).try_run(Command::new("echo here > made")).await.unwrap_err();
        let expected = ShellError::Startup { command: startup.to_owned(), exit, output: "no\n".to_owned() };
        assert_eq!(failed, expected);
    }
}

#[tokio::test]
async fn per_command_directories_and_variables_are_refused_in_a_session() {
    let session = Session::new();
    let moved = Command::new("true").cwd(VPath::parse("/below").unwrap());
    assert_eq!(session.try_run(moved).await, Err(ShellError::InSession));
    assert_eq!(session.try_run(Command::new("true").env("A", "b")).await, Err(ShellError::InSession));
    assert_eq!(session.try_run(Command::new(" ")).await, Err(ShellError::Empty));
}

#[tokio::test]
async fn command_rules_rule_out_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let shell = LocalShell::open(dir.path(), Confinement::Unconfined).unwrap();
    let inner = WithShell::new(LocalBackend::open(dir.path()).unwrap(), shell);
    let denied = CommandRule::new(AccessMode::Deny, ["rm *"]);
    let rules = Permissions::default().with_commands([denied], AccessMode::Allow).unwrap();
    let bound = PermissionedBackend::new(Arc::new(inner), rules, OnAsk::Allow);
    assert!(bound.shell().unwrap().session(&SessionOptions::default()).is_none());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_sandboxed_session_is_confined_like_a_command_and_ends_with_its_processes() {
    use deepagents_fs::sandbox::{Level, SandboxPolicy};

    use crate::sandbox::Jail;

    let Some(jail) = Jail::new(SandboxPolicy::default()) else { return };
    let shell = jail.shell.session(&options(&["started=1"])).unwrap();
    let session = Session { dir: jail.dir, shell };
    let first = session.run("mkdir below; cd below; echo $started; echo home > $HOME/file; sleep 1000 &").await;
    assert_eq!((first.output.as_str(), first.exit), ("1\n", Exit::Code(0)));
    assert!(first.level > Level::None);
    assert_eq!(
        session.told("basename \"$PWD\"; cat; cat $HOME/file; ls /proc/self/fd").await,
        printed("below\nhome\n0\n1\n2\n3\n")
    );
    let outside = session.dir.path().with_extension("outside");
    session.run(&format!("echo no > {}", outside.display())).await;
    assert!(!outside.exists(), "its /tmp is its own");
    let done = session.run("echo out; echo err >&2; exit 5").await;
    assert_eq!((done.output.as_str(), done.exit, done.session.ended), ("out\nerr\n", Exit::Code(5), true));
    assert_eq!(session.told("cat $HOME/file 2>/dev/null || echo gone").await, printed("gone\n"));
    let late = times_out(&*session.shell, "echo printed; sleep 1000", "printed\n").await;
    assert_eq!((late.output.as_str(), late.session.ended), ("printed\n", true));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_repository_created_in_a_session_is_protected_before_the_next_command() {
    use deepagents_fs::sandbox::SandboxPolicy;

    use crate::sandbox::Jail;

    let Some(jail) = Jail::new(SandboxPolicy::default()) else { return };
    let shell = jail.shell.session(&options(&[])).unwrap();
    let session = Session { dir: jail.dir, shell };
    let kept = session.run("a=1; mkdir -p below/.git/hooks; echo own > below/.git/config").await;
    assert_eq!((kept.exit, kept.session.ended), (Exit::Code(0), true));
    assert_eq!(kept.session.ended_for, ["/below/.git"]);
    let next = session.run("echo [$a]; echo evil > below/.git/config; echo evil > below/.git/hooks/pre-commit").await;
    assert!(next.output.starts_with("[]\n") && next.session.began && !next.session.ended, "{next:?}");
    let config = session.dir.path().join("below/.git/config");
    assert_eq!(std::fs::read_to_string(config).unwrap(), "own\n");
    assert!(!session.dir.path().join("below/.git/hooks/pre-commit").exists());
    let last = session.run("b=2; mkdir other").await;
    assert!(!last.session.began && !last.session.ended, "{last:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_session_that_ended_between_commands_is_reported_with_the_next_one() {
    use deepagents_fs::sandbox::SandboxPolicy;

    use crate::sandbox::Jail;

    let Some(jail) = Jail::new(SandboxPolicy::default()) else { return };
    let shell = jail.shell.session(&options(&[])).unwrap();
    let session = Session { dir: jail.dir, shell };
    let late = "while [ ! -e go ]; do sleep 0.01; done; echo late; echo x > AGENTS.md; kill -9 $$";
    assert!(session.run(&format!("({late}) &")).await.moved.is_empty());
    std::fs::write(session.dir.path().join("go"), "").unwrap();
    appears(&session.dir.path().join("AGENTS.md.from-command")).await;
    let next = session.run("true").await;
    assert_eq!(next.moved.iter().map(|moved| moved.from.as_str()).collect::<Vec<_>>(), ["AGENTS.md"]);
    assert_eq!(next.session.earlier_output, "late\n");
    assert!(session.run("true").await.moved.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_text_reaches_the_shell_unchanged(text in "[^\0\r]{0,200}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let session = Session::new();
            let quoted = text.replace('\'', "'\\''");
            let done = session.run(&format!("printf %s '{quoted}'")).await;
            prop_assert_eq!((done.output, done.exit), (text, Exit::Code(0)));
            Ok(())
        })?;
    }
}
