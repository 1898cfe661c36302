//! `compact_conversation`.

use std::sync::Arc;

use deepagents_core::model::ModelRequest;
use deepagents_core::tool::{Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Inner;
use super::threshold::Length;

const NOTHING: &str = "Nothing to compact yet — conversation is within the token budget.";

pub(super) struct CompactConversation(pub(super) Arc<Inner>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct NoArgs {}

impl Tool for CompactConversation {
    type Args = NoArgs;

    fn name(&self) -> &str {
        "compact_conversation"
    }

    fn description(&self) -> &str {
        "Replaces the older part of this conversation by a summary, to make room. Use it between two pieces of work, when most of what came before no longer matters. The whole messages stay in a file."
    }

    async fn call(&self, _args: NoArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let cx = cx.context();
        let backend = self.0.workspace.of(cx);
        let mut ledger = self.0.take(cx);
        let shown = ledger.view.view(cx.messages(), &self.0.state(cx), self.0.options.args.as_ref());
        let mut work = self.0.work(ModelRequest::new(shown), cx, &*backend, self.0.model.clone(), ledger);
        // The request as it was last sent, and the answer that made this call.
        work.count = work.ledger.tally.last;
        let messages = cx.messages();
        let answer = messages.last_assistant().and_then(|at| messages.get(at)).and_then(|m| m.as_assistant());
        let reported = answer.and_then(|answer| answer.usage).map_or(0, |usage| usage.total());
        work.count.tokens = work.count.tokens.max(reported);
        let length = Length { tokens: work.count.tokens, ..work.length() };
        if !self.0.options.trigger.half_met(length) {
            return Ok(NOTHING.into());
        }
        match work.compact(self.0.options.keep, None, true).await {
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
