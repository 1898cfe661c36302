//! The options of a run request.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::live::CancelAction;

/// One value or a list.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = match Value::deserialize(deserializer)? {
            Value::Array(many) => serde_json::from_value(Value::Array(many)).map(Self::Many),
            one => serde_json::from_value(one).map(Self::One),
        };
        read.map_err(D::Error::custom)
    }
}

impl<T> OneOrMany<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// What is streamed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StreamMode {
    Values,
    Updates,
    MessagesTuple,
    /// The accumulated text with each chunk, for older clients.
    Messages,
    Tasks,
    Checkpoints,
    Debug,
    Custom,
    /// LangChain's `astream_events`.
    Events,
}

/// What happens if the thread is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Strategy {
    Reject,
    #[default]
    Enqueue,
    Interrupt,
    Rollback,
}

impl Strategy {
    /// Returns how earlier runs are ended, if this strategy ends them.
    pub(super) fn earlier_runs_action(self) -> Option<CancelAction> {
        match self {
            Self::Interrupt => Some(CancelAction::Interrupt),
            Self::Rollback => Some(CancelAction::Rollback),
            Self::Reject | Self::Enqueue => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfNotExists {
    #[default]
    Reject,
    Create,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnect {
    #[default]
    Continue,
    Cancel,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnCompletion {
    #[default]
    Delete,
    #[serde(rename = "keep")]
    Retain,
}

/// When state is persisted.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Durability {
    Sync,
    Async,
    Exit,
}
