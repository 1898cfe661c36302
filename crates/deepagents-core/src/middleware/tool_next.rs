//! The rest of the stack around a tool call, as a wrap hook receives it.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::Stack;
use super::wrapped::wrap;
use crate::context::RunObserver;
use crate::error::{Error, Result};
use crate::ids::CallId;
use crate::interrupt::{Decision, DecisionAuthor, DecisionKind, DecisionRecord};
use crate::message::{Block, ToolCall};
use crate::panics::blamed;
use crate::state::Update;
use crate::tool::{ChildState, DynTool, InvalidArguments, ToolContext, ToolError, ToolOutput};

/// A tool call about to be made.
///
/// ```
/// use deepagents_core::middleware::wrap_tool_call;
/// /// Searches no further than ten results.
/// let bounded = wrap_tool_call(|mut request, next| async move {
///     if request.call.name == "search" {
///         request.call.args["limit"] = 10.into();
///     }
///     next.run(request).await
/// });
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolRequest {
    /// The call as the model made it. A wrap hook may change its arguments.
    pub call: ToolCall,
    /// The tool, or `None` if no tool has that name. A wrap hook may supply one or answer the call itself.
    pub tool: Option<Arc<dyn DynTool>>,
    /// The context of the call.
    pub cx: ToolContext,
}

impl ToolRequest {
    /// Creates a call of a tool, or of an unknown one.
    pub fn new(call: ToolCall, tool: Option<Arc<dyn DynTool>>, cx: ToolContext) -> Self {
        Self { call, tool, cx }
    }

    /// Returns the harness's own id of the call.
    pub fn id(&self) -> &CallId {
        self.cx.call_id()
    }

    /// Asks a person about the call because of a rule, showing the arguments as wrap hooks have changed them. Otherwise
    /// the same as [`ToolContext::interrupt_by`].
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while there is no answer.
    pub fn interrupt_by(
        &self,
        rule: impl Into<String>,
        text: impl Into<String>,
        allowed: impl Into<Vec<DecisionKind>>,
    ) -> Result<Decision, ToolError> {
        self.cx.clone().changed_to(&self.call).interrupt_by(rule, text, allowed)
    }
}

impl std::fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolRequest")
            .field("call", &self.call)
            .field("known", &self.tool.is_some())
            .finish_non_exhaustive()
    }
}

/// The result of a tool call.
///
/// ```
/// use deepagents_core::middleware::{ToolResponse, wrap_tool_call};
/// /// Keeps one tool from being called.
/// let barred = wrap_tool_call(|request, next| async move {
///     match request.call.name.as_str() {
///         "launch" => Ok(ToolResponse::error("This is a rehearsal.")),
///         _ => next.run(request).await,
///     }
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolResponse {
    /// The content shown to the model.
    pub content: Vec<Block>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether it replaces a result that the tool did not return; see [`ToolMessage::is_synthetic`].
    ///
    /// [`ToolMessage::is_synthetic`]: crate::message::ToolMessage::is_synthetic
    pub is_synthetic: bool,
    /// Whether the call was refused before the tool did anything: the tool is unknown or hidden, its arguments are
    /// invalid, or the call is not allowed. It is not stored.
    pub is_refused: bool,
    /// The state changes.
    pub update: Update,
    /// The error that a failed call ended with, for wrap hooks that downcast it. It is not stored.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// Data for the application.
    pub artifact: Option<Value>,
    /// The state a sub-agent leaves, to be merged into this agent's.
    pub child_state: Option<ChildState>,
    /// A decision made about the call without a question, with its author. It is logged and emitted as an event.
    pub decision: Option<DecisionRecord>,
}

impl ToolResponse {
    /// Creates a successful text response.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// Creates an error response.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Adds state changes.
    #[must_use]
    pub fn with_update(mut self, update: Update) -> Self {
        self.update = self.update.and(update);
        self
    }

    /// Marks the response as a replacement for a result that the tool did not return.
    #[must_use]
    pub fn synthetic(mut self) -> Self {
        self.is_synthetic = true;
        self
    }

    /// Marks the response as a refusal of a call that was not made.
    #[must_use]
    pub fn refused(mut self) -> Self {
        self.is_refused = true;
        self
    }

    /// Records that a rule allowed the call, unless another decision about it is recorded.
    #[must_use]
    pub fn allowed_by(mut self, rule: impl Into<String>) -> Self {
        let author = DecisionAuthor::Rule { text: rule.into() };
        self.decision.get_or_insert_with(|| DecisionRecord::new(Decision::Approve, author));
        self
    }

