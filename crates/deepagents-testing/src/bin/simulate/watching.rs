//! A process that follows the thread through its log while other processes run it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deepagents::{DeepAgent, Event, EventKind, FinishReason};
use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::LogPosition;
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::attempt::end_of;
use super::world::World;

/// Longer than the polling interval of the log.
const QUIET_TIME: Duration = Duration::from_secs(10);

/// Follows a thread until it is stopped.
pub(crate) struct Watcher {
    over: oneshot::Sender<()>,
    seen: JoinHandle<Watched>,
}

/// The number of events seen, by kind and agent.
#[derive(Default)]
pub(crate) struct Watched {
    from: LogPosition,
    events: BTreeMap<String, usize>,
}

impl Watcher {
    /// Starts following at the current end of a log.
    pub(crate) async fn begin(world: &Arc<World>, agent: &DeepAgent, thread: &str) -> Self {
        let threads = ThreadAccess::new(world.journal.clone(), agent.schema().clone());
        let from = end_of(world, thread).await;
        let (over, mut is_over) = oneshot::channel();
        let mut events = Box::pin(threads.watch(thread, from));
        let (world, mut seen) = (world.clone(), Watched { from, ..Watched::default() });
        let seen = tokio::spawn(async move {
            let (mut last, mut quiet) = (from, false);
            loop {
                let event = tokio::select! {
                    biased;
                    event = events.next() => event,
                    _ = &mut is_over, if !quiet => {
                        quiet = true;
                        continue;
                    }
                    () = tokio::time::sleep(QUIET_TIME), if quiet => break,
                };
                let Some(Ok(event)) = event else {
                    world.broken(&format!("who follows the thread by its log is told {event:?}"));
                    break;
                };
                let position = event.position.unwrap_or_default();
                world.check(position >= last && event.kind.is_durable(), || {
                    format!("who follows the log is told {event:?} after {last}")
                });
                last = position;
                *seen.events.entry(name(&event)).or_default() += 1;
            }
            seen
        });
        Self { over, seen }
    }

    /// Stops after the last events have arrived.
    pub(crate) async fn end(self, world: &World) -> Watched {
        let _ = self.over.send(());
        self.seen.await.unwrap_or_else(|error| {
            world.broken(&format!("who follows the thread by its log fails: {error}"));
            Watched::default()
        })
    }
}

impl Watched {
    /// Checks that each event of a run that comes from its log was also seen by following the log.
    pub(crate) fn check(&self, world: &World, told: &BTreeMap<u64, Event>) {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for event in told.values().filter(|event| event.position > Some(self.from)) {
            let told_by_log = match &event.kind {
                // The log does not name the main agent.
                EventKind::AgentStarted { .. } => !event.path.is_empty(),
                // A repeated call started earlier. A run that fails because of its log cannot record the failure.
                EventKind::ToolStarted { .. } | EventKind::AgentFailed { .. } | EventKind::RunFailed { .. } => false,
                // A run that suspends itself for others records nothing.
                EventKind::AgentFinished { stop, .. } | EventKind::RunFinished { stop, .. } => {
                    *stop != FinishReason::Suspended
                }
                _ => true,
            };
            if told_by_log {
                *times.entry(name(event)).or_default() += 1;
            }
        }
        for (name, told) in times {
            let seen = self.events.get(&name).copied().unwrap_or(0);
            world.check(told <= seen, || format!("{name} was told {told} times, and by the log {seen} times"));
        }
    }
}

/// Returns the kind of an event and its agent.
fn name(event: &Event) -> String {
    let kind = serde_json::to_value(event).ok();
    let kind = kind.as_ref().and_then(|event| event.get("type")).and_then(Value::as_str).unwrap_or_default();
    format!("{kind} {}", event.path.join("/"))
}
