//! A process that follows the thread by its log, while others run it.

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

/// Longer than the log is not looked at.
const QUIET: Duration = Duration::from_secs(10);

/// Follows a thread until it is told that nothing more comes.
pub(crate) struct Watcher {
    over: oneshot::Sender<()>,
    seen: JoinHandle<Watched>,
}

/// What was seen: what happened to which agent, and how often.
#[derive(Default)]
pub(crate) struct Watched {
    from: LogPosition,
    events: BTreeMap<String, usize>,
}

impl Watcher {
    /// Follows from the present end of a log.
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
                    () = tokio::time::sleep(QUIET), if quiet => break,
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

    /// Nothing more comes.
    pub(crate) async fn end(self, world: &World) -> Watched {
        let _ = self.over.send(());
        self.seen.await.unwrap_or_else(|error| {
            world.broken(&format!("who follows the thread by its log fails: {error}"));
            Watched::default()
        })
    }
}

impl Watched {
    /// What a run tells that stems from its log is told to those who follow the log.
    pub(crate) fn check(&self, world: &World, told: &BTreeMap<u64, Event>) {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for event in told.values().filter(|event| event.position > Some(self.from)) {
            let told_by_log = match &event.kind {
                // The log does not name the main agent.
                EventKind::AgentStarted { .. } => !event.path.is_empty(),
                // A call that is made again began earlier, and a run that fails for want of its log cannot write that it does.
                EventKind::ToolStarted { .. } | EventKind::AgentFailed { .. } | EventKind::RunFailed { .. } => false,
                // Nothing is written where a run leaves its thread to others.
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

/// What happened, and to whom.
fn name(event: &Event) -> String {
    let kind = serde_json::to_value(event).ok();
    let kind = kind.as_ref().and_then(|event| event.get("type")).and_then(Value::as_str).unwrap_or_default();
    format!("{kind} {}", event.path.join("/"))
}
