//! Runs that are killed, and what must hold afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use deepagents_core::agent::Agent;
use deepagents_core::journal::{Journal, Record, RunStatus};
use deepagents_core::message::Block;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::State;
use deepagents_core::tool::{Effect, ToolContext, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_testing::watched::Watched;
use serde_json::json;

use super::database::Place;
use super::watch::Acknowledged;

const TURNS: usize = 40;
const CALLS: usize = 5;

/// Works on a thread until it is done, in the process that will be killed.
pub(crate) async fn run(place: &Place, thread: &str, folder: &Path, lease: Duration) -> Result<()> {
    let inner = place.open().await?;
    let begun = inner.threads().get(thread).await?.is_some_and(|info| info.status != RunStatus::Empty);
    let acknowledged = append_to(&folder.join(format!("{thread}.acknowledged")))?;
    let journal = Arc::new(Watched::new(inner, Acknowledged(acknowledged)));
    let input = if begun { RunInput::resume(thread) } else { RunInput::new("go").thread(thread) };
    let outcome = agent(journal, folder)?.invoke(input.take_over().lease(lease)).await?;
    ensure!(outcome.stop == FinishReason::Done, "the run ended with {:?}", outcome.stop);
    Ok(())
}

pub(crate) fn agent(journal: Arc<dyn Journal>, folder: &Path) -> Result<Agent> {
    let model = ScriptedModel::rules()
        .always(Turn::with(|request| {
            let turn = request.messages.iter().filter(|m| m.as_assistant().is_some()).count();
            if turn >= TURNS {
                return Turn::text("done");
            }
            // Even calls may be repeated after a crash; odd ones may not.
            Turn::blocks((0..CALLS).map(|n| {
                let name = if n % 2 == 0 { "read" } else { "send" };
                Block::call(format!("c{turn}-{n}"), name, json!({"words": "x".repeat(200 * n)}))
            }))
        }))
        .build();
    let (reads, sends) = (folder.to_owned(), folder.to_owned());
    let schema = json!({"type": "object"});
    let read = json_tool("read", "Reads.", schema.clone(), move |_, cx| count(reads.clone(), cx)).effect(Effect::Read);
    let send = json_tool("send", "Sends.", schema, move |_, cx| count(sends.clone(), cx));
    Ok(Agent::builder(model).tool(read).tool(send).journal(journal).build()?)
}

/// Records in a file that the call ran, at a random point of its duration.
async fn count(folder: PathBuf, cx: ToolContext) -> Result<String, deepagents_core::tool::ToolError> {
    let pause = || Duration::from_micros(fastrand::u64(0..1_500));
    tokio::time::sleep(pause()).await;
    let thread = cx.context().thread().unwrap_or_default().to_owned();
    append_to(&folder.join(format!("{thread}.calls")))?.write_all(format!("{}\n", cx.call_id()).as_bytes())?;
    tokio::time::sleep(pause()).await;
    Ok("done ".repeat(fastrand::usize(0..100)))
}

fn append_to(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Starts a process that works on a thread.
pub(crate) fn spawn(place: &Place, thread: &str, folder: &Path, lease: Duration) -> Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["run", &place.argument(), thread])
        .arg(folder)
        .arg(lease.as_millis().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("the run could not be started")
}

/// The results so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct TrialResults {
    pub(crate) runs: u32,
    pub(crate) server_kills: u32,
    pub(crate) appends: usize,
    pub(crate) finished: usize,
    pub(crate) in_doubt: usize,
    pub(crate) repeated: usize,
}

pub(crate) struct Trial {
    place: Place,
    folder: PathBuf,
    seen: TrialResults,
}

/// What is known of a run across its kills.
#[derive(Default)]
struct LoggedState {
    /// How often each finished call had run when it was first seen as finished.
    finished: BTreeMap<String, usize>,
    /// The maximum number of kills at which a call was in flight.
    in_doubt: BTreeMap<String, usize>,
}

impl Trial {
    pub(crate) fn new(place: Place, folder: PathBuf) -> Self {
        Self { place, folder, seen: TrialResults::default() }
    }

    pub(crate) fn seen(&self) -> TrialResults {
        self.seen
    }

    /// Starts runs and kills them until the number of kills is reached.
    pub(crate) async fn kill_often(&mut self, kills: u32) -> Result<()> {
        let mut left = kills;
        while left > 0 || self.seen.runs == 0 {
            let thread = format!("crash-{}-{}", std::process::id(), self.seen.runs);
            let mut known = LoggedState::default();
            while !self.continue_for_a_moment(&thread, &mut left).await? {
                self.check(&thread, &mut known).await.with_context(|| format!("after a kill of {thread}"))?;
            }
            self.check(&thread, &mut known).await.with_context(|| format!("at the end of {thread}"))?;
            self.sum_up(&thread, &known).await?;
            self.seen.runs += 1;
        }
        Ok(())
    }

