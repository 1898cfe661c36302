//! Retries of failed tool calls.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::Block;
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::tool::Effect;

use super::{Backoff, BackoffError};
use crate::call_error::CallError;
use crate::shared::Shared;
use crate::text;

type RetryOn = dyn Fn(&ToolResponse) -> bool + Send + Sync;
type ResultFor = dyn Fn(&ToolResponse, u32) -> String + Send + Sync;

/// Retries failed tool calls.
///
/// By default, only calls that are safe to repeat are retried: those that only read, and those of
/// [idempotent](deepagents_core::tool::Tool::idempotent) tools. Naming tools with [`tools`](Self::tools) declares their
/// calls safe. A call has failed if its tool returned an error; results that a tool itself marks as errors and invalid
/// arguments are not retried, because they would fail again. A retried call keeps its
/// [key](deepagents_core::tool::ToolContext::key).
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::retry::{Backoff, ToolRetry};
/// use deepagents::models::scripted::ScriptedModel;
/// let retry = ToolRetry::new(Backoff::default())?.tools(["search", "fetch"]);
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(retry).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolRetry {
    backoff: Backoff,
    tools: Option<BTreeSet<String>>,
    retry_on: Option<Shared<RetryOn>>,
    on_failure: ToolFailure,
}

/// What happens after the last attempt has failed.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ToolFailure {
    /// The model is shown the last error and the number of attempts.
    #[default]
    Continue,
    /// The run fails with the last error, after the other calls of the turn have finished.
    Error,
    /// The model is shown, as an error, a text made by this function from the last response and the number of attempts.
    ContinueWith(Arc<ResultFor>),
}

impl fmt::Debug for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Continue => "Continue",
            Self::Error => "Error",
            Self::ContinueWith(_) => "ContinueWith(..)",
        })
    }
}

impl ToolRetry {
    /// Creates a middleware with these delays.
    ///
    /// # Errors
    /// Returns an error if the factor is invalid.
    pub fn new(backoff: Backoff) -> std::result::Result<Self, BackoffError> {
        Ok(Self { backoff: backoff.check()?, ..Self::default() })
    }

    crate::shared::setters! {
        /// Retries only calls of these tools, whether or not the tools are idempotent.
        tools(tools: impl IntoIterator<Item = impl Into<String>>)
            => tools = Some(tools.into_iter().map(Into::into).collect());

        /// Retries calls for whose failed response this returns `true`, instead of those whose tool returned an error.
        retry_on(retry_on: impl Fn(&ToolResponse) -> bool + Send + Sync + 'static)
            => retry_on = Some(Shared(Arc::new(retry_on)));

        /// Sets what happens after the last attempt has failed; by default the model is shown the error.
        on_failure(on_failure: ToolFailure) => on_failure = on_failure;
    }

    /// Returns `true` if a call is safe to repeat.
    fn may_repeat(&self, request: &ToolRequest) -> bool {
        match (&self.tools, &request.tool) {
            (Some(names), _) => names.contains(&request.call.name),
            (None, Some(tool)) => {
                let args = &request.call.args;
                matches!(tool.effect(args), Effect::Read) || tool.idempotent(args)
            }
            (None, None) => false,
        }
    }

    fn failed(&self, response: &ToolResponse) -> bool {
        response.is_error
            && match &self.retry_on {
                Some(retry_on) => retry_on(response),
                None => response.source.is_some(),
            }
    }

    fn given_up(&self, tool: String, mut response: ToolResponse, attempts: u32) -> Result<ToolResponse> {
        match &self.on_failure {
            // It was not retried: the tool's own error is enough.
            ToolFailure::Continue if attempts == 1 => {}
            ToolFailure::Continue => {
                let text = format!("[{tool} failed {attempts} times; try something else, or again later]");
                response.content.push(Block::text(text));
            }
            ToolFailure::Error => {
                let text = format!("{} (after {attempts} attempts)", text::of_blocks(&response.content));
                return Err(CallError::ending(tool, text, response));
            }
            ToolFailure::ContinueWith(result) => {
                response.content = vec![Block::text(result(&response, attempts))];
            }
        }
        Ok(response)
    }
}

impl Middleware for ToolRetry {
    fn name(&self) -> &str {
        "ToolRetry"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        if !self.may_repeat(&request) {
            return next.run(request).await;
        }
        let mut attempts = 0;
        loop {
            let response = next.run(request.clone()).await?;
            attempts += 1;
            if !self.failed(&response) {
                return Ok(response);
            }
            let tool = request.call.name.clone();
            let Some(wait) = self.backoff.wait(attempts, None) else { return self.given_up(tool, response, attempts) };
            let after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let call = request.cx.provider_call_id().to_owned();
            request.cx.report(MiddlewareEvent::ToolRetried { call, tool, attempts, after_ms });
            tokio::time::sleep(wait).await;
        }
    }
}
