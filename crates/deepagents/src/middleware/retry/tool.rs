//! Calls of tools that failed.

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

type RetryOn = dyn Fn(&ToolResponse) -> bool + Send + Sync;
type ResultFor = dyn Fn(&ToolResponse, u32) -> String + Send + Sync;

/// Makes calls of tools again that failed.
///
/// By default the calls are made again that may be made twice: those that only read, and those of tools that say that they
/// are [idempotent](deepagents_core::tool::Tool::idempotent). Naming tools with [`tools`](Self::tools) says so of theirs.
/// A call failed when an error came out of the tool; a result that a tool itself calls one, and arguments that it does
/// not take, come back the same the next time. The call keeps its [key](deepagents_core::tool::ToolContext::key).
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

/// What becomes of a call that failed as often as it may.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ToolFailure {
    /// The model is told the last error and how often it was tried.
    #[default]
    Continue,
    /// The run fails with the last error, once the other calls of the turn have finished.
    Error,
    /// The model is told what this makes of the last response and the number of attempts, as an error.
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
    /// With these waits.
    ///
    /// # Errors
    /// When the factor of the waits makes no sense.
    pub fn new(backoff: Backoff) -> std::result::Result<Self, BackoffError> {
        Ok(Self { backoff: backoff.check()?, ..Self::default() })
    }

    /// Makes calls of these tools again and of no others, whether or not the tools say that they may be.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Makes calls again whose failed response this says so of, in the place of those that an error came out of.
    #[must_use]
    pub fn retry_on(mut self, retry_on: impl Fn(&ToolResponse) -> bool + Send + Sync + 'static) -> Self {
        self.retry_on = Some(Shared(Arc::new(retry_on)));
        self
    }

    /// What becomes of a call that failed as often as it may; the model is told unless told otherwise.
    #[must_use]
    pub fn on_failure(mut self, on_failure: ToolFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Whether a call may be made twice.
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
                Some(retry_on) => retry_on.0(response),
                None => response.source.is_some(),
            }
    }

    fn given_up(&self, tool: String, mut response: ToolResponse, attempts: u32) -> Result<ToolResponse> {
        match &self.on_failure {
            // It was not made again: the tool's own words say all.
            ToolFailure::Continue if attempts == 1 => {}
            ToolFailure::Continue => {
                let text = format!("[{tool} failed {attempts} times; try something else, or again later]");
                response.content.push(Block::text(text));
            }
            ToolFailure::Error => {
                let texts: Vec<&str> = response.content.iter().filter_map(Block::as_text).collect();
                let text = format!("{} (after {attempts} attempts)", texts.join("\n"));
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
