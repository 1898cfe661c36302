//! How a run ends.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ask::Question;
use crate::error::{Error, Result};
use crate::journal::ThreadId;
use crate::message::{Message, Messages, Usage};
use crate::state::{State, StructuredResponse};

/// Why a run ended without failing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
    /// The model had nothing left to do.
    Done,
    /// The result of a tool is the answer.
    ReturnDirect,
    /// A middleware ended it.
    Ended,
    /// The limit of model calls was reached; the task may be unfinished.
    StepLimit,
    /// The last answer was cut off by its token limit.
    TokenLimit,
    /// The model said nothing.
    Empty,
    /// The model or its provider declined.
    Refused,
    /// A call waits for a decision of a person; see [`Outcome::questions`].
    Waiting,
    /// The caller cancelled it.
    Cancelled,
    /// Its time was up.
    Deadline,
}

/// How a run ended, and what it left.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Why it ended.
    pub stop: Stop,
    /// The state of the thread.
    pub state: State,
    /// Tokens of all its agents.
    pub usage: Usage,
    /// Tokens by agent; the main one under its own name.
    pub usage_by_agent: BTreeMap<String, Usage>,
    /// Answers of the main agent's model.
    pub model_calls: u32,
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

    /// The answer: the text of the last message, whoever said it; empty when the run did not come to one.
    pub fn text(&self) -> String {
        match self.messages().last().map(|m| &**m) {
            Some(Message::User(_)) | None => String::new(),
            Some(message) => message.text(),
        }
    }

    /// The questions that wait for an answer, in order of their calls.
    pub fn questions(&self) -> Vec<Question> {
        let mut open: Vec<Question> = super::asking::open_questions(&self.state).cloned().collect();
        open.sort_by(|a, b| (&a.call, &a.id).cmp(&(&b.call, &b.id)));
        open
    }

    /// The answer in the shape that was asked for, if there is one.
    pub fn structured_json(&self) -> Option<&Value> {
        self.state.get::<StructuredResponse>()?.as_ref()
    }

    /// The answer in the shape that was asked for.
    ///
    /// # Errors
    /// When there is none or it is not of this type.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T> {
        let value = self.structured_json().ok_or_else(|| {
            Error::Input("the run gave no structured response; ask for one with `response_format`".to_owned())
        })?;
        T::deserialize(value).map_err(Error::other)
    }
}

/// Why a run failed, and what it left.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RunError {
    /// What went wrong.
    #[source]
    pub error: Error,
    /// The state of the thread: everything the run had finished.
    pub state: State,
    /// Tokens spent.
    pub usage: Usage,
}

impl RunError {
    /// See [`Error::kind`].
    pub fn kind(&self) -> &'static str {
        self.error.kind()
    }
}
