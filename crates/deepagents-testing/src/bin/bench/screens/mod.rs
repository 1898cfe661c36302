//! What the screens cost a person: the program on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use deepagents::{DeepAgent, Journal, Message, Update};
use deepagents_core::message::{AssistantMessage, Block, MessageOp};
use deepagents_core::model::NoModel;
use deepagents_core::state::MessagesChannel;
use deepagents_persist::Sqlite;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Map, Value, json};

use super::Bench;
use super::bars::Bars;

/// Starts of which the quickest counts: what else the machine does is none of the program's.
const STARTS: usize = 5;
/// Messages of the thread that is opened.
const MESSAGES: usize = 10_000;
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long memory is left alone before it is looked at.
const REST: Duration = Duration::from_secs(2);
/// The words at the end of the thread.
const END: &str = "the-end-of-the-thread";

impl Bench {
    /// The time to the first prompt and to an echoed key, idle memory, and the time to open a thread of 10,000 messages.
    pub(super) async fn screens(&self) -> Result<Map<String, Value>> {
        let program = self.args.first().context("usage: bench - tui PROGRAM")?;
        let place = tempfile::tempdir()?;
        let (home, root) = (place.path().join("home"), place.path().join("root"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&root)?;
        let start = |args: &[&str]| Screen::start(program, &home, &root, args);
        let (mut prompts, mut keys) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let mut screen = start(&[])?;
            prompts.push(screen.wait_for("/help")?);
            screen.write("z")?;
            keys.push(screen.wait_for("z")?);
            screen.end();
        }
        let mut screen = start(&[])?;
        screen.wait_for("/help")?;
        tokio::time::sleep(REST).await;
        let idle = screen.resident_mb();
        screen.end();
        thread_of(&home.join(".deepagents/threads.db"), &root.canonicalize()?).await?;
        let (mut opened, mut read) = (Vec::new(), None);
        for _ in 0..STARTS {
            let mut screen = start(&["--continue"])?;
            opened.push(screen.wait_for(END)?);
            read = screen.resident_mb();
            screen.end();
        }
        let best = |times: &[Duration]| times.iter().min().map(|time| time.as_secs_f64() * 1_000.0);
        let mut out = Map::new();
        for (name, figure) in [
            ("prompt_ms", best(&prompts)),
            ("key_ms", best(&keys)),
            ("idle_mb", idle),
            ("open_ms", best(&opened)),
            ("open_mb", read),
        ] {
            out.insert(name.to_owned(), json!(figure));
        }
        let mut bars = Bars::default();
        bars.takes_at_most("first prompt in ms", best(&prompts), 20.0);
        bars.takes_at_most("first key on the screen in ms", best(&keys), 30.0);
        bars.at_most("idle memory in MB", idle, 20.0);
        bars.takes_at_most("a thread of 10,000 messages open in ms", best(&opened), 300.0);
        bars.at_most("memory with that thread in MB", read, 100.0);
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }
}

/// A thread of 10,000 messages of a directory.
async fn thread_of(database: &Path, root: &Path) -> Result<()> {
    if let Some(directory) = database.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let journal = std::sync::Arc::new(Sqlite::open(database).await?);
    let metadata = json!({"root": root, "title": "a long one"});
    journal.threads().set_metadata("long", metadata.as_object().cloned().unwrap_or_default()).await?;
    let agent = DeepAgent::builder().model(NoModel).journal(journal).build()?;
    let text = "Some words of an answer that is as long as answers are. ".repeat(6);
    let turns = (0..MESSAGES / 2).flat_map(|turn| {
        let end = if turn + 1 == MESSAGES / 2 { END } else { "" };
        let answer = AssistantMessage::new(vec![Block::text(format!("{turn}: {text}{end}"))]);
        [MessageOp::put(Message::user(format!("question {turn}"))), MessageOp::put(Message::Assistant(answer))]
    });
    let update = Update::new::<MessagesChannel>(turns.collect());
    agent.update_state("long", update).await?;
    let known = agent.state("long").await?;
    anyhow::ensure!(known.messages().len() == MESSAGES, "the thread is not as long as it has to be");
    Ok(())
}

/// The program and the other end of its terminal.
struct Screen {
    child: Child,
    end: File,
    pieces: Receiver<Vec<u8>>,
    seen: String,
    /// From when on the next thing is measured.
    since: Instant,
}

impl Screen {
    fn start(program: &str, home: &Path, root: &Path, args: &[&str]) -> Result<Self> {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&end)?;
        unlockpt(&end)?;
        tcsetwinsize(&end, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
        let name = ptsname(&end, Vec::new())?;
        let terminal = File::options().read(true).write(true).open(name.to_str()?)?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home).env("TERM", "xterm-256color").current_dir(root);
        command.args(["--base-url", "http://127.0.0.1:9/v1", "--model", "none", "--root", "."]).args(args);
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(Stdio::from(terminal));
        let since = Instant::now();
        let child = command.spawn().with_context(|| format!("`{program}` cannot be started"))?;
        // No copy of the terminal is left here, so that it ends with the program.
        drop(command);
        let end: File = end.into();
        let (give, pieces) = channel();
        let mut from = end.try_clone()?;
        thread::spawn(move || {
            let mut piece = [0; 16 * 1024];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                if give.send(piece.get(..length).unwrap_or_default().to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, end, pieces, seen: String::new(), since })
    }

    /// The time until these words came, from the last key or the start on.
    fn wait_for(&mut self, words: &str) -> Result<Duration> {
        while !self.seen.contains(words) {
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.seen += &String::from_utf8_lossy(&piece),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    bail!("`{words}` never came: {:?}", self.seen)
                }
            }
        }
        Ok(self.since.elapsed())
    }

    /// Types something; what was seen before is forgotten.
    fn write(&mut self, text: &str) -> Result<()> {
        self.seen.clear();
        self.since = Instant::now();
        Ok(self.end.write_all(text.as_bytes())?)
    }

    /// The memory that is the process's own and resident; nothing where the system does not tell it.
    fn resident_mb(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes / 1_024.0)
    }

    fn end(mut self) {
        // It is a measurement: nothing that it leaves is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
