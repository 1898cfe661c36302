//! Lines common to all recordings.

use deepagents_core::model::{ChatModel, ModelProfile};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Answer;

/// Version of the format that is written. It increases when a field changes its meaning or is removed, not when one is
/// added.
pub(super) const VERSION: u64 = 2;

/// The first line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// Format version.
    pub v: u64,
    /// Program that made the recording, as in `deepagents 0.1.0`.
    #[serde(default)]
    pub program: String,
    /// Name of the main agent, in recordings of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model, as `provider:model`.
    pub model: String,
    /// Capabilities of the model, on which the construction of agents depends.
    pub profile: ModelProfile,
    /// Application data, such as how to build the agent again.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

impl Header {
    /// Creates the header for recording this model.
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

/// A line as written. A reader looks at its `kind` first.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    Recording(Header),
    Request(RequestLine),
    Answer(AnswerLine),
}

/// A model request: its differences from the previous request of the same agent.
#[derive(Serialize, Deserialize)]
pub(super) struct RequestLine {
    pub(super) path: Vec<String>,
    pub(super) n: u64,
    pub(super) turn: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) aside: bool,
    pub(super) digest: String,
    /// Number of messages taken from the previous request.
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

/// A request and its response, in model recordings of version 1.
#[derive(Deserialize)]
pub(super) struct ExchangeLine {
    pub(super) seq: u64,
    pub(super) fingerprint: String,
    pub(super) request: Value,
    #[serde(flatten)]
    pub(super) answer: Answer,
}
