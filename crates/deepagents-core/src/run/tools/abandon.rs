//! Abandons an unfinished turn: running calls are aborted, and open calls are answered.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::batch::{Progress, Running, Turn};
use crate::error::Result;
use crate::ids::CallId;
use crate::journal::{ChildLog, Record};
use crate::middleware::ToolResponse;
use crate::run::driver::Driver;
use crate::run::left_calls::{unknown_outcome, with_output};
use crate::state::ChildState;

/// How long aborted tools may take to stop.
const ABORT_GRACE: Duration = Duration::from_secs(1);
/// How long sub-agents may take to end when the run is halted. Their own tools have the grace period above.
const CHILD_GRACE: Duration = Duration::from_secs(3);

impl Driver {
    /// Aborts running calls, keeps finished results and answers the rest. Results, and the messages that tools add
    /// beside them, come in the same order as in a complete turn.
    pub(super) async fn abandon(&mut self, turn: &mut Turn, why: &str) -> Result<()> {
        // Sub-agents end by themselves, so that their work is saved and reported.
        let mut above: HashSet<usize> = HashSet::new();
        for call in turn.by_task.values() {
            if call.info.children.load(Ordering::Relaxed) > 0 {
                above.insert(call.at);
            } else {
                call.handle.abort();
            }
        }
        let mut kept =
            self.settle(turn, CHILD_GRACE, |turn| turn.by_task.values().any(|c| above.contains(&c.at))).await;
        turn.running.abort_all();
        kept = kept.and(self.settle(turn, ABORT_GRACE, |turn| !turn.by_task.is_empty()).await);
        turn.running.detach_all();
        let aborted = above.iter().filter_map(|at| turn.calls.get(*at)).filter(|call| call.is_running());
        let aborted: HashSet<CallId> = aborted.map(|call| call.id.clone()).collect();
        let mut logged = if aborted.is_empty() { Vec::new() } else { self.logged_children(&aborted).await? };
        for at in 0..turn.calls.len() {
            let Some(planned) = turn.calls.get(at) else { continue };
            match planned.state {
                Progress::Finished { .. } => continue,
                Progress::Pending => self.queue_started(turn, at),
                Progress::Running | Progress::Interrupted => {}
            }
            let running = turn.by_task.values().find(|task| task.at == at);
            let output = turn.outputs.remove(&at).or_else(|| running.and_then(|task| task.info.take_output()));
            let text = match planned.state {
                Progress::Pending if planned.begun => unknown_outcome(planned.call.name()),
                _ => format!("The call of {} was not completed: {why}.", planned.call.name()),
            };
            let text = with_output(text, output.as_deref());
            // Keep what a sub-agent had changed before it started to wait.
            let call = planned.id.clone();
            let mut untaken = running.map(|task| task.info.take_child_logs(None)).unwrap_or_default();
            untaken.extend(turn.untaken.extract_if(.., |child| child.call == call));
            if aborted.contains(&call) {
                // The log also contains what an earlier process left.
                untaken = logged.extract_if(.., |child| child.call == call).collect();
            }
            let child_state = self.joined_below(&call, untaken)?;
            let response = ToolResponse { child_state, ..ToolResponse::error(text).synthetic() };
            kept = kept.and(self.finished(turn, at, response));
        }
        kept.and(self.flush().await)
    }

    /// Records the output so far of the running calls, for the process that resumes the run.
    pub(super) async fn keep_outputs(&mut self, turn: &mut Turn) -> Result<()> {
        for Running { at, info, .. } in turn.by_task.values() {
            let (Some(planned), Some(output)) = (turn.calls.get(*at), info.take_output()) else { continue };
            // If the call is cancelled before the process exits, its result includes this output.
            turn.outputs.insert(*at, output.clone());
            self.log.push(|| Record::ToolLeft { call: planned.id.clone(), output });
        }
        self.flush().await
    }

    /// Processes calls that end within a time limit, for as long as `worth` returns true.
    async fn settle(&mut self, turn: &mut Turn, time: Duration, worth: impl Fn(&Turn) -> bool) -> Result<()> {
        let mut kept = Ok(());
        let mut grace = std::pin::pin!(tokio::time::sleep(time));
        while worth(turn) {
            let joined = tokio::select! {
                biased;
                joined = turn.running.join_next_with_id() => joined,
                () = &mut grace => None,
            };
            match joined {
                Some(Err(error)) if error.is_cancelled() => {
                    let Some(aborted) = turn.by_task.remove(&error.id()) else { continue };
                    turn.untaken.extend(aborted.info.take_child_logs(None));
                    turn.outputs.extend(aborted.info.take_output().map(|output| (aborted.at, output)));
                }
                Some(joined) => {
                    kept = kept.and(self.joined(turn, joined));
                    kept = kept.and(self.flush().await);
                }
                None => break,
            }
        }
        kept
    }

    /// Returns the changes of the sub-agents of a call that does not finish, to be merged with its result.
    pub(super) fn joined_below(&mut self, call: &CallId, untaken: Vec<ChildLog>) -> Result<Option<ChildState>> {
        let mut left = self.left_below(call, untaken)?;
        let last = left.pop();
        for child in left {
            let (joined, _conflicts) = self.state.join(&child)?;
            self.update(joined)?;
        }
        Ok(last)
    }
}
