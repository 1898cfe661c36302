//! The latency and memory of the screens: the program on a pseudo-terminal.

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

/// Number of starts, of which the fastest counts, because other load is not the program's fault.
const STARTS: usize = 5;
/// Number of messages in the opened thread.
const MESSAGES: usize = 10_000;
/// Time limit for anything expected.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the program rests before its memory is measured.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// A key that occurs in no path.
const FIRST_KEY: &str = "§";
/// How long a user looks at the typed text.
const READING_TIME: Duration = Duration::from_millis(500);
/// How long the idle program is observed.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Number of words in the answer during which keys are pressed, followed by the pause after each: 200 words per second.
const ANSWER_WORDS: usize = 4_000;
const WORD_DELAY: Duration = Duration::from_millis(5);
/// Keys whose letters occur in no control sequence and no word of the answer, followed by how often the sequence is
/// typed.
const KEYS: &str = "NOPQRUVWYZ";
const ROUNDS: usize = 12;
/// Text at the end of the thread.
const END: &str = "the-end-of-the-thread";

impl Bench {
    /// Measures the time to the first prompt, to an echoed key and to the first request, key latency during an answer,
    /// idle cost, and opening a thread of 10,000 messages.
    pub(super) async fn screens(&self) -> Result<Map<String, Value>> {
        let program = self.args.first().context("usage: bench - tui PROGRAM")?;
        let place = tempfile::tempdir()?;
        let (home, root) = (place.path().join("home"), place.path().join("root"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&root)?;
        let model = Model::start(ANSWER_WORDS, WORD_DELAY)?;
        let start = |args: &[&str]| Screen::start(program, &home, &root, &model.url, args);
        let (mut prompts, mut keys, mut from_start, mut requests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for number in 0..2 * STARTS {
            let mut screen = start(&[])?;
            prompts.push(screen.wait_for("/help")?);
            screen.write(FIRST_KEY)?;
            keys.push(screen.wait_for(FIRST_KEY)?);
            // Every other start presses Enter as soon as possible; the others wait first.
            let at_once = number % 2 == 0;
            if !at_once {
                tokio::time::sleep(READING_TIME).await;
            }
            screen.write("\r")?;
            let arrived = model.next_request()?;
            match at_once {
                true => from_start.push(arrived.saturating_duration_since(screen.started)),
                false => requests.push(arrived.saturating_duration_since(screen.since)),
            }
            screen.end();
        }
        let mut screen = start(&[])?;
        screen.wait_for("/help")?;
        tokio::time::sleep(SETTLE_TIME).await;
        let (idle, private) = (screen.memory_mb("VmRSS:"), screen.memory_mb("RssAnon:"));
        let before = screen.cpu_ticks();
        tokio::time::sleep(IDLE_TIME).await;
        let ticks = before.zip(screen.cpu_ticks()).map(|(before, after)| after.saturating_sub(before));
        // A tick is ten milliseconds.
        let cpu = ticks.map(|ticks| f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)) / IDLE_TIME.as_secs_f64());
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
            ("start_to_request_ms", best(&from_start)),
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

/// Returns a percentile in milliseconds.
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

/// Creates a thread of 10,000 messages for a directory.
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

/// The program and our end of its terminal.
struct Screen {
    child: Child,
    end: File,
    pieces: Receiver<Vec<u8>>,
    seen: String,
    started: Instant,
    /// Start of the current measurement.
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
        // Drops our copies of the terminal, so that it closes when the program ends.
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
        Ok(Self { child, end, pieces, seen: String::new(), started: since, since })
    }

    /// Returns the time from the last key, or from the start, until the text appears.
    fn wait_for(&mut self, words: &str) -> Result<Duration> {
        while !self.seen.contains(words) {
            match self.pieces.recv_timeout(WAIT_TIMEOUT) {
                Ok(piece) => self.seen += &String::from_utf8_lossy(&piece),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    bail!("`{words}` never came: {:?}", self.seen)
                }
            }
        }
        Ok(self.since.elapsed())
    }

    /// Types a text and clears the captured output.
    fn write(&mut self, text: &str) -> Result<()> {
        self.seen.clear();
        self.since = Instant::now();
        Ok(self.end.write_all(text.as_bytes())?)
    }

    /// Returns the times from key press to screen during an answer.
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
            // Clears the line for the next round.
            self.write("\x15")?;
            thread::sleep(Duration::from_millis(100));
            while self.pieces.try_recv().is_ok() {}
        }
        Ok(times)
    }

    /// Returns the CPU time in ticks, or `None` if the system does not report it.
    fn cpu_ticks(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    }

    /// Returns a memory figure by its name in `/proc`, or `None` if the system does not report it.
    fn memory_mb(&self, name: &str) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes / 1_024.0)
    }

    fn end(mut self) {
        // The program is only measured, so it need not shut down cleanly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
