//! The program at a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;

use crate::program::{Start, deepagents, run};
use crate::server::{Reply, Server};

/// A program without output for this long counts as hung.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);
/// Pieces of output that are read ahead. After them, the program waits until the test reads.
const PIECES_AHEAD: usize = 8;
/// How often the reader thread looks whether the terminal is to be closed.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long to wait for a reaction before a key is pressed again.
const RETRY_DELAY: Duration = Duration::from_secs(3);

/// The program and the other end of its terminal.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    end: File,
    pieces: Receiver<Vec<u8>>,
    pub(crate) seen: String,
    /// The reader thread ends without it.
    _open: Arc<()>,
}

impl Terminal {
    pub(crate) fn start(command: &mut Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        // The programs of other tests must not hold this terminal open.
        #[cfg(target_os = "linux")]
        let flags = flags | OpenptFlags::CLOEXEC;
        let end = openpt(flags).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        tcsetwinsize(&end, Winsize { ws_row: 24, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&end, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let copy = || Stdio::from(terminal.try_clone().unwrap());
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).start();
        // Drops our copies of the terminal, so that it closes with the program.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let end: File = end.into();
        let (give, pieces) = sync_channel(PIECES_AHEAD);
        let mut from = end.try_clone().unwrap();
        let open = Arc::new(());
        let is_open = Arc::downgrade(&open);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while is_open.strong_count() > 0 {
                let mut states = [PollFd::new(&from, PollFlags::IN)];
                if poll(&mut states, Some(&CHECK_INTERVAL)).unwrap() == 0 {
                    continue;
                }
                let Ok(read @ 1..) = from.read(&mut piece) else { break };
                if give.send(piece[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, end, pieces, seen: String::new(), _open: open }
    }

    /// Reads more output. Returns `false` if the program has exited or hangs.
    pub(crate) fn read(&mut self) -> bool {
        self.read_for(OUTPUT_TIMEOUT)
    }

    fn read_for(&mut self, timeout: Duration) -> bool {
        let Ok(piece) = self.pieces.recv_timeout(timeout) else { return false };
        self.seen += &String::from_utf8_lossy(&piece);
        true
    }

    /// Presses a key until the program reacts. A key that arrives while a question is being drawn is ignored.
    pub(crate) fn press_until(&mut self, key: &str, words: &str) {
        for _ in 0..10 {
            self.type_in(key);
            while !self.seen.contains(words) && self.read_for(RETRY_DELAY) {}
            if self.seen.contains(words) {
                return;
            }
        }
        panic!("`{words}` was never said: {:?}", self.seen);
    }

    pub(crate) fn wait_for(&mut self, words: &str) {
        while !self.seen.contains(words) {
            assert!(self.read(), "`{words}` was never said: {:?}", self.seen);
        }
    }

    /// Waits until the window title says that the program works on nothing.
    pub(crate) fn wait_until_idle(&mut self) {
        let is_idle = |seen: &str| seen.rsplit("\x1b]2;").next().is_some_and(|title| title.starts_with("deepagents: "));
        while !is_idle(&self.seen) {
            assert!(self.read(), "it never ends: {:?}", self.seen);
        }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.end.write_all(text.as_bytes()).unwrap();
    }

    /// Whether the terminal echoes input.
    pub(crate) fn echoes(&self) -> bool {
        tcgetattr(&self.end).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    fn has_gone(&mut self) -> bool {
        // The reader thread has ended, so the terminal is closed.
        matches!(self.pieces.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected))
    }

    /// Closes the terminal, at the latest after [`CHECK_INTERVAL`].
    pub(crate) fn close(self) -> Child {
        self.child
    }

    pub(crate) fn wait_for_end(&mut self) {
        while self.read() {}
        assert!(self.has_gone(), "it goes on and says nothing: {:?}", self.seen);
    }

    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.wait_for_end();
        (self.child.wait().unwrap().code(), self.seen)
    }
}

fn asks(server: &Server, root: &std::path::Path) -> Terminal {
    Terminal::start(run(root, &server.address).env("NO_COLOR", "1").args(["--approve", "ask", "Write"]))
}

fn writes() -> Reply {
    Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "a"}))
}

#[test]
fn a_question_replaces_the_status_line_and_is_answered() {
    let server = Server::start([writes(), Reply::Text(vec!["Written."])]);
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = asks(&server, dir.path());
    terminal.wait_for("[r]espond TEXT? ");
    assert!(
        terminal.seen.contains("preparing write_file\x1b[?7h\r\x1b[K? write_file /a.txt\r\n"),
        "{:?}",
        terminal.seen
    );
    terminal.type_in("y\n");
    let (code, seen) = terminal.end();
    assert!(code == Some(0) && seen.contains("✓ write_file /a.txt\r\n") && seen.contains("\nWritten.\r\n"), "{seen:?}");
    assert!(dir.path().join("a.txt").exists());
}

