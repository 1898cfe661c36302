//! Runs the program.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for anything, which is far longer than a busy machine takes: only what hangs takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);

/// Whether the tests ignore SIGHUP, as under `nohup`: child processes inherit this.
pub(crate) fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// The program in an environment without API keys.
pub(crate) fn deepagents() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deepagents"));
    command.env_clear().stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    // Threads are stored in the home directory, which must not be that of the user who runs the tests.
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    std::fs::create_dir_all(&home).expect("a home directory");
    command.env("HOME", home);
    command
}

/// `deepagents run` in a directory, with a server as its model.
pub(crate) fn run(root: &Path, address: &str) -> Command {
    let mut command = deepagents();
    command.args(["run", "--base-url", address, "--model", "test-model", "--root"]).arg(root);
    command
}

/// The output and exit code of a finished program.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Starting the program.
pub(crate) trait Start {
    /// Starts the program, which is killed after [`TIMEOUT`]: a test that waits for its output or its end then goes on,
    /// and fails with what there was.
    fn start(&mut self) -> Child;
}

impl Start for Command {
    fn start(&mut self) -> Child {
        let child = self.spawn().expect("the program starts");
        #[cfg(target_os = "linux")]
        kill_if_it_hangs(&child);
        child
    }
}

#[cfg(target_os = "linux")]
fn kill_if_it_hangs(child: &Child) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    // Stands for this process alone, even after its ID has been given to another.
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("the process");
    let limit = Timespec { tv_sec: TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
    std::thread::spawn(move || {
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
        if ended == Ok(0) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
            panic!("the program was killed, as it had run for {TIMEOUT:?}");
        }
    });
}

/// Waits until something is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        std::thread::yield_now();
    }
}

/// Runs to the end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    child.wait_with_output().expect("the program ends").into()
}

/// Runs to the end with this stdin.
pub(crate) fn finish_with(command: &mut Command, stdin: &str) -> Finished {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    // The program may end before it has read everything.
    let _ = child.stdin.take().expect("stdin").write_all(stdin.as_bytes());
    child.wait_with_output().expect("the program ends").into()
}

impl Finished {
    /// The lines of stdout as JSON.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(read).collect()
    }

    /// Expects one message on stderr, exit code 1, and no stdout.
    pub(crate) fn one_message(&self) -> &str {
        self.message(1)
    }

    /// The same with exit code 2.
    pub(crate) fn wrong_usage(&self) -> &str {
        self.message(2)
    }

    fn message(&self, code: i32) -> &str {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{self:?}");
        let message = self.err.strip_prefix("deepagents: ").expect("the program's name leads");
        assert_eq!(message.trim_end().lines().count(), 1, "{self:?}");
        assert!(!message.contains("Error {") && !message.contains("Caused by"), "{message}");
        message.trim_end()
    }
}
