//! `compact_conversation`.

use std::sync::Arc;

use deepagents_core::model::ModelRequest;
use deepagents_core::tool::{DynTool, ToolContext, ToolError, ToolOutput, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Inner;
use super::threshold::Length;

const NOTHING: &str = "Nothing to compact yet — conversation is within the token budget.";

#[derive(Deserialize, JsonSchema)]
struct NoArgs {}

pub(super) fn compact_conversation(inner: &Arc<Inner>) -> Arc<dyn DynTool> {
    let inner = inner.clone();
    let description = "Replaces the older part of this conversation by a summary, to make room. Use it between two pieces of work, when most of what came before no longer matters. The whole messages stay in a file.";
    let compact = move |_: NoArgs, cx| {
        let inner = inner.clone();
        async move { inner.compact(cx).await }
    };
    Arc::new(tool_fn("compact_conversation", description, compact))
}

impl Inner {
    async fn compact(&self, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let cx = cx.context();
        let backend = self.workspace.kept_for(cx);
        let mut counts = self.take(cx);
        let shown = counts.view.view(cx.messages(), &self.state(cx), self.options.args.as_ref());
        let mut work = self.work(ModelRequest::new(shown), cx, &*backend, self.model.clone(), counts);
        work.manual = true;
        // The last request, and the answer that made this call.
        work.count = work.counts.tally.last;
        let messages = cx.messages();
        let answer = messages.last_assistant().and_then(|at| messages.get(at)).and_then(|m| m.as_assistant());
        let reported = answer.and_then(|answer| answer.usage).map_or(0, |usage| usage.total());
        work.count.tokens = work.count.tokens.max(reported);
        let length = Length { tokens: work.count.tokens, ..work.length() };
        if !self.options.trigger.met_by(length, 0.5) {
            return Ok(NOTHING.into());
        }
        match work.compact(self.options.keep, None, true).await {
            Ok(None) => Ok(NOTHING.into()),
            Ok(Some(count)) => {
                let text = format!("Conversation compacted. Summarized {count} messages into a concise summary.");
                Ok(ToolOutput::text(text).with_update(work.update()))
            }
            Err(error) => Err(ToolError::model(format!(
                "Compaction failed: an error occurred while generating the summary ({error}). The conversation has not been compacted — no messages were summarized or removed."
            ))),
        }
    }
}
