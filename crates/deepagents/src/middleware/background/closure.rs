//! Background work that is not done by an agent: it has no log and is lost with its process.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use deepagents_core::state::Update;
use deepagents_core::tool::{ChildState, ToolContext, ToolError, ToolOutput};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::TaskStatus;
use crate::shared::lock;
use crate::subagents::{DynSubAgent, SubAgentTask};
use crate::text;

/// Work in progress and completed work, by the name of the thread that it would have.
#[derive(Default)]
pub(super) struct Closures(Arc<Mutex<HashMap<String, Work>>>);

struct Work {
    cancel: CancellationToken,
    result: Option<ClosureResult>,
}

/// The result of the work.
#[derive(Clone)]
pub(super) struct ClosureResult {
    pub(super) status: TaskStatus,
    pub(super) text: String,
    pub(super) child_state: Option<ChildState>,
    pub(super) update: Update,
}

impl Closures {
    pub(super) fn start(&self, thread: String, agent: Arc<dyn DynSubAgent>, task: SubAgentTask, cx: &ToolContext) {
        let cancel = CancellationToken::new();
        let cx = cx.detached(cancel.clone());
        lock(&self.0).insert(thread.clone(), Work { cancel: cancel.clone(), result: None });
        let all = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let work = AssertUnwindSafe(async { agent.run(task, cx).await.map(|result| result.output) }).catch_unwind();
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => ClosureResult::new(TaskStatus::Cancelled, String::new()),
                ended = work => match ended {
                    Ok(ended) => ended.map_or_else(failed, closure_result),
                    Err(_) => ClosureResult::new(TaskStatus::Error, "It panicked.".to_owned()),
                },
            };
            let Some(all) = all.upgrade() else { return };
            if let Some(work) = lock(&all).get_mut(&thread).filter(|work| work.result.is_none()) {
                work.result = Some(result);
            }
        });
    }

    /// Returns the result, or `None` while the work is in progress. If its process has ended, the result is an error.
    pub(super) fn result(&self, thread: &str) -> Option<ClosureResult> {
        lock(&self.0).get(thread).map_or_else(|| Some(lost()), |work| work.result.clone())
    }

    pub(super) fn cancel(&self, thread: &str) {
        if let Some(work) = lock(&self.0).get_mut(thread) {
            work.cancel.cancel();
            work.result.get_or_insert_with(|| ClosureResult::new(TaskStatus::Cancelled, String::new()));
        }
    }

    pub(super) fn forget(&self, thread: &str) {
        lock(&self.0).remove(thread);
    }
}

impl Drop for Closures {
    fn drop(&mut self) {
        lock(&self.0).values().for_each(|work| work.cancel.cancel());
    }
}

impl ClosureResult {
    fn new(status: TaskStatus, text: String) -> Self {
        Self { status, text, child_state: None, update: Update::none() }
    }
}

/// Returns the result of work whose process has ended.
pub(super) fn lost() -> ClosureResult {
    ClosureResult::new(TaskStatus::Error, "The process that worked on it has ended.".to_owned())
}

fn closure_result(output: ToolOutput) -> ClosureResult {
    let text = text::of_blocks(&output.content);
    let status = if output.is_error { TaskStatus::Error } else { TaskStatus::Success };
    ClosureResult { status, text, child_state: output.child_state, update: output.update }
}

fn failed(error: ToolError) -> ClosureResult {
    let text = match error {
        ToolError::Interrupted(_) => {
            "It asked a person something, which a closure in the background cannot wait for: delegate it with \
             `task` instead."
                .to_owned()
        }
        ToolError::Model { text, .. } | ToolError::Denied { text, .. } => text,
        ToolError::Fatal(error) => error.to_string(),
        _ => "It failed.".to_owned(),
    };
    ClosureResult::new(TaskStatus::Error, text)
}
