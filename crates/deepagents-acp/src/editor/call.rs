//! The tool call in flight: ties the editor's files and terminals to it, and refuses calls that the mode forbids.

use std::fmt;
use std::sync::{Arc, OnceLock};

use deepagents::core::error::Result;
use deepagents::core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents::core::tool::ToolContext;
use deepagents::fs::Backend;
use serde_json::json;

use crate::policy::{Policy, PolicyDecision};
use crate::setup::Gated;
use crate::show::old_text;

/// Name of the event with a file's content before it is written.
pub(crate) const BEFORE: &str = "acp_before";
/// Name of the event with the terminal that a command runs in.
pub(crate) const TERMINAL: &str = "acp_terminal";

tokio::task_local! {
    static CURRENT: ToolContext;
}

/// The tool call that this task makes.
pub(crate) struct CurrentCall;

impl CurrentCall {
    /// Whether a tool call is in flight. Reads by the harness itself do not go through the editor.
    pub(crate) fn is_there() -> bool {
        CURRENT.try_with(|_| ()).is_ok()
    }

    /// Reports the terminal that the call runs in, in order with the call's other events.
    pub(crate) fn runs_in(terminal: &str) {
        let _ = CURRENT.try_with(|cx| {
            cx.custom(TERMINAL, json!({"call": cx.call_id(), "terminal": terminal}));
        });
    }
}

/// Sets the current call for the editor's files and terminals, and refuses what the session's mode forbids.
pub(crate) struct EditorCalls {
    pub(crate) policy: Arc<Policy>,
    /// Tools with side effects.
    pub(crate) gated: Arc<Gated>,
    pub(crate) workspace: Arc<OnceLock<Arc<dyn Backend>>>,
}

impl fmt::Debug for EditorCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EditorCalls").finish_non_exhaustive()
    }
}

/// The result for the model in plan mode.
const PLANNING: &str = "Not done: in plan mode nothing is changed and nothing is run. Look around with tools that only \
                        read, and say what you would do; the person switches the mode when it is to be done.";

impl Middleware for EditorCalls {
    fn name(&self) -> &str {
        "EditorCalls"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let call = &request.call;
        if self.gated.has(call, request.tool.as_ref()) && self.policy.decide(&call.name) == PolicyDecision::Refuse {
            return Ok(ToolResponse::error(PLANNING).denied_by("the mode plan", PLANNING));
        }
        let cx = request.cx.clone();
        if call.name == "write_file"
            && let Some(workspace) = self.workspace.get()
        {
            let before = CURRENT.scope(cx.clone(), old_text(&**workspace, cx.state(), &call.args)).await;
            cx.custom(BEFORE, json!({"call": cx.call_id(), "old": before}));
        }
        CURRENT.scope(cx, next.run(request)).await
    }
}
