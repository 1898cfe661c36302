//! Attempts to escape. Each of them succeeds for an unconfined command, or would if the user had the rights.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use deepagents_fs::sandbox::{Level, Limits, Network, Sandbox, SandboxPolicy};
use deepagents_fs::shell::{Command, CommandOutput, Confinement, Exit, LocalShell, Shell, ShellError};
use deepagents_testing::skip::{self, skip};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::executables;
use crate::shell::{appears, dies, ends, times_out};

/// Path of the helper program. Another copy is used if the test user cannot read the build directory.
pub(crate) fn helper() -> String {
    std::env::var("DEEPAGENTS_TEST_HELPER").unwrap_or_else(|_| env!("CARGO_BIN_EXE_deepagents-sandbox").to_owned())
}

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::helper(helper())
}

pub(crate) struct Jail {
    pub(crate) dir: TempDir,
    pub(crate) shell: LocalShell,
}

impl Jail {
    pub(crate) fn new(policy: SandboxPolicy) -> Option<Self> {
        Self::in_dir(tempfile::tempdir().unwrap(), policy)
    }

    /// Returns `None`, with a message, if the kernel refuses.
    fn in_dir(dir: TempDir, policy: SandboxPolicy) -> Option<Self> {
        let sandbox = sandbox();
        let report = sandbox.probe();
        if report.level == Level::None {
            skip("sandbox", report);
            return None;
        }
        let shell = LocalShell::open(dir.path(), Confinement::Sandboxed(policy)).unwrap().sandbox(sandbox);
        Some(Self { dir, shell })
    }

    pub(crate) async fn run(&self, text: &str) -> CommandOutput {
        self.shell.run(Command::new(text), CancellationToken::new(), None).await.unwrap()
    }

