//! How a run ends.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::{BudgetKind, Spent};
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
    /// The limit of model calls was reached, those of agents below it included where it is the run's; the task may be
    /// unfinished.
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
    /// What it may spend, with all agents below it, is spent; the task may be unfinished.
    #[serde(untagged)]
    Budget(BudgetKind),
}

impl Stop {
    /// Why the run ended, in words.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Done => "the model had nothing left to do",
            Self::ReturnDirect => "the result of a tool is the answer",
            Self::Ended => "a middleware ended it",
            Self::StepLimit => "the limit of model calls was reached",
            Self::TokenLimit => "the last answer was cut off by its token limit",
            Self::Empty => "the model said nothing",
            Self::Refused => "the model or its provider declined",
            Self::Waiting => "a call waits for a decision",
            Self::Cancelled => "the run was cancelled",
            Self::Deadline => "the run's time was up",
            Self::Budget(BudgetKind::InputTokens) => "the limit of prompt tokens was reached",
            Self::Budget(BudgetKind::OutputTokens) => "the limit of answer tokens was reached",
            Self::Budget(BudgetKind::Tokens) => "the limit of tokens was reached",
            Self::Budget(BudgetKind::Cost) => "the limit of the cost was reached",
            Self::Budget(BudgetKind::ToolCalls) => "the limit of tool calls was reached",
        }
    }
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
    /// What all its agents have spent; of a run with a budget that was resumed, from its beginning.
    pub spent: Spent,
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
