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
/// Maximum number of ended commands, of all runs, to keep until they are asked about.
const MAX_UNREAD_COMMANDS: usize = 256;
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
pub(super) struct Running(Arc<Mutex<Commands>>);

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Commands {
    /// How many commands each run or thread has started.
    started: BTreeMap<String, u64>,
    /// Those that had ended at the last start, in that order, then the others, the oldest first.
    jobs: Vec<Job>,
}

struct Job {
    /// The key of its run or thread.
    owner: String,
    id: String,
    text: String,
    output: Arc<Mutex<Unread>>,
    ended: watch::Receiver<Option<Result<CommandOutput, String>>>,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl Job {
    /// Whether the command has ended, even if it was given up without an outcome.
    fn has_ended(&self) -> bool {
        self.ended.borrow().is_some() || self.ended.has_changed().is_err()
    }
}

impl Commands {
    fn of(&self, owner: &str) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |job| job.owner == owner)
    }

    fn push(&mut self, job: Job) {
        // Moves those that have ended since the last start behind those that ended before. The keys are cached, because a
        // command may end meanwhile.
        self.jobs.sort_by_cached_key(|job| !job.has_ended());
        self.jobs.push(job);
        if self.jobs.iter().filter(|job| job.has_ended()).count() > MAX_UNREAD_COMMANDS {
            self.jobs.remove(0);
        }
    }
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
        let owner = Self::key(mode, cx);
        let mut commands = lock(&self.0);
        if commands.of(&owner).filter(|job| !job.has_ended()).count() >= MAX_CONCURRENT_COMMANDS {
            return Err(format!("{MAX_CONCURRENT_COMMANDS} commands are going on already; stop one of them first"));
        }
        let number = commands.started.entry(owner.clone()).or_default();
        *number += 1;
        let id = format!("command-{number}");
        commands.push(Job {
            owner,
            id: id.clone(),
            text: command.text().to_owned(),
            output: output.clone(),
            ended,
            stop: stop.clone(),
            _stop_when_dropped: stop.clone().drop_guard(),
        });
        drop(commands);
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
        let owner = Self::key(mode, cx);
        let (output, mut ended) = {
            let commands = lock(&self.0);
            let Some(job) = commands.of(&owner).find(|job| job.id == id) else {
                let known = commands.of(&owner).map(|job| format!("{} ({})", job.id, job.text));
                let known = known.collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "there are none".to_owned() } else { format!("there are {known}") };
                return Err(format!("no command `{id}` goes on in the background here; {known}"));
            };
            if stop {
                job.stop.cancel();
            }
            (job.output.clone(), job.ended.clone())
        };
        let wait = if stop { STOP_TIMEOUT } else { wait };
        let end = tokio::select! {
            end = ended.wait_for(Option::is_some) => end.ok().and_then(|end| end.clone()),
            () = tokio::time::sleep(wait) => None,
            () = cx.cancellation().cancelled() => None,
        };
        let unread = std::mem::take(&mut *lock(&output));
        if end.is_some() {
            lock(&self.0).jobs.retain(|job| job.owner != owner || job.id != id);
        }
        Ok(CommandReport { output: unread.text, dropped: unread.dropped, end })
    }

    /// Stops the commands of a run when it ends, and waits for them.
    pub(super) async fn end(&self, mode: BackgroundCommands, cx: &Context) {
        if mode != BackgroundCommands::EndWithRun {
            return;
        }
        let owner = Self::key(mode, cx);
        let mut ends: Vec<_> = {
            let mut commands = lock(&self.0);
            commands.started.remove(&owner);
            commands.jobs.extract_if(.., |job| job.owner == owner).map(|job| job.ended.clone()).collect()
        };
        // The jobs and their drop guards have been dropped, so the commands are stopping.
        let all = ends.iter_mut().map(|end| async move { drop(end.wait_for(Option::is_some).await) });
        let _ = tokio::time::timeout(STOP_TIMEOUT, futures_util::future::join_all(all)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ended_commands_that_nobody_asked_about_are_forgotten() {
        let mut commands = Commands::default();
        let (_runs, runs_on) = watch::channel(None);
        let mut push = |number: usize, ended| {
            let stop = CancellationToken::new();
            commands.push(Job {
                owner: format!("run-{}", number % 2),
                id: format!("command-{number}"),
                text: String::new(),
                output: Arc::default(),
                ended,
                stop: stop.clone(),
                _stop_when_dropped: stop.drop_guard(),
            });
        };
        push(0, runs_on);
        (1..=MAX_UNREAD_COMMANDS + 2).for_each(|number| push(number, watch::channel(Some(Err(String::new()))).1));
        let left: Vec<&str> = commands.jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(left.len(), MAX_UNREAD_COMMANDS + 1);
        assert!(left[0] == "command-3" && left.contains(&"command-0"));
        assert_eq!(commands.of("run-0").next().unwrap().id, "command-4");
    }
}