    pub(crate) async fn try_run(&self, text: &str) -> Result<CommandOutput, ShellError> {
        self.shell.run(Command::new(text), CancellationToken::new(), None).await
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

/// Creates a jail, or ends the test if that is impossible.
macro_rules! jail {
    () => {
        jail!(SandboxPolicy::default())
    };
    ($policy:expr) => {
        match Jail::new($policy) {
            Some(jail) => jail,
            None => return,
        }
    };
}
pub(crate) use jail;

/// Whether commands would find a program.
pub(crate) fn has(program: &str) -> bool {
    let found = Path::new("/usr/bin").join(program).exists() || Path::new("/bin").join(program).exists();
    if !found {
        skip(program, "commands find none");
    }
    found
}

#[tokio::test]
async fn commands_see_the_workspace_at_its_own_path() {
    let jail = jail!();
    fs::write(jail.path("in"), "data").unwrap();
    let done = jail.run("pwd -P; cat in; echo; mkdir d; cp in d/out; echo x > /tmp/scratch && cat /tmp/scratch").await;
    let here = jail.dir.path().canonicalize().unwrap();
    assert_eq!(done.output, format!("{}\ndata\nx\n", here.display()));
    assert_eq!(done.exit, Exit::Code(0));
    assert!(done.level >= Level::Namespaces);
    assert_eq!(fs::read_to_string(jail.path("d/out")).unwrap(), "data");
    assert!(!Path::new("/tmp/scratch").exists());
}

#[tokio::test]
async fn a_workspace_may_be_anywhere() {
    for place in ["/var/tmp", "/dev/shm", env!("CARGO_TARGET_TMPDIR")] {
        let Ok(dir) = tempfile::tempdir_in(place) else {
            skip("other disks", format_args!("cannot write to {place}"));
            continue;
        };
        let odd = dir.path().join("a b\\c\n'é");
        fs::create_dir(&odd).unwrap();
        let report = sandbox().probe();
        if report.level == Level::None {
            skip("sandbox", report);
        } else {
            match LocalShell::open(&odd, Confinement::sandboxed()) {
                Ok(shell) => {
                    let shell = shell.sandbox(sandbox());
                    let done = shell.run(Command::new("echo x > f"), CancellationToken::new(), None).await.unwrap();
                    assert_eq!((done.exit, done.output.as_str()), (Exit::Code(0), ""));
                    assert_eq!(fs::read_to_string(odd.join("f")).unwrap(), "x\n");
                }
                // A directory of devices is refused as a root.
                Err(error) => assert!(place == "/dev/shm", "{error}"),
            }
        }
    }
}

#[tokio::test]
async fn ordinary_tools_work() {
    let jail = jail!();
    let text = "set -e; echo b > f; echo a >> f; sort f | head -1 > g; ls -l /usr > /dev/null; test -s g; id -u > h; \
                echo $$ > /dev/null; (sleep 0.01 & wait); cat /proc/self/comm; test -w \"$HOME\"";
    let done = jail.run(text).await;
    assert_eq!((done.exit, done.output.as_str()), (Exit::Code(0), "cat\n"));
}

#[tokio::test]
async fn exit_codes_and_signals_pass_through() {
    let jail = jail!();
    assert_eq!(jail.run("exit 9").await.exit, Exit::Code(9));
    assert_eq!(jail.run("kill -KILL $$").await.exit, Exit::Signal(9));
    let done = jail.run("echo out; echo err >&2; printf '\\377'").await;
    assert_eq!(done.output, "out\nerr\n\u{FFFD}");
}

#[tokio::test]
async fn nothing_outside_the_workspace_can_be_written() {
    let jail = jail!();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("planted");
    symlink(outside.path(), jail.path("link")).unwrap();
    for text in [
        format!("echo x > {}", target.display()),
        format!("mkdir -p {}; echo x > {}", outside.path().display(), target.display()),
        "echo x > link/planted".to_owned(),
        "echo x > ../planted".to_owned(),
    ] {
        jail.run(&text).await;
        assert!(!target.exists(), "{text}");
    }
    for place in ["/usr/planted", "/etc/planted", "/planted", "/dev/planted", "/run/planted", "/var/planted"] {
        let done = jail.run(&format!("echo x > {place}")).await;
        assert!(!done.exit.success() && !Path::new(place).exists(), "{place}");
    }
    assert!(!jail.dir.path().parent().unwrap().join("planted").exists());
}

#[tokio::test]
async fn homes_keys_and_other_host_files_cannot_be_read() {
    let jail = jail!();
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".ssh")).unwrap();
    let key = home.path().join(".ssh/id_ed25519");
    fs::write(&key, "SECRET-KEY").unwrap();
    symlink(&key, jail.path("key")).unwrap();
    let home = home.path().display();
    let text = format!(
        "cat {home}/.ssh/id_ed25519 key /proc/1/root{home}/.ssh/id_ed25519 /etc/shadow; ls -A {home} /root /home"
    );
    let done = jail.run(&text).await;
    assert!(!done.output.contains("SECRET-KEY") && !done.output.contains("root:"), "{}", done.output);
    // The sandbox has its own root directory.
    let done = jail.run("ls /").await;
    for name in ["home", "root", "boot", "mnt", "srv", "sys", "old"] {
        assert!(!done.output.lines().any(|line| line == name), "{name} in {}", done.output);
    }
}

#[tokio::test]
async fn the_hosts_loopback_cannot_be_reached() {
    if !has("bash") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!("bash -c 'echo hi > /dev/tcp/127.0.0.1/{port}'");
    let jail = jail!();
    assert!(!jail.run(&text).await.exit.success());
    assert!(listener.accept().is_err());
    // The same command succeeds with network access, so the sandbox had blocked it.
    let open = jail!(SandboxPolicy { network: Network::Host, ..Default::default() });
    let done = open.run(&text).await;
    assert!(done.exit.success(), "{}", done.output);
    assert!(listener.accept().is_ok());
}

#[tokio::test]
async fn the_sandboxs_own_loopback_works() {
    if !has("perl") {
        return;
    }
    let jail = jail!();
    let text = "perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die; \
                my $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $s->sockport) or die; print \"met\\n\"'";
    let done = jail.run(text).await;
    assert_eq!(done.output, "met\n");
}

