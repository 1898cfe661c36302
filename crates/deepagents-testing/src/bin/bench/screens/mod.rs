//! What the screens cost a person: the program on a pseudo-terminal.

mod model;

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
use model::Model;

/// Starts of which the quickest counts: what else the machine does is none of the program's.
const STARTS: usize = 5;
/// Messages of the thread that is opened.
const MESSAGES: usize = 10_000;
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long memory is left alone before it is looked at.
const REST: Duration = Duration::from_secs(2);
/// How long it is watched for work that nobody asked for.
const WATCH: Duration = Duration::from_secs(5);
/// Words of the answer during which keys are pressed, and the pause after each: 200 a second.
const WORDS: usize = 4_000;
const PAUSE: Duration = Duration::from_millis(5);
/// Keys whose letters are in no control sequence and in no word of the answer, and how often they are pressed in turn.
const KEYS: &str = "NOPQRUVWYZ";
const ROUNDS: usize = 12;
/// The words at the end of the thread.
const END: &str = "the-end-of-the-thread";

impl Bench {
    /// The time to the first prompt, to an echoed key and to the first request, keys while an answer comes, what it costs
    /// when nothing happens, and a thread of 10,000 messages.
    pub(super) async fn screens(&self) -> Result<Map<String, Value>> {
        let program = self.args.first().context("usage: bench - tui PROGRAM")?;
        let place = tempfile::tempdir()?;
        let (home, root) = (place.path().join("home"), place.path().join("root"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&root)?;
        let model = Model::start(WORDS, PAUSE)?;
        let start = |args: &[&str]| Screen::start(program, &home, &root, &model.url, args);
        let (mut prompts, mut keys, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let mut screen = start(&[])?;
            prompts.push(screen.wait_for("/help")?);
            screen.write("z")?;
            keys.push(screen.wait_for("z")?);
            screen.write("\r")?;
            requests.push(model.next_request()?.saturating_duration_since(screen.since));
            screen.end();
        }
        let mut screen = start(&[])?;
        screen.wait_for("/help")?;
        tokio::time::sleep(REST).await;
        let (idle, private) = (screen.memory_mb("VmRSS:"), screen.memory_mb("RssAnon:"));
        let before = screen.cpu_ticks();
        tokio::time::sleep(WATCH).await;
        let ticks = before.zip(screen.cpu_ticks()).map(|(before, after)| after.saturating_sub(before));
        // A tick is ten milliseconds.
        let cpu = ticks.map(|ticks| f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)) / WATCH.as_secs_f64());
        let busy = screen.keys_while_it_answers()?;
        screen.end();
        thread_of(&home.join(".deepagents/threads.db"), &root.canonicalize()?).await?;
        let (mut opened, mut read) = (Vec::new(), None);
        for _ in 0..STARTS {
            let mut screen = start(&["--continue"])?;
            opened.push(screen.wait_for(END)?);
            read = screen.memory_mb("VmRSS:");
            screen.end();
        }
        let best = |times: &[Duration]| times.iter().min().map(|time| time.as_secs_f64() * 1_000.0);
        let mut out = Map::new();
        for (name, figure) in [
            ("prompt_ms", best(&prompts)),
            ("key_ms", best(&keys)),
            ("request_ms", best(&requests)),
            ("busy_key_p50_ms", rank(&busy, 0.5)),
            ("busy_key_p99_ms", rank(&busy, 0.99)),
            ("idle_mb", idle),
            ("idle_private_mb", private),
            ("idle_cpu_percent", cpu),
            ("open_ms", best(&opened)),
            ("open_mb", read),
        ] {
            out.insert(name.to_owned(), json!(figure));
        }
        let mut bars = Bars::default();
        bars.takes_at_most("first prompt in ms", best(&prompts), 20.0);
        bars.takes_at_most("first key on the screen in ms", best(&keys), 30.0);
        bars.takes_at_most("first request after Enter in ms", best(&requests), 20.0);
        bars.takes_at_most("a key while an answer comes in ms, p99", rank(&busy, 0.99), 16.0);
        bars.at_most("idle memory in MB", idle, 20.0);
        bars.at_most("idle CPU in percent", cpu, 0.2);
        bars.takes_at_most("a thread of 10,000 messages open in ms", best(&opened), 300.0);
        bars.at_most("memory with that thread in MB", read, 100.0);
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }
}

/// The time in milliseconds that so great a part of them does not exceed.
fn rank(times: &[Duration], part: f64) -> Option<f64> {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1_000.0).collect();
    times.sort_by(f64::total_cmp);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "it is small"
    )]
    let at = ((times.len() as f64 * part).ceil() as usize).saturating_sub(1);
    times.get(at).copied()
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
    fn start(program: &str, home: &Path, root: &Path, url: &str, args: &[&str]) -> Result<Self> {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&end)?;
        unlockpt(&end)?;
        tcsetwinsize(&end, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
        let name = ptsname(&end, Vec::new())?;
        let terminal = File::options().read(true).write(true).open(name.to_str()?)?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home).env("TERM", "xterm-256color").current_dir(root);
        command.args(["--base-url", url, "--model", "none", "--root", "."]).args(args);
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

    /// The times from key to screen while an answer comes.
    fn keys_while_it_answers(&mut self) -> Result<Vec<Duration>> {
        self.write("go\r")?;
        self.wait_for("word word word")?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            for key in KEYS.chars().map(|key| key.to_string()) {
                self.write(&key)?;
                times.push(self.wait_for(&key)?);
                thread::sleep(Duration::from_millis(13));
            }
            // An empty line for the next round.
            self.write("\x15")?;
            thread::sleep(Duration::from_millis(100));
            while self.pieces.try_recv().is_ok() {}
        }
        Ok(times)
    }

    /// The processor time that it has used; nothing where the system does not tell it.
    fn cpu_ticks(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    }

    /// Memory, by the name of the system for it; nothing where it does not tell.
    fn memory_mb(&self, name: &str) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes / 1_024.0)
    }

    fn end(mut self) {
        // It is a measurement: nothing that it leaves is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
