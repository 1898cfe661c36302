//! The outcome of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::ids::ThreadId;
use crate::interrupt::ActionRequest;
use crate::machine::BudgetUsage;
use crate::message::{Message, Messages, Usage};
use crate::state::{State, StructuredResponse};
use crate::status::FinishReason;

/// The outcome of a run: why it ended, and its final state.
///
/// ```
/// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// let outcome = agent.invoke("How many files are here?").await?;
/// println!("{} ({} tokens, {} model calls)", outcome.text(), outcome.usage.total(), outcome.model_calls);
/// # Ok(()) }
/// ```
///
/// It serialises as an [`OutcomeRecord`](super::OutcomeRecord).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Why the run ended.
    pub stop: FinishReason,
    /// The state of the thread. If calls wait, it has the results of those beside them that have finished.
    pub state: State,
    /// Tokens used by all its agents.
    pub usage: Usage,
    /// Tokens by agent name, including the main agent.
    pub usage_by_agent: BTreeMap<String, Usage>,
    /// Number of model calls of the main agent, not counting retries.
    pub model_calls: u32,
    /// The amount spent by all its agents. For a resumed run this counts from the run's start if the run has a budget
    /// or has called a model outside its conversation.
    pub spent: BudgetUsage,
    /// The thread, if there is one.
    pub thread: Option<ThreadId>,
    /// The run's id.
    pub run: String,
}

impl Outcome {
    /// Returns the conversation.
    pub fn messages(&self) -> &Messages {
        self.state.messages()
    }

    /// Returns the answer: the text of the last message, whoever wrote it. Empty if the run produced no answer. A tool
    /// result counts as the answer only if the run ended with it, not if a limit, a person or a middleware ended the run
    /// after it, or if calls beside it still wait.
    pub fn text(&self) -> String {
        let waits = matches!(self.stop, FinishReason::Interrupted | FinishReason::Suspended);
        let last = self.messages().iter().rev().find(|message| !waits || message.as_tool().is_none());
        match last.map(|m| &**m) {
            Some(Message::User(_)) | None => String::new(),
            Some(Message::Tool(_)) if !matches!(self.stop, FinishReason::Done | FinishReason::ReturnDirect) => {
                String::new()
            }
            Some(message) => message.text(),
        }
    }

    /// See [`State::action_requests`].
    pub fn action_requests(&self) -> Vec<ActionRequest> {
        self.state.action_requests()
    }

    /// Returns the structured answer as JSON, if there is one. A null requested with
    /// [`ResponseFormat::for_type`](crate::structured::ResponseFormat::for_type) is `{"value": null}` here.
    pub fn structured_json(&self) -> Option<&Value> {
        self.state.get::<StructuredResponse>()?.as_ref()
    }

    /// Returns the structured answer.
    ///
    /// # Errors
    /// Returns an error if there is none or it does not deserialise as `T`.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T> {
        let value = self.structured_json().ok_or_else(|| {
            Error::Input("the run produced no structured response; ask for one with `response_format`".to_owned())
        })?;
        crate::structured::answer(value).map_err(Error::other)
    }
}

/// The error of a failed run, with its final state.
///
/// ```
/// # async fn f(agent: deepagents_core::agent::Agent) {
/// if let Err(failed) = agent.invoke("Tidy up.").await {
///     println!("{} ({}), after {} messages", failed, failed.kind(), failed.state.messages().len());
/// }
/// # }
/// ```
///
/// It serialises as a [`RunErrorRecord`](super::RunErrorRecord).
#[derive(Clone)]
#[non_exhaustive]
pub struct RunError {
    /// The cause. Shared because all holders of the run receive it.
    pub error: Arc<Error>,
    /// The state of the thread, with everything that the run had finished.
    pub state: State,
    /// Tokens used.
    pub usage: Usage,
    /// Tokens by agent name, including the main agent.
    pub usage_by_agent: BTreeMap<String, Usage>,
    /// Number of model calls of the main agent, not counting retries.
    pub model_calls: u32,
    /// The amount spent by all its agents, as in [`Outcome::spent`].
    pub spent: BudgetUsage,
    /// The thread, if there is one.
    pub thread: Option<ThreadId>,
    /// The run's id; empty if the run did not begin.
    pub run: String,
}

/// Omits the state, because a `main` that returns the error prints this.
impl std::fmt::Debug for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("RunError");
        out.field("error", &self.error).field("messages", &self.state.messages().len()).field("usage", &self.usage);
        out.finish_non_exhaustive()
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` already shows the error itself, so the chain continues with its source.
        self.error.source()
    }
}

impl RunError {
    /// Creates the error of a run of which nothing but the cause is known.
    pub fn without_state(error: Error) -> Self {
        Self {
            error: Arc::new(error),
            state: State::default(),
            usage: Usage::default(),
            usage_by_agent: BTreeMap::new(),
            model_calls: 0,
            spent: BudgetUsage::default(),
            thread: None,
            run: String::new(),
        }
    }

    /// See [`Error::kind`].
    pub fn kind(&self) -> &'static str {
        self.error.kind()
    }
}