#[tokio::test]
async fn refused_system_calls_fail() {
    if !has("perl") {
        return;
    }
    let jail = jail!();
    // ptrace(ATTACH) of its own child, mount, unshare(NEWUSER), clone3, bpf, keyctl, io_uring_setup, and raw, packet
    // and virtual-machine sockets. Called by number, so that no program is needed.
    if std::env::consts::ARCH != "x86_64" {
        skip("x86_64", "the numbers of the calls are those of x86_64");
        return;
    }
    let text = r#"cat > try.pl <<'PERL'
sub refused { my ($name, $errno, @call) = @_; my $r = syscall($call[0], @call[1..$#call]);
  print "$name: ", ($r == -1 && $! == $errno ? "refused" : "r=$r errno=".($!+0)), "\n"; }
my $pid = fork(); if (!$pid) { sleep 1000; exit }
my $s = "none\0";
refused("ptrace", 1, 101, 16, $pid, 0, 0);
refused("process_vm_readv", 1, 310, $pid, 0, 0, 0, 0, 0);
refused("mount", 1, 165, $s, $s, $s, 0, 0);
refused("unshare", 1, 272, 0x10000000);
refused("clone newuser", 1, 56, 0x10000000, 0, 0, 0, 0);
refused("clone3", 38, 435, 0, 0);
refused("bpf", 1, 321, 0, 0, 0);
refused("keyctl", 1, 250, 0, 0, 0, 0, 0);
refused("perf_event_open", 1, 298, 0, 0, 0, 0, 0);
refused("io_uring_setup", 1, 425, 1, 0);
refused("raw socket", 1, 41, 2, 3, 1);
refused("packet socket", 1, 41, 17, 3, 0);
refused("vm socket", 1, 41, 40, 1, 0);
refused("sctp socket", 1, 41, 2, 1, 132);
refused("dccp socket", 1, 41, 2, 6, 0);
refused("seqpacket socket", 1, 41, 10, 5, 0);
refused("netfilter socket", 1, 41, 16, 3, 12);
refused("openat2", 38, 437, -100, $s, 0, 0);
refused("x32 numbering", 38, 0x40000000 + 39);
refused("chroot", 1, 161, $s);
kill 9, $pid;
PERL
perl try.pl"#;
    let done = jail.run(text).await;
    assert!(done.output.lines().count() == 20, "{}", done.output);
    assert!(done.output.lines().all(|line| line.ends_with(": refused")), "{}", done.output);
}

#[tokio::test]
async fn setuid_and_setgid_programs_cannot_be_created() {
    let jail = jail!();
    let done = jail
        .run(
            "cp /bin/sh f; chmod u+s f; chmod 4755 f; echo $?; chmod g+s f; chmod 2755 f; echo $?; \
             install -m 4755 /bin/sh g; install -m 2755 /bin/sh h; chmod 1755 .; ls",
        )
        .await;
    assert!(done.output.matches("1\n").count() >= 2 && done.exit.success(), "{}", done.output);
    if has("perl") {
        let text = "use Fcntl; sysopen(F, 'h', O_WRONLY|O_CREAT, 04755) and print \"made\\n\"; \
                    sysopen(F, 'h', O_WRONLY|O_CREAT, 02755) and print \"made for a group\\n\"; \
                    sysopen(F, '.', O_WRONLY|020200000, 06755) and print \"made without a name\\n\"; \
                    sysopen(F, 'i', O_WRONLY|O_CREAT, 0755) and print \"plain\\n\"; \
                    sysopen(F, 'i', O_RDONLY, 04755) and print \"read\\n\"; chmod(04755, 'i') and print \"changed\\n\"";
        assert_eq!(jail.run(&format!("perl -e '{}'", text.replace('\'', "\""))).await.output, "plain\nread\n");
    }
    for entry in fs::read_dir(jail.dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
        assert_eq!(mode & 0o6000, 0, "{:?} {mode:o}", entry.file_name());
    }
}

#[tokio::test]
async fn commands_cannot_impersonate_the_helper() {
    let jail = jail!();
    let forged = r#"{"Exited":{"code":0,"signal":null}}"#;
    let text = format!(
        "for fd in 0 1 2 3 4 5; do echo '{forged}' > /proc/1/fd/$fd; cat /proc/1/fd/$fd; done; ls /proc/1/fd /proc/1/root; exit 9"
    );
    let done = jail.run(&text).await;
    assert_eq!(done.exit, Exit::Code(9));
    assert!(!done.output.contains("Exited"), "{}", done.output);
}

#[tokio::test]
async fn a_crash_leaves_no_core_dump_and_starts_no_crash_handler() {
    let jail = jail!();
    let done = jail.run("sh -c 'kill -SEGV $$'; ls -A; grep core /proc/self/limits").await;
    // With a limit of 1, the kernel does not start the host's crash handler either.
    let limits: Vec<&str> = done.output.lines().last().unwrap().split_whitespace().collect();
    assert!(limits == ["Max", "core", "file", "size", "1", "1", "bytes"] || limits[4] == "0", "{}", done.output);
    assert_eq!(fs::read_dir(jail.dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn nothing_in_proc_can_be_written() {
    let jail = jail!();
    let text = "for f in sys/kernel/hostname sysrq-trigger self/oom_score_adj self/comm mtrr irq/default_smp_affinity; do \
                [ -e /proc/$f ] && (echo 1 > /proc/$f) && echo \"wrote $f\"; done; grep ' /proc ' /proc/self/mounts";
    let done = jail.run(text).await;
    assert!(!done.output.contains("wrote") && done.output.contains(" /proc proc ro,"), "{}", done.output);
}

#[tokio::test]
async fn commands_are_killed_before_the_program_when_memory_runs_out() {
    let jail = jail!();
    assert_eq!(jail.run("cat /proc/self/oom_score_adj").await.output, "1000\n");
}

#[tokio::test]
async fn the_level_reflects_use_of_the_hosts_network() {
    let jail = jail!(SandboxPolicy { network: Network::Host, ..Default::default() });
    assert_eq!(jail.run("true").await.level, Level::Namespaces);
    let strict = jail!(SandboxPolicy { network: Network::Host, required: Some(Level::Full), ..Default::default() });
    let error = strict.try_run("touch ran").await.unwrap_err();
    assert!(error.to_string().contains("network namespace: no"), "{error}");
    assert!(!strict.path("ran").exists());
}

#[tokio::test]
async fn mounting_and_new_namespaces_are_refused() {
    let jail = jail!();
    let done = jail.run("mount -t tmpfs none /tmp; unshare -Ur true; mount -o remount,rw /usr; touch /usr/x").await;
    assert!(!done.exit.success(), "{}", done.output);
    assert_eq!(
        jail.run("grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000").await.output,
        ""
    );
    assert_eq!(jail.run("grep NoNewPrivs /proc/self/status").await.output, "NoNewPrivs:\t1\n");
}

#[tokio::test]
async fn host_processes_can_be_neither_seen_nor_killed() {
    let jail = jail!();
    let mut victim = Victim::new();
    let pid = victim.0.id();
    let done = jail.run(&format!("kill -9 {pid}; kill -9 -1; ls /proc")).await;
    assert!(victim.0.try_wait().unwrap().is_none());
    let seen = jail.run("ls /proc | grep -c '^[0-9]'").await.output.trim().parse::<u32>().unwrap();
    assert!(seen < 10, "{seen} processes: {}", done.output);
    // PID 1 of the sandbox ignores signals from inside.
    assert_eq!(jail.run("kill -9 1; kill -STOP 1; kill -TERM 1; true").await.exit, Exit::Code(0));
    assert_eq!(jail.run("kill -9 0").await.exit, Exit::Signal(9));
}

/// A process of the host, killed at the end of the test.
struct Victim(std::process::Child);

impl Victim {
    fn new() -> Self {
        let null = std::process::Stdio::null;
        Self(std::process::Command::new("sleep").arg("1000").stdout(null()).stderr(null()).spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn kernel_settings_cannot_be_changed() {
    let jail = jail!();
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let done = jail
        .run("echo '|/bin/sh' > /proc/sys/kernel/core_pattern; echo h > /proc/sysrq-trigger; echo 1 > /proc/1/mem")
        .await;
    assert!(!done.exit.success());
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before);
}

#[tokio::test]
async fn no_daemon_outlives_its_command() {
    if !has("setsid") {
        return;
    }
    // Outside process IDs are unknown inside; a unique argument identifies the processes.
    let jail = jail!();
    let marker = marker(86400);
    let text = format!(
        "(setsid sh -c 'setsid sleep {marker} > /dev/null 2>&1 & touch up; sleep {marker}' &) ; while [ ! -e up ]; do :; done; echo done"
    );
    let done = ends(jail.run(&text)).await;
    assert_eq!((done.exit, done.output.as_str()), (Exit::Code(0), "done\n"));
    assert_eq!(running_with(&marker), Vec::<String>::new());
}

/// A number of seconds that only processes of one test in this process sleep.
pub(crate) fn marker(test: u32) -> String {
    format!("{test}.{:010}", std::process::id())
}

/// Processes of the host with this text in their arguments.
pub(crate) fn running_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let args = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&args).contains(text) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

#[tokio::test]
async fn a_sandbox_timeout_kills_all_processes_and_keeps_the_output() {
    let jail = jail!();
    let marker = marker(86401);
    let text = format!("echo before; (setsid sleep {marker} &); sleep {marker}");
    let done = times_out(&jail.shell, &text, "before\n").await;
    assert_eq!(done.output, "before\n");
    assert_eq!(running_with(&marker), Vec::<String>::new());
}

#[tokio::test]
async fn cancelling_or_dropping_kills_all_processes() {
    let jail = jail!();
    let marker = marker(86402);
    let text = format!("echo before; touch up; (setsid sleep {marker} &); sleep {marker}");
    let cancel = CancellationToken::new();
    let up = jail.path("up");
    let (done, ()) = tokio::join!(jail.shell.run(Command::new(text.clone()), cancel.clone(), None), async {
        appears(&up).await;
        cancel.cancel();
    });
    let done = done.unwrap();
    assert_eq!((done.exit, done.output.as_str()), (Exit::Cancelled, "before\n"));
    assert_eq!(running_with(&marker), Vec::<String>::new());

    fs::remove_file(&up).unwrap();
    tokio::select! {
        _ = jail.run(&text) => panic!("it does not end by itself"),
        () = appears(&up) => {}
    }
    running_with(&marker).iter().for_each(|pid| dies(pid));
}

#[tokio::test]
async fn killing_the_program_kills_its_commands() {
    // This test runs itself as the program to be killed.
    const ROLE: &str = "a_program_that_is_killed";
    if let Ok(dir) = std::env::var(ROLE) {
        let shell = LocalShell::open(dir, Confinement::sandboxed()).unwrap().sandbox(sandbox());
        let marker = format!("86403.{:010}", std::os::unix::process::parent_id());
        let _ = shell.run(Command::new(format!("touch up; sleep {marker}")), CancellationToken::new(), None).await;
        return;
    }
    let jail = jail!();
    let name = "sandbox::killing_the_program_kills_its_commands";
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args([name, "--exact"]).env(ROLE, jail.dir.path()).stdout(std::process::Stdio::null());
    let mut program = program.spawn().unwrap();
    appears(&jail.path("up")).await;
    program.kill().unwrap();
    program.wait().unwrap();
    running_with(&marker(86403)).iter().for_each(|pid| dies(pid));
}

#[tokio::test]
async fn a_fork_bomb_hits_the_process_limit() {
    let limits = Limits { processes: 320, ..Limits::default() };
    let jail = jail!(SandboxPolicy { limits, ..Default::default() });
    let report = sandbox().probe();
    if !report.parts.iter().any(|part| part.name == "process limit" && part.available) {
        skip("process limit", report);
        return;
    }
    let text = "i=0; while [ $i -lt 1000 ]; do sleep 100 & i=$((i+1)); done; echo all started";
    let done = jail.run(text).await;
    assert!(!done.output.contains("all started"), "{}", done.output);
    let command = Command::new("b() { b | b & }; b; sleep 100").timeout(Duration::from_secs(2));
    let done = jail.shell.run(command, CancellationToken::new(), None).await.unwrap();
    assert!(matches!(done.exit, Exit::TimedOut { .. } | Exit::Code(_)), "{:?}", done.exit);
    // The host still works.
    assert!(jail.run("true").await.exit.success());
}

#[tokio::test]
async fn files_and_memory_are_bounded() {
    let limits = Limits { file_size: 1 << 20, scratch: 1 << 20, address_space: Some(256 << 20), ..Limits::default() };
    let jail = jail!(SandboxPolicy { limits, ..Default::default() });
    let done = jail.run("yes | head -c 100000000 > big; test $(stat -c %s big) -ge 100000000").await;
    assert!(!done.exit.success());
    assert_eq!(fs::metadata(jail.path("big")).unwrap().len(), 1 << 20);
    let done = jail.run("for i in 1 2 3 4; do yes | head -c 500000 > /tmp/$i || exit 1; done").await;
    assert_eq!(done.exit, Exit::Code(1), "{}", done.output);
    assert!(!jail.run("yes | tr -d '\\n' | head -c 1G | tail -n 1 > /dev/null").await.exit.success() || !has("tail"));
}

#[tokio::test]
async fn a_command_that_fills_the_disk_is_killed_while_space_remains() {
    // This test runs itself with its own small disk.
    const ROLE: &str = "a_command_that_fills_the_disk";
    let name = "sandbox::a_command_that_fills_the_disk_is_killed_while_space_remains";
    let Some(place) = std::env::var_os(ROLE) else {
        if !has("unshare") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let text = "mount -t tmpfs -o size=64m,nr_inodes=2000 none \"$1\" || exit 9; shift; exec \"$@\"";
        let mut program = std::process::Command::new("unshare");
        program.args(["-Urm", "sh", "-c", text, "sh"]).arg(dir.path()).arg(std::env::current_exe().unwrap());
        let told = program.args([name, "--exact", "--nocapture"]).env(ROLE, dir.path()).output().unwrap();
        skip::pass_on(&told);
        match String::from_utf8_lossy(&told.stdout).contains("running 1 test") {
            true => assert!(told.status.success(), "{told:?}"),
            false => skip("mounts", format_args!("no disk can be made here: {told:?}")),
        }
        return;
    };
    let place = Path::new(&place);
    let Some(jail) = Jail::in_dir(tempfile::tempdir_in(place).unwrap(), SandboxPolicy::default()) else { return };
    let fill = "echo before; for i in 1 2 3 4; do yes | head -c 10M > $i; done; sleep 1000";
    let many = "rm -f *; echo before; for i in $(seq 1500); do : > $i; done; sleep 1000";
    for text in [fill, many] {
        let done = jail.run(text).await;
        // If this process is not scheduled in time, the command itself reports a full disk.
        assert!(done.exit == Exit::OutOfSpace && done.output.starts_with("before\n"), "{text}: {done:?}");
        assert!(rustix::fs::statvfs(place).unwrap().f_bavail > 0);
        jail.run("rm -f *").await;
    }
    // Many fast writers: the reserve must not depend on who is faster.
    let free = || rustix::fs::statvfs(place).map(|told| told.f_bavail * told.f_frsize).unwrap();
    for round in 0..5 {
        let before = free();
        let burst = "for i in 1 2 3 4 5 6 7 8; do yes | head -c 60M > $i & done; wait; sleep 1000";
        assert_eq!(jail.run(burst).await.exit, Exit::OutOfSpace, "{round}");
        let left = free();
        assert!(left >= before / 2 - (64 << 10), "{round}: {left} of {before} bytes are left");
        jail.run("rm -f *").await;
    }
    // The same for the number of files; this disk allows 2,000.
    let possible = || rustix::fs::statvfs(place).map(|told| told.f_favail).unwrap();
    for round in 0..5 {
        let burst = "for j in 1 2 3 4; do (i=0; while : > $j.$i; do i=$((i+1)); done) & done; wait; sleep 1000";
        assert_eq!(jail.run(burst).await.exit, Exit::OutOfSpace, "{round}");
        let left = possible();
        assert!(left >= 100, "{round}: {left} files are possible");
        let done = jail.run("rm -f *.1* *.2* *.3* *.4* *.5*; rm -f *").await;
        assert!(done.exit.success(), "{round}: {left} files were possible: {done:?}");
    }
    // Half of the few remaining files may be created.
    let few = possible() - 100;
    (0..few).for_each(|at| drop(fs::File::create(place.join(at.to_string())).unwrap()));
    let done = jail.run("for i in 1 2 3 4 5 6 7 8; do echo small > $i || exit 1; done").await;
    assert!(done.exit.success(), "{} files are possible: {done:?}", possible());
}

#[tokio::test]
async fn cpu_time_is_limited() {
    let jail =
        jail!(SandboxPolicy { limits: Limits { cpu_seconds: Some(1), ..Limits::default() }, ..Default::default() });
    let done = jail.run("while :; do :; done").await;
    assert!(matches!(done.exit, Exit::Signal(9 | 24)), "{:?}", done.exit);
}

#[tokio::test]
async fn excessive_output_is_limited() {
    let jail = jail!();
    let endless = Command::new("yes flood").timeout(Duration::from_millis(500));
    let done = ends(jail.shell.run(endless, CancellationToken::new(), None)).await.unwrap();
    assert!(matches!(done.exit, Exit::TimedOut { .. }) && done.output.len() < (1 << 20) + 100);
    // The flood is complete before the last line is printed.
    let done = times_out(&jail.shell, "yes flood | head -c 5000000; echo last; sleep 1000", "last\n").await;
    assert!(done.truncated() && done.output.len() < (1 << 20) + 100);
}

#[tokio::test]
async fn only_host_paths_named_by_the_policy_are_visible() {
    let (data, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(data.path().join("f"), "data").unwrap();
    let jail = jail!(SandboxPolicy {
        read_only: vec![data.path().into()],
        writable: vec![out.path().into()],
        ..Default::default()
    });
    let (data, out) = (data.path().display(), out.path());
    let done = jail.run(&format!("cat {data}/f; echo x > {}/g; echo x > {data}/g", out.display())).await;
    assert!(done.output.starts_with("data") && !done.exit.success());
    assert_eq!(fs::read_to_string(out.join("g")).unwrap(), "x\n");
}

#[test]
fn a_policy_that_exposes_the_system_is_refused() {
    let refused = |root: &str, policy| LocalShell::open(root, Confinement::Sandboxed(policy)).unwrap_err().to_string();
    for root in ["/", "/usr", "/etc", "/proc/self", "/dev"] {
        let error = refused(root, SandboxPolicy::default());
        assert!(error.contains("directory of its own"), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("part")).unwrap();
    let root = dir.path().to_str().unwrap();
    let open = |policy: SandboxPolicy| refused(root, policy);
    assert!(
        open(SandboxPolicy { read_only: vec![dir.path().join("part")], ..Default::default() }).contains("lies within")
    );
    assert!(
        open(SandboxPolicy { writable: vec![dir.path().parent().unwrap().into()], ..Default::default() })
            .contains("lies within")
    );
    assert!(open(SandboxPolicy { writable: vec!["/".into()], ..Default::default() }).contains("directory of its own"));
    assert!(
        open(SandboxPolicy { read_only: vec!["/no/such/place".into()], ..Default::default() })
            .contains("/no/such/place")
    );
}

#[tokio::test]
async fn the_environment_holds_no_secrets() {
    let jail = jail!();
    let done = jail.run("env; cat /proc/1/environ; tr '\\0' '\\n' < /proc/self/environ").await;
    assert!(!done.output.contains("CARGO"), "{}", done.output);
    assert!(done.output.contains("HOME=/tmp/home\n"));
    assert_eq!(jail.run("ls -A ~").await.output, "");
}

#[tokio::test]
async fn files_that_the_program_left_open_are_closed() {
    let jail = jail!();
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("f"), "SECRET").unwrap();
    let directory = fs::File::open(secret.path()).unwrap();
    rustix::io::fcntl_setfd(&directory, rustix::io::FdFlags::empty()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
    let text = format!("cat /proc/self/fd/{number}/f");
    let open = LocalShell::open(jail.dir.path(), Confinement::Unconfined).unwrap();
    let done = open.run(Command::new(text.clone()), CancellationToken::new(), None).await.unwrap();
    assert_eq!(done.output, "SECRET");
    let done = jail.run(&format!("{text}; ls /proc/self/fd")).await;
    assert!(!done.output.contains("SECRET"), "{}", done.output);
    // The three standard streams, and the descriptor of the listing.
    assert!(done.output.ends_with("\n0\n1\n2\n3\n"), "{}", done.output);
}

#[tokio::test]
async fn concurrent_commands_cannot_see_each_other() {
    let jail = jail!();
    let text = "echo $N > /tmp/f; touch up$N; while [ ! -e up1 ] || [ ! -e up2 ]; do :; done; cat /tmp/f";
    let run = |n: &str| jail.shell.run(Command::new(text).env("N", n), CancellationToken::new(), None);
    let (one, two) = ends(async { tokio::join!(run("1"), run("2")) }).await;
    assert_eq!((one.unwrap().output.as_str(), two.unwrap().output.as_str()), ("1\n", "2\n"));
}

#[tokio::test]
async fn a_program_that_is_not_a_helper_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    // `true` exits immediately, `cat` waits for input, and the last program does not exist.
    for program in ["/bin/true", "/bin/cat", "/no/such/program"] {
        let sandbox = Sandbox::helper(program);
        let report = sandbox.probe();
        assert_eq!(report.level, Level::None, "{program}");
        let shell = LocalShell::open(dir.path(), Confinement::sandboxed()).unwrap().sandbox(sandbox);
        let error = shell.run(Command::new("touch ran"), CancellationToken::new(), None).await.unwrap_err();
        assert!(matches!(&error, ShellError::NoSandbox(_)), "{error}");
        assert!(error.to_string().contains("Unconfined"));
    }
    assert!(!dir.path().join("ran").exists());
}

#[test]
fn without_a_helper_the_sandbox_reports_that_init_was_not_called() {
    // This test program does not call `init`, and the helper is not next to it.
    let report = Sandbox::new().probe();
    assert_eq!(report.level, Level::None);
    assert!(report.to_string().contains("init()"), "{report}");
}

#[test]
fn a_program_that_calls_init_is_its_own_helper() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    executables::make(&program, fs::read(helper()).unwrap());
    let told = std::process::Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8(told.stdout).unwrap(), format!("{}\n", sandbox().probe()));
}

#[tokio::test]
async fn commands_are_refused_where_namespaces_are_unavailable() {
    let Some(jail) = Jail::new(SandboxPolicy::default()) else { return };
    // A helper where no further namespaces can be created.
    let wrapped = jail.path("helper");
    let real = helper();
    let script = format!(
        "#!/bin/sh\nexec unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"' sh {real} \"$@\"\n"
    );
    executables::make(&wrapped, script);
    let sandbox = Sandbox::helper(wrapped);
    let report = sandbox.probe();
    assert_eq!(report.level, Level::None);
    assert!(report.to_string().contains("make namespaces"), "{report}");
    let shell = LocalShell::open(jail.dir.path(), Confinement::sandboxed()).unwrap().sandbox(sandbox);
    let error = shell.run(Command::new("touch ran"), CancellationToken::new(), None).await.unwrap_err();
    assert!(matches!(error, ShellError::NoSandbox(_)), "{error}");
    assert!(!jail.path("ran").exists());
}

#[test]
fn the_report_lists_its_parts() {
    let report = sandbox().probe();
    match report.level {
        Level::None => assert!(report.reason.is_some() && report.parts.is_empty()),
        level => assert_eq!(report.parts.iter().all(|part| part.available), level == Level::Full),
    }
}