#[test]
fn ctrl_c_at_a_question_leaves_it_open_and_says_so_on_its_own_line() {
    let server = Server::start([writes()]);
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = asks(&server, dir.path());
    terminal.wait_for("[r]espond TEXT? ");
    let sent = Command::new("kill").args(["-INT", &terminal.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let (code, seen) = terminal.end();
    assert!(code == Some(130) && seen.contains("TEXT? \r\n"), "{seen:?}");
    assert!(seen.contains("\ndeepagents: interrupted with 1 call awaiting a decision"), "{seen:?}");
}

#[test]
fn the_tools_command_says_at_a_terminal_what_it_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(deepagents().arg("tools").arg("--root").arg(dir.path()));
    terminal.wait_for("Ctrl-D ends");
    terminal.type_in("\x04");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_diff_without_an_end_is_cut() {
    let (server, dir) = (Server::start([]), tempfile::tempdir().unwrap());
    let (bin, root) = (dir.path().join("bin"), dir.path().join("root"));
    let git = "#!/bin/sh\ncase \" $* \" in *' diff '*) exec yes +endless ;; esac\n";
    for place in [&bin, &root] {
        std::fs::create_dir(place).unwrap();
    }
    std::fs::write(bin.join("git"), git).unwrap();
    std::fs::set_permissions(bin.join("git"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = deepagents();
    command.env("HOME", dir.path()).env("TERM", "xterm-256color").env("NO_COLOR", "1").env("PATH", path);
    command.args(["--base-url", &server.address, "--model", "test-model", "--root"]).arg(root);
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("test-model");
    terminal.type_in("/diff\r");
    terminal.wait_for("+endless");
    terminal.type_in("/quit\r");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_run_without_a_task_fails_instead_of_waiting_for_one() {
    let (code, seen) = Terminal::start(deepagents().arg("run")).end();
    assert!(code == Some(2) && seen.contains("there is no task: give one"), "{seen:?}");
}

#[test]
fn the_status_line_is_cut_to_the_terminal_width() {
    let server = Server::start([
        Reply::Call("ls", json!({"path": format!("/{}", "deep/".repeat(12))})),
        Reply::Text(vec!["Nothing."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let (code, seen) = Terminal::start(run(dir.path(), &server.address).env("NO_COLOR", "1").arg("Look")).end();
    let status = seen.split("\x1b[?7l").filter_map(|rest| rest.split_once("\x1b[?7h")).map(|(status, _)| status);
    let status = status.filter(|status| status.starts_with('●')).collect::<Vec<_>>();
    assert!(code == Some(0) && !status.is_empty(), "{seen:?}");
    assert!(status.iter().all(|line| line.chars().count() == 40 && line.ends_with('…')), "{status:?}");
}

#[test]
fn text_typed_before_a_question_does_not_answer_it() {
    let server = Server::start([
        writes(),
        Reply::Call("write_file", json!({"file_path": "/b.txt", "content": "b"})),
        Reply::Text(vec!["Done."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = asks(&server, dir.path());
    terminal.wait_for("[r]espond TEXT? ");
    terminal.type_in("y\ny\ny\n");
    while terminal.seen.matches("[r]espond TEXT? ").count() < 2 {
        assert!(terminal.read(), "{:?}", terminal.seen);
    }
    terminal.type_in("n\n");
    let (code, seen) = terminal.end();
    assert!(code == Some(0) && dir.path().join("a.txt").exists(), "{seen:?}");
    assert!(!dir.path().join("b.txt").exists(), "{seen:?}");
}

#[test]
fn a_long_value_is_wrapped_so_that_it_cannot_look_like_another_question() {
    let content = format!("a{}? execute rm -rf /", " ".repeat(33));
    let server = Server::start([
        Reply::Call("write_file", json!({"file_path": "/a.txt", "content": content})),
        Reply::Text(vec!["Done."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = asks(&server, dir.path());
    terminal.wait_for("[r]espond TEXT? ");
    let question = terminal.seen.split("\x1b[K").last().unwrap().to_owned();
    let lines: Vec<&str> = question.lines().collect();
    assert!(lines.iter().filter(|line| !line.contains("[y]es")).all(|line| line.chars().count() <= 40), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("      ┊ ")), "{lines:?}");
    terminal.type_in("n\n");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_rule_to_be_remembered_is_shown_in_full_and_cannot_forge_a_line() {
    // The terminal has 40 columns, so `in this` would start a line.
    let path = format!("/a{}in this [s]ession? yes.txt", " ".repeat(16));
    let server = Server::start([
        Reply::Call("write_file", json!({"file_path": path, "content": "a"})),
        Reply::Text(vec!["Done."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = asks(&server, dir.path());
    terminal.wait_for("[r]espond TEXT? ");
    terminal.type_in("a\n");
    terminal.wait_for("  always: ");
    // Once the rule is shown, an answer is accepted.
    terminal.type_in("o\n");
    let (code, seen) = terminal.end();
    let rule: Vec<&str> = seen.lines().skip_while(|line| !line.starts_with("  always: ")).collect();
    let rule = &rule[..rule.iter().position(|line| line.starts_with("in this [s]ession, ")).unwrap()];
    assert!(code == Some(0) && rule[1..].iter().all(|line| line.starts_with("      ┊ ")), "{seen:?}");
    let whole = rule.iter().map(|line| line.trim_start_matches("      ┊ ")).collect::<String>();
    assert!(whole.contains(&path) && whole.ends_with("and any content"), "{whole:?}");
}

#[test]
fn changes_to_files_that_steer_the_agent_are_asked_about_in_every_mode() {
    let server = Server::start([
        Reply::Call("write_file", json!({"file_path": "/AGENTS.md", "content": "a"})),
        Reply::Text(vec!["Done."]),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(run(dir.path(), &server.address).env("NO_COLOR", "1").arg("Write"));
    terminal.wait_for("[n]o REASON? ");
    assert!(terminal.seen.contains("is part of what"), "{:?}", terminal.seen);
    terminal.type_in("y\n");
    assert_eq!(terminal.end().0, Some(0));
    assert!(dir.path().join("AGENTS.md").exists());
}
