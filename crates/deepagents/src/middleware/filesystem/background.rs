//! Commands that go on while the agent does other things.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::run::Context;
use deepagents_fs::Backend;
use deepagents_fs::shell::{Command, CommandOutput};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tools::end_in_words;

/// Bytes of output that are kept until they are read; the oldest go first.
const MOST_OUTPUT: usize = 256 << 10;
/// Commands of one run that may go on at one time.
const MOST_COMMANDS: usize = 16;
/// How long a run waits at its end for what it stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether commands may go on while the agent does other things, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundCommands {
    /// They may not.
    #[default]
    Off,
    /// Until the run of the agent that started them ends, or is cancelled. While it waits for a person they go on; after
    /// one that fails, until their time is up or the agent is dropped.
    EndWithRun,
    /// Until their time is up or the agent is dropped; later runs of the thread find them.
    EndWithAgent,
}

/// The commands that go on. They end when this is dropped for the last time.
#[derive(Clone, Default)]
pub(super) struct Running(Arc<Mutex<BTreeMap<String, Commands>>>);

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// Those of one run or thread.
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

/// Output that nobody has read.
#[derive(Default)]
struct Unread {
    text: String,
    dropped: usize,
}

impl Unread {
    fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        let over = self.text.len().saturating_sub(MOST_OUTPUT);
        if over > 0 {
            let end = (over..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(self.text.len());
            self.text.drain(..end);
            self.dropped += end;
        }
    }
}

/// What is told of a command that was looked at.
pub(super) struct Look {
    pub(super) output: String,
    /// Bytes that were left out before it.
    pub(super) dropped: usize,
    /// How it ended, if it did.
    pub(super) end: Option<Result<CommandOutput, String>>,
}

impl Running {
    /// Whose commands an agent's are.
    fn key(mode: BackgroundCommands, cx: &Context) -> String {
        let owner = match (mode, cx.thread()) {
            (BackgroundCommands::EndWithAgent, Some(thread)) => thread,
            _ => cx.run_id(),
        };
        std::iter::once(owner).chain(cx.path().iter().map(String::as_str)).collect::<Vec<_>>().join("/")
    }

    fn with<T>(&self, of: &str, act: impl FnOnce(&mut Commands) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(all.entry(of.to_owned()).or_default())
    }

    /// Starts a command; gives its id.
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
            if going >= MOST_COMMANDS {
                return Err(format!("{MOST_COMMANDS} commands are going on already; stop one of them first"));
            }
            commands.started += 1;
            let id = format!("command-{}", commands.started);
            commands.all.insert(id.clone(), job);
            Ok(id)
        })?;
        // It must not keep the agent, with which commands may have to end.
        let (reporter, name) = (cx.reporter(), id.clone());
        tokio::spawn(async move {
            let (pieces, mut from) = mpsc::channel::<String>(256);
            let Some(shell) = backend.shell() else { return };
            let keep = async {
                while let Some(piece) = from.recv().await {
                    output.lock().unwrap_or_else(PoisonError::into_inner).push(&piece);
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

    /// What a command has printed since it was looked at last, after so long at most if it has not ended; with `stop` it
    /// is ended first.
    pub(super) async fn look(
        &self,
        mode: BackgroundCommands,
        cx: &Context,
        id: &str,
        wait: Duration,
        stop: bool,
    ) -> Result<Look, String> {
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
        let wait = if stop { PATIENCE } else { wait };
        let end = tokio::select! {
            end = ended.wait_for(Option::is_some) => end.ok().and_then(|end| end.clone()),
            () = tokio::time::sleep(wait) => None,
            () = cx.cancellation().cancelled() => None,
        };
        let unread = std::mem::take(&mut *output.lock().unwrap_or_else(PoisonError::into_inner));
        if end.is_some() {
            self.with(&Self::key(mode, cx), |commands| commands.all.remove(id));
        }
        Ok(Look { output: unread.text, dropped: unread.dropped, end })
    }

    /// Ends what goes on when a run ends, and waits until it has.
    pub(super) async fn end(&self, mode: BackgroundCommands, cx: &Context) {
        if mode != BackgroundCommands::EndWithRun {
            return;
        }
        let key = Self::key(mode, cx);
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        let mut ends: Vec<_> =
            ended.into_iter().flat_map(|ended| ended.all).map(|(_, job)| job.ended.clone()).collect();
        // The jobs are dropped by now, and with them their guards: they are being stopped.
        let all = ends.iter_mut().map(|end| async move { drop(end.wait_for(Option::is_some).await) });
        let _ = tokio::time::timeout(PATIENCE, futures_util::future::join_all(all)).await;
    }
}
