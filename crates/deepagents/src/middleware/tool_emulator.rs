//! Emulation of tools by a model, for tests and trials.

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelRequest};

use crate::shared::Shared;

/// Answers tool calls with results made up by a model; the tools themselves are not executed.
///
/// With a scripted or replaying model the results are the same each time; with a real one they are plausible. The
/// requests are not part of the conversation, but their tokens count against the budget. Everything around a call works
/// as usual: limits, approvals, storage of large results in files.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::ToolEmulator;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use serde_json::json;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let plays = ScriptedModel::new([Turn::text("3 files: a.txt, b.txt, c.txt")]);
/// let model = ScriptedModel::new([Turn::call("ls", json!({"path": "/"})), Turn::text("There are three.")]);
/// let emulator = ToolEmulator::new(plays).tools(["ls"]);
/// let outcome = DeepAgent::builder().model(model).middleware(emulator).build()?.invoke("How many files?").await?;
/// assert_eq!(outcome.text(), "There are three.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolEmulator {
    model: Shared<dyn ChatModel>,
    /// The emulated tools; `None` for all.
    tools: Option<BTreeSet<String>>,
}

impl ToolEmulator {
    /// Emulates all tools with this model.
    pub fn new(model: impl ChatModel) -> Self {
        Self { model: Shared(Arc::new(model)), tools: None }
    }

    /// Emulates only these tools; none if the list is empty.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }
}

impl Middleware for ToolEmulator {
    fn name(&self) -> &str {
        "ToolEmulator"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let call = &request.call;
        if self.tools.as_ref().is_some_and(|tools| !tools.contains(&call.name)) {
            return next.run(request).await;
        }
        let known = request.tool.as_ref().map(|tool| tool.spec().description);
        let description = known.as_deref().unwrap_or("(nothing is known of it)");
        let asked = format!(
            "You stand in for a tool in a rehearsal. Give only the output that a real call could give, plausible and \
             concrete, without a word about it.\n\nTool: {}\nWhat it does: {description}\nArguments: {}",
            call.name, call.args
        );
        let output = request.cx.invoke_model(&self.model.0, ModelRequest::new(asked.as_str())).await?;
        Ok(ToolResponse::text(output.message.text()))
    }
}