    /// Records that a rule refused the call, with the message for the model.
    #[must_use]
    pub fn denied_by(mut self, rule: impl Into<String>, message: impl Into<String>) -> Self {
        let decision = Decision::Reject { message: Some(message.into()) };
        self.decision = Some(DecisionRecord::new(decision, DecisionAuthor::Rule { text: rule.into() }));
        self.refused()
    }
}

/// The rest of the stack around a tool call, down to the tool. It is owned and `Clone`, like
/// [`ModelNext`](super::ModelNext).
///
/// ```
/// use deepagents_core::middleware::wrap_tool_call;
/// /// Makes a failed call once more.
/// let again = wrap_tool_call(|request, next| async move {
///     let first = next.run(request.clone()).await?;
///     if first.is_error { next.run(request).await } else { Ok(first) }
/// });
/// ```
#[derive(Clone, Default)]
pub struct ToolNext {
    stack: Stack,
    at: usize,
    /// Observers that the call passes through before the stack, in reverse order.
    observers: Vec<Arc<dyn RunObserver>>,
}

impl ToolNext {
    /// Creates a call of the tool alone, without a stack, for tests of wrap hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a call of the tool with a stack around it.
    pub(crate) fn around(stack: Stack) -> Self {
        Self { stack, ..Self::default() }
    }

    /// Returns the call with an observer in front of it.
    pub(crate) fn through(mut self, observer: Arc<dyn RunObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Makes the call.
    ///
    /// The future returns an error only if the run must end. Any other failure is a response with `is_error`.
    pub fn run(&self, mut request: ToolRequest) -> BoxFuture<'static, Result<ToolResponse>> {
        let mut next = self.clone();
        request.cx = request.cx.made_again();
        if let Some(observer) = next.observers.pop() {
            return observer.tool(request, next);
        }
        let middleware = next.stack.get(next.at).cloned();
        let outermost = next.at == 0;
        next.at += 1;
        let begin = Box::new((request, next));
        Box::pin(async move {
            let begin = move || *begin;
            match &middleware {
                Some(middleware) => {
                    let call = async {
                        let call = {
                            let (request, next) = begin();
                            middleware.wrap_tool_call(request, next)
                        };
                        call.await
                    };
                    wrap(&**middleware, "wrap_tool_call", outermost, call).await
                }
                None => blamed(call_tool(begin().0), outermost, || None).await,
            }
        })
    }
}

impl std::fmt::Debug for ToolNext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolNext").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Maximum number of characters of an unknown tool's name that the model is shown.
const MAX_NAME_CHARS: usize = 128;
/// Maximum number of tools listed when the model calls an unknown one.
const MAX_LISTED_TOOLS: usize = 100;

async fn call_tool(request: ToolRequest) -> Result<ToolResponse> {
    let ToolRequest { call, tool, cx } = request;
    let Some(tool) = tool else {
        let names = cx.tool_names();
        let known = match names.split_at_checked(MAX_LISTED_TOOLS) {
            Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
            _ => names.join(", "),
        };
        let why = if cx.context().tools.is_gone(&call.name) {
            "is no longer a tool you have"
        } else {
            "is not a tool you have"
        };
        // No real tool name is this long, so an invented one is truncated.
        let name = match call.name.char_indices().nth(MAX_NAME_CHARS) {
            Some((at, _)) => format!("{}…", call.name.get(..at).unwrap_or_default()),
            None => call.name,
        };
        return Ok(ToolResponse::error(format!("Error: {name} {why}. Your tools are: {known}.")).refused());
    };
    let cx = cx.changed_to(&call);
    match tool.call(call.args, cx).await {
        Ok(ToolOutput { content, is_error, update, artifact, child_state }) => {
            Ok(ToolResponse { content, is_error, update, artifact, child_state, ..ToolResponse::default() })
        }
        Err(ToolError::Model { text, source }) => {
            let is_refused = source.as_ref().is_some_and(|source| source.is::<InvalidArguments>());
            let source = source.filter(|_| !is_refused).map(Arc::from);
            Ok(ToolResponse { source, is_refused, ..ToolResponse::error(text) })
        }
        Err(ToolError::Denied { text, rule }) => {
            let response = ToolResponse::error(&text).refused();
            Ok(rule.into_iter().fold(response, |response, rule| response.denied_by(rule, &text)))
        }
        Err(ToolError::Interrupted(pause)) => Err(Error::Interrupted(pause)),
        Err(ToolError::Fatal(source)) => Err(Error::Tool { name: call.name, source }),
    }
}
