//! Handling of failed tool calls: the text for the model, and which failures end the run.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::sync::Arc;

use deepagents_core::error::{Error, Result};
use deepagents_core::message::{Block, ToolCall};
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};

use crate::call_error::CallError;
use crate::shared::Shared;
use crate::text;

type Handler = dyn Fn(&FailedCall<'_>) -> ToolErrorAction + Send + Sync;

/// Decides what happens after a failed tool call. Without this middleware, the model is shown the text of the error and
/// the run continues, unless the tool returns [`ToolError::Fatal`](deepagents_core::tool::ToolError::Fatal).
///
/// Calls that were not made are no failures: those of unknown tools, with invalid arguments, and those that a person or
/// a rule refused. What the model is told about them stays unchanged.
///
/// The text of an error may contain details that the model should not see, such as server addresses; a handler can show
/// only the kind of error. Add [`ToolRetry`](crate::middleware::retry::ToolRetry) after this middleware, so that it
/// only sees the last failure.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::tool_errors::{ToolErrorAction, ToolErrors};
/// use deepagents::models::scripted::ScriptedModel;
/// let errors = ToolErrors::new(|failed| match failed.error {
///     Some(error) if error.is::<std::io::Error>() => ToolErrorAction::Say("Error: the disk cannot be used now.".into()),
///     Some(error) if error.to_string().contains("out of memory") => ToolErrorAction::Fail,
///     _ => ToolErrorAction::Unchanged,
/// });
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(errors).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolErrors {
    tools: Option<BTreeSet<String>>,
    handler: Shared<Handler>,
}

/// A failed tool call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedCall<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// The text that the model would be shown.
    pub text: &'a str,
    /// The error returned by the tool, if any.
    pub error: Option<&'a (dyn StdError + Send + Sync + 'static)>,
    /// Whether the tool requested that the run end.
    pub is_fatal: bool,
}

/// What happens after a failed call.
///
/// ```
/// use deepagents::ToolErrorAction;
/// use deepagents::middleware::ToolErrors;
/// let fatal = ToolErrors::new(|failed| match failed.error {
///     Some(error) if error.is::<std::io::Error>() => ToolErrorAction::Fail,
///     _ => ToolErrorAction::Unchanged,
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolErrorAction {
    /// The default behaviour.
    Unchanged,
    /// Shows this text to the model and continues the run.
    Say(String),
    /// Fails the run after the other calls of the turn have finished.
    Fail,
}

impl ToolErrors {
    /// Creates a middleware that calls this handler for every failed call that was made.
    pub fn new(handler: impl Fn(&FailedCall<'_>) -> ToolErrorAction + Send + Sync + 'static) -> Self {
        Self { tools: None, handler: Shared(Arc::new(handler)) }
    }

    /// Handles only calls of these tools.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }
}

impl Middleware for ToolErrors {
    fn name(&self) -> &str {
        "ToolErrors"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let call = request.call.clone();
        if self.tools.as_ref().is_some_and(|tools| !tools.contains(&call.name)) {
            return next.run(request).await;
        }
        match next.run(request).await {
            Ok(mut response) if response.is_error && !response.is_refused && !response.is_synthetic => {
                let text = text::of_blocks(&response.content);
                let error = response.source.as_deref();
                match self.handler.0(&FailedCall { call: &call, text: &text, error, is_fatal: false }) {
                    ToolErrorAction::Unchanged => {}
                    ToolErrorAction::Say(text) => response.content = vec![Block::text(text)],
                    ToolErrorAction::Fail => return Err(CallError::ending(call.name, text, response)),
                }
                Ok(response)
            }
            Err(Error::Tool { name, source }) => {
                let text = source.to_string();
                let error = CallError::cause(&*source);
                match self.handler.0(&FailedCall { call: &call, text: &text, error, is_fatal: true }) {
                    ToolErrorAction::Say(text) => Ok(ToolResponse::error(text)),
                    _ => Err(Error::Tool { name, source }),
                }
            }
            // Interrupts and other errors that are not failures of the tool.
            other => other,
        }
    }
}
