//! Retries of failed model calls.

use std::fmt;
use std::sync::Arc;

use deepagents_core::error::{Error, Result};
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{AssistantMessage, Block};
use deepagents_core::middleware::{Middleware, ModelNext, ModelResponse};
use deepagents_core::model::{ModelError, ModelOutput, ModelRequest, StopReason};

use super::{Backoff, BackoffError};
use crate::blocked::RedactionBlocked;
use crate::shared::Shared;

type RetryOn = dyn Fn(&Error) -> bool + Send + Sync;
type AnswerFor = dyn Fn(&Error, u32) -> String + Send + Sync;

/// Retries model calls that failed with a transient error: rate limits, failing or unreachable providers, answers that
/// were cut off or invalid, and [`Error::Other`] of middlewares further in. Respects the delay that a provider asks for.
///
/// Each attempt counts as a request against the budget. Partial answers of failed attempts are discarded, and their
/// readers are notified.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::retry::{Backoff, ModelRetry};
/// use deepagents::models::scripted::ScriptedModel;
/// let retry = ModelRetry::new(Backoff { retries: 4, ..Backoff::default() })?;
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(retry).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelRetry {
    backoff: Backoff,
    retry_on: Option<Shared<RetryOn>>,
    on_failure: ModelFailure,
}

/// What happens after the last attempt has failed.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ModelFailure {
    /// The run fails with the last error.
    #[default]
    Error,
    /// The answer is a text that describes the failure. Only its [`StopReason`], `Other("model_unavailable")`,
    /// distinguishes it from an answer of the model. The run ends with
    /// [`FinishReason::BrokenOff`](deepagents_core::run::FinishReason::BrokenOff).
    Answer,
    /// Like `Answer`, with a text made by this function from the last error and the number of attempts.
    AnswerWith(Arc<AnswerFor>),
}

impl fmt::Debug for ModelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "Error",
            Self::Answer => "Answer",
            Self::AnswerWith(_) => "AnswerWith(..)",
        })
    }
}

impl ModelRetry {
    /// Creates a middleware with these delays.
    ///
    /// # Errors
    /// Returns an error if the factor is invalid.
    pub fn new(backoff: Backoff) -> std::result::Result<Self, BackoffError> {
        Ok(Self { backoff: backoff.check()?, ..Self::default() })
    }

    crate::shared::setters! {
        /// Retries calls for whose error this returns `true`, instead of those with transient or unclassified errors.
        retry_on(retry_on: impl Fn(&Error) -> bool + Send + Sync + 'static)
            => retry_on = Some(Shared(Arc::new(retry_on)));

        /// Sets what happens after the last attempt has failed; by default the run fails.
        on_failure(on_failure: ModelFailure) => on_failure = on_failure;
    }

    fn may_pass(&self, error: &Error) -> bool {
        // Errors that end the run or ask a person are not failures.
        if matches!(error, Error::BudgetExhausted(_) | Error::Interrupted(_) | Error::ToolCall { .. }) {
            return false;
        }
        match &self.retry_on {
            Some(retry_on) => retry_on(error),
            None => match error.as_model() {
                Some(error) => error.is_retryable() || matches!(error, ModelError::Protocol(_)),
                None => is_unclassified(error),
            },
        }
    }

    fn given_up(&self, error: Error, attempts: u32) -> Result<ModelResponse> {
        let text = match &self.on_failure {
            ModelFailure::Error => return Err(error),
            ModelFailure::Answer => {
                let times = if attempts == 1 { "attempt" } else { "attempts" };
                format!("The model could not answer after {attempts} {times}: {} ({error})", error.kind())
            }
            ModelFailure::AnswerWith(answer) => answer(&error, attempts),
        };
        let message = AssistantMessage::new(vec![Block::text(text)]);
        let stop = StopReason::Other("model_unavailable".to_owned());
        Ok(ModelOutput { message, stop, ..ModelOutput::default() }.into())
    }
}

/// Returns `true` for an error of a middleware further in that says nothing about its kind. What redaction blocks stays
/// blocked.
fn is_unclassified(error: &Error) -> bool {
    let error = match error {
        Error::Hook { source, .. } => source,
        error => error,
    };
    matches!(error, Error::Other(source) if !source.is::<RedactionBlocked>())
}

impl Middleware for ModelRetry {
    fn name(&self) -> &str {
        "ModelRetry"
    }

    async fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
        let mut attempts = 0;
        loop {
            let error = match next.run(request.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            attempts += 1;
            if !self.may_pass(&error) {
                return Err(error);
            }
            let asked = error.as_model().and_then(|error| error.info().retry_after);
            let Some(wait) = self.backoff.wait(attempts, asked) else { return self.given_up(error, attempts) };
            let after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            next.cx().report(MiddlewareEvent::ModelRetried { attempts, after_ms, error: error.to_string() });
            tokio::time::sleep(wait).await;
        }
    }
}
