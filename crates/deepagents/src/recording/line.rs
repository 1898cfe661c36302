//! The lines of a recorded run other than those of its models.

use deepagents_core::interrupt::{ActionRequest, DecisionRecord};
use deepagents_core::journal::RecordUpdate;
use deepagents_core::message::Block;
use deepagents_core::model::ModelError;
use deepagents_core::run::InputRecord;
use deepagents_core::tool::CallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line. Events are read as plain JSON, because those of later versions may have other types.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line<E> {
    Input { input: Box<InputRecord> },
    Tool(Box<ToolLine>),
    Event { event: E },
}

/// A tool call and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ToolLine {
    pub(super) call: CallId,
    pub(super) name: String,
    pub(super) outcome: CallOutcome,
}

/// The outcome of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallOutcome {
    /// The call returned a result.
    Result(CallResult),
    /// The call waits for decisions.
    #[serde(rename = "asked")]
    Interrupted(Vec<ActionRequest>),
    /// The call ended the run.
    Failed { error: CallError },
    /// The tool panicked.
    Crashed { text: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallResult {
    pub(super) content: Vec<Block>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_error: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_synthetic: bool,
    pub(super) update: RecordUpdate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact: Option<Value>,
    /// A decision about the call that was made without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<DecisionRecord>,
}

/// An error that ended a run, as far as it can be reproduced.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallError {
    Tool { name: String, source: String },
    Model(ModelError),
    Other(String),
}
