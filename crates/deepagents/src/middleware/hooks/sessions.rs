//! What a runner of hooks remembers of threads and runs.

use std::collections::{BTreeSet, VecDeque};

use deepagents_core::run::Context;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Hook, HookEvent, HookRun, HookRunner, transcript};
use crate::shared::{agent_key, lock};

#[derive(Debug, Default)]
pub(super) struct RunnerState {
    /// Threads that have started in this process.
    started: BTreeSet<String>,
    /// The latest runs without a thread, newest first.
    unsaved: VecDeque<String>,
    /// Whether the next thread replaces one that was cleared.
    cleared: bool,
    /// Threads, and runs without one, whose conversation was compacted since their last request.
    compacted: BTreeSet<String>,
    /// Runs that hooks have continued at their end, and how often.
    continued: Vec<(String, u32)>,
}

/// Maximum number of continued runs, and of runs without a thread, to remember.
const MAX_RUNS: usize = 200;
/// Maximum number of times that hooks may continue a run at its end.
const MAX_CONTINUATIONS: u32 = 20;

impl HookRunner {
    /// Returns the threads that have started in this process and are not finished, and the ids of the latest 200 runs
    /// without a thread.
    pub fn sessions(&self) -> Vec<String> {
        let known = lock(&self.inner.known);
        known.started.iter().chain(&known.unsaved).cloned().collect()
    }

    /// Signals that the program has finished with a thread, for a reason such as `exit`. After `clear`, the next thread
    /// to start replaces it.
    pub fn session_end(&self, thread: &str, reason: &str) -> impl Future<Output = Vec<HookRun>> + Send + use<> {
        let mut known = lock(&self.inner.known);
        known.started.remove(thread);
        known.unsaved.retain(|run| run != thread);
        known.compacted.remove(thread);
        known.cleared |= reason == "clear";
        drop(known);
        let (runner, thread) = (self.clone(), thread.to_owned());
        let fields = json!({"session_id": thread, "reason": reason});
        async move {
            let runs = runner.run(HookEvent::SessionEnd, fields, CancellationToken::new()).await;
            if let Some(directory) = &runner.inner.transcripts
                && runner.inner.hooks.iter().any(Hook::wants_transcript)
            {
                transcript::remove(directory, &thread).await;
            }
            runs
        }
    }

    /// Remembers that the main agent's conversation is compacted.
    pub(super) fn note_compaction(&self, cx: &Context) {
        lock(&self.inner.known).compacted.insert(session(cx).to_owned());
    }

    /// Returns how a thread starts in this process, or `None` if it already has.
    pub(super) fn begins(&self, cx: &Context) -> Option<&'static str> {
        let mut known = lock(&self.inner.known);
        match cx.thread() {
            Some(thread) if !known.started.insert(thread.to_owned()) => return None,
            Some(_) => {}
            None if known.unsaved.iter().any(|run| run == cx.run_id()) => return None,
            None => {
                known.unsaved.truncate(MAX_RUNS - 1);
                known.unsaved.push_front(cx.run_id().to_owned());
            }
        }
        if cx.messages().last_assistant().is_some() {
            return Some("resume");
        }
        Some(if std::mem::take(&mut known.cleared) { "clear" } else { "startup" })
    }

    /// Returns `true` if the main agent's conversation was compacted since the last call.
    pub(super) fn was_compacted(&self, cx: &Context) -> bool {
        lock(&self.inner.known).compacted.remove(session(cx))
    }

    /// Returns how often hooks have continued the agent's run.
    pub(super) fn continued(&self, cx: &Context) -> u32 {
        let key = agent_key(cx.run_id(), cx);
        lock(&self.inner.known).continued.iter().find(|(run, _)| *run == key).map_or(0, |(_, times)| *times)
    }

    /// Counts another continuation and returns whether it is allowed.
    pub(super) fn count_continuation(&self, cx: &Context) -> bool {
        let key = agent_key(cx.run_id(), cx);
        let mut known = lock(&self.inner.known);
        let at = known.continued.iter().position(|(run, _)| *run == key);
        let times = at.map_or(0, |at| known.continued.remove(at).1) + 1;
        // The oldest runs have ended.
        if known.continued.len() >= MAX_RUNS {
            known.continued.remove(0);
        }
        known.continued.push((key, times));
        times <= MAX_CONTINUATIONS
    }
}

/// Returns the thread, or the run's id if it has none.
fn session(cx: &Context) -> &str {
    cx.thread().unwrap_or(cx.run_id())
}