    /// Lets a run continue for a moment. Returns whether it ended.
    async fn continue_for_a_moment(&mut self, thread: &str, left: &mut u32) -> Result<bool> {
        let mut child = spawn(&self.place, thread, &self.folder, Duration::from_secs(30))?;
        let until = Duration::from_micros(fastrand::u64(3_000..400_000));
        let deadline = tokio::time::Instant::now() + until;
        while *left == 0 || tokio::time::Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                let mut said = String::new();
                if let Some(mut errors) = child.stderr.take() {
                    std::io::Read::read_to_string(&mut errors, &mut said)?;
                }
                ensure!(status.success(), "the run of {thread} failed: {said}");
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if self.place.has_server() && left.is_multiple_of(4) {
            self.place.kill_server()?;
            self.seen.server_kills += 1;
        }
        child.kill()?;
        child.wait()?;
        *left -= 1;
        Ok(false)
    }

    /// Checks what must hold after every kill.
    async fn check(&mut self, thread: &str, known: &mut LoggedState) -> Result<()> {
        self.place.check().await?;
        let journal = self.place.open().await?;
        let end = journal.load(thread, None).await?.end;
        let acknowledged = lines(&self.folder.join(format!("{thread}.acknowledged")))?;
        let last = acknowledged.iter().filter_map(|line| line.parse::<u64>().ok()).max().unwrap_or(0);
        ensure!(end >= last, "the log ends at {end}, but an append up to {last} was acknowledged");
        let ran = self.call_counts(thread)?;
        let (mut started, mut finished) = (BTreeSet::new(), BTreeSet::new());
        let entries = journal.read(thread, 0..end).await?;
        ensure!(entries.len() as u64 == end, "the log has {} records and ends at {end}", entries.len());
        for entry in entries {
            match entry.record {
                Record::ToolStarted { call, .. } => {
                    started.insert(call.to_string());
                }
                Record::ToolFinished { call, .. } => {
                    ensure!(finished.insert(call.to_string()), "call {call} has two results");
                }
                _ => {}
            }
        }
        for call in ran.keys() {
            ensure!(started.contains(call), "call {call} ran before the log knew of it");
        }
        for call in &finished {
            let now = ran.get(call).copied().unwrap_or(0);
            let then = *known.finished.entry(call.clone()).or_insert(now);
            ensure!(then == now, "call {call} had finished and was run again");
        }
        for call in started.difference(&finished) {
            *known.in_doubt.entry(call.clone()).or_default() += 1;
        }
        for (call, times) in &ran {
            let kills = known.in_doubt.get(call).copied().unwrap_or(0);
            ensure!(*times <= 1 + kills, "call {call} ran {times} times and was in flight at {kills} kills");
            let odd = call.rsplit('.').next().and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n % 2 == 1);
            ensure!(!odd || *times == 1, "call {call} must not be made again, and ran {times} times");
        }
        Ok(())
    }

    /// Checks what must hold at the end.
    async fn sum_up(&mut self, thread: &str, known: &LoggedState) -> Result<()> {
        let journal = self.place.open().await?;
        let state = agent(journal.clone(), &self.folder)?.state(thread).await?;
        let messages = 2 + TURNS * (1 + CALLS);
        ensure!(state.messages().len() == messages, "{thread} has {} messages, not {messages}", state.messages().len());
        deepagents_models::scripted::check_history(state.messages())?;
        let open = journal.threads().get(thread).await?.map(|info| info.status);
        ensure!(open == Some(RunStatus::Ended), "{thread} is {open:?}");
        ensure!(known.finished.len() == TURNS * CALLS, "{} calls have results", known.finished.len());
        let pruned = format!("{thread}-pruned");
        journal.threads().copy(thread, &pruned, None).await?;
        let agent = agent(journal.clone(), &self.folder)?;
        agent.prune(&pruned, &deepagents_core::journal::RetentionPolicy::Latest).await?;
        let text = |state: &State| anyhow::Ok(serde_json::to_string(&state.to_json(true)?)?);
        let (whole, kept) = (text(&state)?, text(&agent.state(&pruned).await?)?);
        ensure!(whole == kept, "pruning changed the state of {thread}");
        journal.threads().delete(&pruned).await?;
        // Keeps the database small, so that checking it does not become slower.
        journal.threads().delete(thread).await?;
        self.seen.appends += lines(&self.folder.join(format!("{thread}.acknowledged")))?.len();
        self.seen.finished += known.finished.len();
        self.seen.in_doubt += known.in_doubt.len();
        self.seen.repeated += self.call_counts(thread)?.values().filter(|times| **times > 1).count();
        Ok(())
    }

    /// Returns how often each call of a thread ran.
    fn call_counts(&self, thread: &str) -> Result<BTreeMap<String, usize>> {
        let mut ran = BTreeMap::new();
        for call in lines(&self.folder.join(format!("{thread}.calls")))? {
            *ran.entry(call).or_default() += 1;
        }
        Ok(ran)
    }
}

#[allow(clippy::disallowed_methods, reason = "the notes of this program, not workspace files")]
fn lines(path: &Path) -> Result<Vec<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
