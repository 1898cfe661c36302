//! How a run ends.

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

/// How a run ended, and what it left.
///
/// ```
/// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// let outcome = agent.invoke("How many files are here?").await?;
/// println!("{} ({} tokens, {} model calls)", outcome.text(), outcome.usage.total(), outcome.model_calls);
/// # Ok(()) }
/// ```
///
/// As JSON it is an [`OutcomeRecord`](super::OutcomeRecord).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Why it ended.
    pub stop: FinishReason,
    /// The state of the thread.
    pub state: State,
    /// Tokens of all its agents.
    pub usage: Usage,
    /// Tokens by agent; the main one under its own name.
    pub usage_by_agent: BTreeMap<String, Usage>,
    /// Answers of the main agent's model.
    pub model_calls: u32,
    /// What all its agents have spent; of a resumed run that has a budget, or has asked a model beside its conversation, from
    /// its beginning.
    pub spent: BudgetUsage,
    /// The thread, when there is one.
    pub thread: Option<ThreadId>,
    /// The run.
    pub run: String,
}

impl Outcome {
    /// The conversation.
    pub fn messages(&self) -> &Messages {
        self.state.messages()
    }

    /// The answer: the text of the last message, whoever said it; empty when the run did not come to one. A result of a
    /// tool is none where a middleware has ended the run behind it.
    pub fn text(&self) -> String {
        match self.messages().last().map(|m| &**m) {
            Some(Message::User(_)) | None => String::new(),
            Some(Message::Tool(_)) if self.stop == FinishReason::Ended => String::new(),
            Some(message) => message.text(),
        }
    }

    /// See [`State::action_requests`].
    pub fn action_requests(&self) -> Vec<ActionRequest> {
        self.state.action_requests()
    }

    /// The answer in the shape that was asked for, if there is one. A null that was asked for with
    /// [`ResponseFormat::for_type`](crate::structured::ResponseFormat::for_type) is `{"value": null}` here.
    pub fn structured_json(&self) -> Option<&Value> {
        self.state.get::<StructuredResponse>()?.as_ref()
    }

    /// The answer in the shape that was asked for.
    ///
    /// # Errors
    /// When there is none or it is not of this type.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T> {
        let value = self.structured_json().ok_or_else(|| {
            Error::Input("the run produced no structured response; ask for one with `response_format`".to_owned())
        })?;
        crate::structured::answer(value).map_err(Error::other)
    }
}

/// Why a run failed, and what it left.
///
/// ```
/// # async fn f(agent: deepagents_core::agent::Agent) {
/// if let Err(failed) = agent.invoke("Tidy up.").await {
///     println!("{} ({}), after {} messages", failed, failed.kind(), failed.state.messages().len());
/// }
/// # }
/// ```
///
/// As JSON it is a [`RunErrorRecord`](super::RunErrorRecord).
#[derive(Clone)]
pub struct RunError {
    /// What went wrong; shared, since all holders of a run are given it.
    pub error: Arc<Error>,
    /// The state of the thread: everything the run had finished.
    pub state: State,
    /// Tokens spent.
    pub usage: Usage,
}

/// Without the state: a `main` that ends with the error shows this.
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
        // It says what the error says, so what comes next in a chain is that one's reason.
        self.error.source()
    }
}

impl RunError {
    pub(crate) fn new(error: Error, state: State, usage: Usage) -> Self {
        Self { error: Arc::new(error), state, usage }
    }

    /// See [`Error::kind`].
    pub fn kind(&self) -> &'static str {
        self.error.kind()
    }
}
