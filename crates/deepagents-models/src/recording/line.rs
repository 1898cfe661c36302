//! The lines that every recording has.

use deepagents_core::model::{ChatModel, ModelProfile};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Answer;

/// The version of the format that is written. It grows when a field changes its meaning or goes away, not when one is added.
pub(super) const VERSION: u64 = 2;

/// The first line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The version of the format.
    pub v: u64,
    /// What made it, as in `deepagents 0.1.0`.
    #[serde(default)]
    pub program: String,
    /// The main agent's name, in recordings of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model, `provider:model`.
    pub model: String,
    /// What the model can do; agents are built by it.
    pub profile: ModelProfile,
    /// The application's own, such as how to build the agent again.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

impl Header {
    /// The header of a recording of this model.
    pub fn new(model: &dyn ChatModel) -> Self {
        Self {
            v: VERSION,
            program: concat!("deepagents ", env!("CARGO_PKG_VERSION")).to_owned(),
            agent: None,
            model: model.name().to_owned(),
            profile: model.profile(),
            options: Value::Null,
        }
    }
}

/// A line as it is written. When it is read its `kind` is looked at first.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    Recording(Header),
    Request(RequestLine),
    Answer(AnswerLine),
}

/// What a model is asked: what is not as in the request before of the same agent.
#[derive(Serialize, Deserialize)]
pub(super) struct RequestLine {
    pub(super) path: Vec<String>,
    pub(super) n: u64,
    pub(super) turn: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) aside: bool,
    pub(super) digest: String,
    /// So many messages are those of the request before.
    pub(super) kept: usize,
    pub(super) messages: Vec<Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) fields: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct AnswerLine {
    pub(super) path: Vec<String>,
    pub(super) n: u64,
    #[serde(flatten)]
    pub(super) answer: Answer,
}

/// A request and its answer, in recordings of models of version 1.
#[derive(Deserialize)]
pub(super) struct ExchangeLine {
    pub(super) seq: u64,
    pub(super) fingerprint: String,
    pub(super) request: Value,
    #[serde(flatten)]
    pub(super) answer: Answer,
}
