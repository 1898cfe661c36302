//! Compaction requested by the model, with the tool `compact_conversation`, or by a person.

use std::sync::Arc;

use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::Update;
use deepagents_core::tool::{DynTool, ToolContext, ToolError, ToolOutput, tool_fn};
use deepagents_fs::Backend;
use schemars::JsonSchema;
use serde::Deserialize;

use super::threshold::{Length, Size};
use super::work::Work;
use super::{Inner, Summarization};

const NOTHING: &str = "Nothing to compact yet — conversation is within the token budget.";

/// Number of messages to keep when a person requests compaction: the last exchange.
const KEPT_MESSAGES: usize = 2;

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

impl Summarization {
    /// Replaces all but the last exchange with a summary, however full the window is. Returns the number of evicted
    /// messages and the state update, or `None` if there is nothing to evict.
    pub(crate) async fn compact_now(&self, cx: &Context) -> Result<Option<(usize, Update)>, String> {
        let backend = self.inner.workspace.kept_for(cx);
        let mut work = self.inner.requested(cx, &*backend);
        work.measure();
        let evicted = work.compact(Size::Messages(KEPT_MESSAGES), None, true).await?;
        Ok(evicted.map(|evicted| (evicted, work.update())))
    }
}

impl Inner {
    /// Starts work on the conversation as it is shown, between its requests.
    fn requested<'a>(&'a self, cx: &'a Context, backend: &'a dyn Backend) -> Work<'a> {
        let mut counts = self.take(cx);
        let shown = counts.view.view(cx.messages(), &self.state(cx), self.options.args.as_ref());
        let work = self.work(ModelRequest::new(shown), cx, backend, self.model.clone(), counts);
        Work { manual: true, ..work }
    }

    async fn compact(&self, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let cx = cx.context();
        let backend = self.workspace.kept_for(cx);
        let mut work = self.requested(cx, &*backend);
        // It counts the last request; the answer that made this call comes on top.
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
