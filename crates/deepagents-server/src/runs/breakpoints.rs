//! Stopping a run before or after its model or tools.

use std::sync::{Arc, OnceLock};

use deepagents::{Event, EventKind};
use deepagents_core::error::Result;
use deepagents_core::run::{RunObserver, RunStart, Suspender};

use super::run_options::OneOrMany;
use crate::error::ApiError;

/// Suspends a run at its client's breakpoints: before or after the model or the tools.
#[derive(Debug)]
pub(super) struct Breakpoints {
    /// Before the first model call.
    at_start: bool,
    /// Between a model's answer and its calls.
    after_model: bool,
    /// Between the results of calls and the next model call.
    after_tools: bool,
    run: OnceLock<Suspender>,
}

impl Breakpoints {
    /// Creates breakpoints at these nodes, or returns `None` if none are named. `is_new` says whether the run starts
    /// with an input instead of resuming.
    ///
    /// # Errors
    /// Returns an error if a node does not exist.
    pub(super) fn new(
        before: Option<&OneOrMany<String>>,
        after: Option<&OneOrMany<String>>,
        is_new: bool,
    ) -> Result<Option<Arc<Self>>, ApiError> {
        let named = |which: Option<&OneOrMany<String>>, node: &str| {
            which.is_some_and(|nodes| nodes.as_slice().iter().any(|name| name == "*" || name == node))
        };
        for (key, which) in [("interrupt_before", before), ("interrupt_after", after)] {
            if let Some(OneOrMany::One(name)) = which.filter(|which| which.as_slice() != ["*"]) {
                return Err(ApiError::invalid(format!("`{key}` must be a list of nodes or `*`, not `{name}`")));
            }
            let other = |name: &&String| !matches!(name.as_str(), "*" | "model" | "tools");
            if let Some(name) = which.and_then(|nodes| nodes.as_slice().iter().find(other)) {
                return Err(ApiError::invalid(format!(
                    "`{key}` has `{name}`, which is not a node; the nodes are model and tools, and * for both"
                )));
            }
        }
        let before_model = named(before, "model");
        let at_start = before_model && is_new;
        let after_model = named(before, "tools") || named(after, "model");
        let after_tools = before_model || named(after, "tools");
        let any = at_start || after_model || after_tools;
        Ok(any.then(|| Arc::new(Self { at_start, after_model, after_tools, run: OnceLock::new() })))
    }
}

impl RunObserver for Breakpoints {
    fn begin(&self, beginning: RunStart<'_>) -> Result<()> {
        if self.at_start {
            beginning.suspender.suspend();
        }
        // It observes only one run.
        let _ = self.run.set(beginning.suspender);
        Ok(())
    }

    fn event(&self, event: &Event) {
        let stops = match &event.kind {
            EventKind::ModelFinished { stop, .. } => {
                self.after_model && *stop == deepagents_core::model::StopReason::ToolCalls
            }
            EventKind::ToolFinished { .. } => self.after_tools,
            _ => false,
        };
        if stops
            && event.path.is_empty()
            && let Some(run) = self.run.get()
        {
            run.suspend();
        }
    }
}
