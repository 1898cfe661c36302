//! Stopping a run before or after its tools.

use std::sync::{Arc, OnceLock};

use deepagents::{Event, EventKind, ModelRequest, RunHandle, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::error::Result;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent};
use deepagents_core::run::{ModelCall, RunObserver, RunStart};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;

use super::create::OneOrMany;

/// Suspends a run where its client wants to look.
#[derive(Debug)]
pub(super) struct Breakpoints {
    before: bool,
    after: bool,
    run: OnceLock<RunHandle>,
}

impl Breakpoints {
    /// For these nodes; none where the tools are not among them.
    pub(super) fn new(before: Option<&OneOrMany<String>>, after: Option<&OneOrMany<String>>) -> Option<Arc<Self>> {
        let stops = |which: Option<&OneOrMany<String>>| {
            which.is_some_and(|nodes| nodes.as_slice().iter().any(|name| name == "*" || name == "tools"))
        };
        let (before, after) = (stops(before), stops(after));
        (before || after).then(|| Arc::new(Self { before, after, run: OnceLock::new() }))
    }

    pub(super) fn hold(&self, run: &RunHandle) {
        // It is given one run only.
        let _ = self.run.set(run.clone());
    }
}

impl RunObserver for Breakpoints {
    fn begin(&self, _beginning: RunStart<'_>) -> Result<()> {
        Ok(())
    }

    fn model(
        self: Arc<Self>,
        _call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        model.stream(request)
    }

    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        Box::pin(next.run(request))
    }

    fn event(&self, event: &Event) {
        let stops = match &event.kind {
            EventKind::ModelFinished { stop, .. } => {
                self.before && *stop == deepagents_core::model::StopReason::ToolCalls
            }
            EventKind::ToolFinished { .. } => self.after,
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
