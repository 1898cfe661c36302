//! Commands that run in the background.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::run::Context;
use deepagents_fs::Backend;
use deepagents_fs::shell::{Command, CommandOutput};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tools::end_in_words;
use crate::shared::{agent_key, lock};

/// Maximum number of bytes of unread output to keep; the oldest are dropped first.
const MAX_OUTPUT_BYTES: usize = 256 << 10;
/// Maximum number of concurrent background commands per run.
const MAX_CONCURRENT_COMMANDS: usize = 16;
/// How long the end of a run waits for the commands that it stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether commands may run in the background, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundCommands {
    /// Not allowed.
    #[default]
    Off,
    /// Until the agent's run that started them ends or is cancelled. They keep running while it waits for a person.
    /// After a failed run, they continue until their time limit, or until the agent is dropped.
    EndWithRun,
    /// Until their time limit, or until the agent is dropped. Later runs of the thread can access them.
    EndWithAgent,
}

/// The running commands. They are stopped when the last clone is dropped.
#[derive(Clone, Default)]
pub(super) struct Running(Arc<Mutex<BTreeMap<String, Commands>>>);

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// The commands of one run or thread.
#[derive(Default)]
struct Commands {
    started: u64,
    all: BTreeMap<String, Job>,
}

struct Job {
    text: String,
    output: Arc<Mutex<Unread>>,
    ended: watch::Receiver<Option<Result<CommandOutput, String>>>,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

/// Output that was not read yet.
#[derive(Default)]
struct Unread {
    text: String,
    dropped: usize,
}

impl Unread {
    fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        let over = self.text.len().saturating_sub(MAX_OUTPUT_BYTES);
        let end = self.text.ceil_char_boundary(over);
        self.text.drain(..end);
        self.dropped += end;
    }
}

/// What is reported about a command.
pub(super) struct CommandReport {
    pub(super) output: String,
    /// Number of bytes dropped before the output.
    pub(super) dropped: usize,
    /// The outcome, if it has ended.
    pub(super) end: Option<Result<CommandOutput, String>>,
}

impl Running {
    /// Returns the key of the run or thread that owns an agent's commands.
    fn key(mode: BackgroundCommands, cx: &Context) -> String {
        match (mode, cx.thread()) {
            (BackgroundCommands::EndWithAgent, Some(thread)) => agent_key(thread, cx),
            _ => agent_key(cx.run_id(), cx),
        }
    }

    fn with<T>(&self, of: &str, act: impl FnOnce(&mut Commands) -> T) -> T {
        let mut all = lock(&self.0);
        act(all.entry(of.to_owned()).or_default())
    }

    /// Starts a command and returns its id.
    pub(super) fn start(
        &self,
        mode: BackgroundCommands,
        cx: &Context,
        backend: Arc<dyn Backend>,
        command: Command,
    ) -> Result<String, String> {
        let stop = match mode {
            BackgroundCommands::EndWithAgent => CancellationToken::new(),
            _ => cx.cancellation().child_token(),
        };
        let (output, (tell, ended)) = (Arc::<Mutex<Unread>>::default(), watch::channel(None));
        let job = Job {
            text: command.text().to_owned(),
            output: output.clone(),
            ended,
            stop: stop.clone(),
            _stop_when_dropped: stop.clone().drop_guard(),
        };
        let id = self.with(&Self::key(mode, cx), |commands| {
            let going = commands.all.values().filter(|job| job.ended.borrow().is_none()).count();
            if going >= MAX_CONCURRENT_COMMANDS {
                return Err(format!("{MAX_CONCURRENT_COMMANDS} commands are going on already; stop one of them first"));
            }
            commands.started += 1;
            let id = format!("command-{}", commands.started);
            commands.all.insert(id.clone(), job);
            Ok(id)
        })?;
        // The task must not hold the agent, as the commands end when it is dropped.
        let (reporter, name) = (cx.reporter(), id.clone());
        tokio::spawn(async move {
            let (pieces, mut from) = mpsc::channel::<String>(256);
            let Some(shell) = backend.shell() else { return };
            let keep = async {
                while let Some(piece) = from.recv().await {
                    lock(&output).push(&piece);
                    reporter.report(MiddlewareEvent::CommandOutput { command: name.clone(), text: piece });
                }
            };
            let (done, ()) = futures_util::future::join(shell.run(command, stop, Some(pieces)), keep).await;
            let done = done.map_err(|error| error.to_string());
            let end = done.as_ref().map_or_else(Clone::clone, end_in_words);
            reporter.report(MiddlewareEvent::CommandEnded { command: name.clone(), end });
            tell.send_replace(Some(done));
        });
        Ok(id)
    }

    /// Returns the output of a command since the last call, waiting at most this long for its end; with `stop`, stops
    /// it first.
    pub(super) async fn report(
        &self,
        mode: BackgroundCommands,
        cx: &Context,
        id: &str,
        wait: Duration,
        stop: bool,
    ) -> Result<CommandReport, String> {
        let (output, mut ended) = self.with(&Self::key(mode, cx), |commands| {
            let Some(job) = commands.all.get(id) else {
                let known = commands.all.iter().map(|(id, job)| format!("{id} ({})", job.text));
                let known = known.collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "there are none".to_owned() } else { format!("there are {known}") };
                return Err(format!("no command `{id}` goes on in the background here; {known}"));
            };
            if stop {
                job.stop.cancel();
            }
            Ok((job.output.clone(), job.ended.clone()))
        })?;
        let wait = if stop { STOP_TIMEOUT } else { wait };
        let end = tokio::select! {
            end = ended.wait_for(Option::is_some) => end.ok().and_then(|end| end.clone()),
            () = tokio::time::sleep(wait) => None,
            () = cx.cancellation().cancelled() => None,
        };
        let unread = std::mem::take(&mut *lock(&output));
        if end.is_some() {
            self.with(&Self::key(mode, cx), |commands| commands.all.remove(id));
        }
        Ok(CommandReport { output: unread.text, dropped: unread.dropped, end })
    }

    /// Stops the commands of a run when it ends, and waits for them.
    pub(super) async fn end(&self, mode: BackgroundCommands, cx: &Context) {
        if mode != BackgroundCommands::EndWithRun {
            return;
        }
        let key = Self::key(mode, cx);
        let ended = lock(&self.0).remove(&key);
        let mut ends: Vec<_> =
            ended.into_iter().flat_map(|ended| ended.all).map(|(_, job)| job.ended.clone()).collect();
        // The jobs and their drop guards have been dropped, so the commands are stopping.
        let all = ends.iter_mut().map(|end| async move { drop(end.wait_for(Option::is_some).await) });
        let _ = tokio::time::timeout(STOP_TIMEOUT, futures_util::future::join_all(all)).await;
    }
}
