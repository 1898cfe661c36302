//! The lines of a recording.

use deepagents_core::ask::Question;
use deepagents_core::journal::RecordUpdate;
use deepagents_core::message::Block;
use deepagents_core::model::ModelProfile;
use deepagents_core::run::InputRecord;
use deepagents_core::tool::CallId;
use deepagents_models::record::{Answer, Failure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the format. It grows when a field changes its meaning or goes away, not when one is added.
pub(super) const VERSION: u64 = 1;

/// What a recording says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The version of the format.
    pub v: u64,
    /// What made it, as in `deepagents 0.1.0`.
    pub program: String,
    /// The main agent's name.
    pub agent: String,
    /// Its model, `provider:model`.
    pub model: String,
    /// What the model can do; agents are built by it.
    pub profile: ModelProfile,
    /// The application's own, such as how to build the agent again.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    RunRecording(Box<Header>),
    Input { input: Box<InputRecord> },
    Request(Box<Asked>),
    Answer(Box<Answered>),
    Tool(Box<Called>),
    Event { event: Value },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) path: Vec<String>,
    pub(super) n: u64,
    pub(super) turn: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) aside: bool,
    pub(super) digest: String,
    #[serde(flatten)]
    pub(super) delta: Delta,
}

/// A request by what it has that the one before did not.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Delta {
    pub(super) kept: usize,
    pub(super) messages: Vec<Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) fields: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) path: Vec<String>,
    pub(super) n: u64,
    #[serde(flatten)]
    pub(super) answer: Answer,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Called {
    pub(super) call: CallId,
    pub(super) name: String,
    pub(super) outcome: CallOutcome,
}

/// How a call ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallOutcome {
    /// With a result.
    Result(CallResult),
    /// It waits for answers.
    Asked(Vec<Question>),
    /// It ended the run.
    Failed { error: FailedCall },
    /// The tool panicked.
    Crashed { text: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallResult {
    pub(super) content: Vec<Block>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_error: bool,
    pub(super) update: RecordUpdate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact: Option<Value>,
}

/// An error that ended a run, as far as it is the same again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailedCall {
    Tool { name: String, source: String },
    Model(Failure),
    Other(String),
}

impl Line {
    /// The line without its line break.
    pub(super) fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}
