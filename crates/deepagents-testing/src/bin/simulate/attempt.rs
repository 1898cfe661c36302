//! One run of a process: its input, its subscribers, and its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deepagents::{DeepAgent, Error, Event, EventKind, Outcome, RunInput, Subscribe};
use deepagents_core::journal::{Journal, JournalError, LogPosition};
use deepagents_core::run::{RunError, RunHandle};
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;

use super::process::Process;
use super::watching::Watcher;
use super::world::World;

/// Longer than any run takes, including all delays.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(3 * 3600);

/// How a run ended.
pub(crate) enum Ended {
    Outcome(Box<Outcome>),
    Failed(Box<RunError>),
    /// The process has ended.
    Crashed,
}

/// Executes a run while `meanwhile` disturbs it, and checks its events. `seen` is the number of claims of the thread
/// when the input was chosen.
pub(crate) async fn attempt<F: Future<Output = ()>>(
    world: &Arc<World>,
    process: &Arc<Process>,
    agent: &DeepAgent,
    (thread, input, seen): (&str, RunInput, usize),
    meanwhile: impl FnOnce(RunHandle) -> F,
) -> Ended {
    let watcher = Watcher::begin(world, agent, thread).await;
    let run = agent.run(input).detach();
    let readers = [Reader::Quick, Reader::Slow].map(|reader| (reader, read(world, &run, reader, thread.to_owned())));
    // A subscriber that never reads.
    let _dead = run.subscribe(Subscribe::Start);
    let ended = async {
        tokio::select! {
            biased;
            () = process.ended() => Ended::Crashed,
            ended = tokio::time::timeout(HANG_TIMEOUT, run.outcome()) => match ended {
                Ok(Ok(outcome)) => Ended::Outcome(Box::new(outcome)),
                Ok(Err(error)) => Ended::Failed(error),
                Err(_) => {
                    world.broken(&format!("a run of process {} hangs", process.number));
                    process.end();
                    Ended::Crashed
                }
            },
        }
    };
    let (ended, ()) = tokio::join!(ended, meanwhile(run.clone()));
    let watched = watcher.end(world).await;
    if matches!(ended, Ended::Crashed) {
        readers.into_iter().for_each(|(_, reader)| reader.abort());
        return ended;
    }
    let mut durable = Vec::new();
    for (reader, seen) in readers {
        match tokio::time::timeout(HANG_TIMEOUT, seen).await {
            Ok(Ok(seen)) => {
                // Skipped with background agents, because events on other threads are reported too, and other processes
                // may have worked on this one.
                if !world.scenario.has_background() {
                    watched.check(world, &seen);
                }
                durable.push(seen.keys().copied().collect::<BTreeSet<_>>());
            }
            _ => world.broken(&format!("the {reader:?} reader is never told of the end")),
        }
    }
    let same = durable.windows(2).all(|pair| pair.first() == pair.last());
    world.check(same, || format!("two readers were not told the same: {durable:?}"));
    if let Ended::Failed(error) = &ended {
        world.note(&format!("run of process {} failed: {error}", process.number));
        // Another process may have answered the interrupts after this input was chosen.
        let others = |claims: &[u64]| claims.iter().skip(seen).any(|claim| *claim != process.number);
        let answered = matches!(*error.error, Error::Answer(_)) && others(&world.lock().claims);
        world.check(answered || is_expected(&error.error), || format!("a run failed with {:?}", error.error));
    }
    ended
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Quick,
    Slow,
}

/// Follows a run to its end and returns its durable events by sequence number.
fn read(world: &Arc<World>, run: &RunHandle, reader: Reader, thread: String) -> JoinHandle<BTreeMap<u64, Event>> {
    let (mut events, world) = (run.subscribe(Subscribe::Start), world.clone());
    tokio::spawn(async move {
        let (mut next, mut durable, mut ended) = (0, BTreeMap::new(), false);
        while let Some(event) = events.next().await {
            world.check(!ended, || format!("event {} comes after the end", event.seq));
            // A `Lagged` event replaces dropped events and has the number of the last one.
            let lagged = matches!(event.kind, EventKind::Lagged { .. });
            world.check(lagged || event.seq == next, || format!("event {} comes where {next} was to", event.seq));
            next = event.seq + 1;
            ended = event.kind.is_end();
            let position = event.position;
            if event.kind.is_durable() {
                durable.insert(event.seq, event);
            }
            if let Some(position) = position {
                let end = end_of(&world, &thread).await;
                world
                    .check(end >= position, || format!("an event stems from record {position}, the log ends at {end}"));
            }
            if reader == Reader::Slow {
                tokio::time::sleep(world.random_time(400)).await;
            }
        }
        world.check(ended, || "the events end without the end of the run".to_owned());
        durable
    })
}

pub(crate) async fn end_of(world: &World, thread: &str) -> LogPosition {
    let info = world.journal.threads().get(thread).now_or_never();
    info.and_then(Result::ok).flatten().map_or(0, |info| info.end)
}

/// Whether an error comes from an injected fault, or from another process that owns the thread.
pub(crate) fn is_expected(error: &Error) -> bool {
    match error {
        Error::Journal(
            JournalError::Busy { .. }
            | JournalError::Fenced { .. }
            | JournalError::Unavailable { .. }
            | JournalError::Storage(_),
        ) => true,
        Error::Hook { source, .. } => is_expected(source),
        other => {
            let text = other.to_string();
            text.contains("injected") || text.contains("no longer ours") || text.contains("an earlier append")
        }
    }
}
