//! Run requests.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::command::{Command, channels};
use super::run_options::{Durability, IfNotExists, OnCompletion, OnDisconnect, OneOrMany, Strategy, StreamMode};
use crate::deserialize::from_value;
use crate::threads::CheckpointRef;

/// The body of a run request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct RunCreate {
    pub(crate) assistant_id: String,
    /// Records of earlier versions may have a list of pairs; requests may not.
    #[serde(default, deserialize_with = "channels")]
    pub(crate) input: Option<Map<String, Value>>,
    pub(crate) command: Option<Command>,
    pub(crate) config: Option<Map<String, Value>>,
    pub(crate) context: Option<Map<String, Value>>,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) stream_mode: Option<OneOrMany<StreamMode>>,
    #[serde(default)]
    pub(crate) stream_subgraphs: bool,
    #[serde(default)]
    pub(crate) stream_resumable: bool,
    pub(crate) checkpoint: Option<CheckpointRef>,
    pub(crate) checkpoint_id: Option<String>,
    pub(crate) interrupt_before: Option<OneOrMany<String>>,
    pub(crate) interrupt_after: Option<OneOrMany<String>>,
    pub(crate) multitask_strategy: Option<Strategy>,
    pub(crate) if_not_exists: Option<IfNotExists>,
    pub(crate) on_disconnect: Option<OnDisconnect>,
    pub(crate) on_completion: Option<OnCompletion>,
    #[serde(default, deserialize_with = "whole_seconds")]
    pub(crate) after_seconds: Option<u64>,
    /// When state is persisted. The server always persists it at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<Durability>,
    /// The earlier name of `durability`.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_during: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback_keys: Option<Vec<String>>,
    pub(crate) webhook: Option<String>,
}

/// A run request as received from a client. Some fields must be omitted instead of null; in the stored record they may
/// be null.
#[derive(Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct NewRun(pub(crate) RunCreate);

/// Fields that must be omitted instead of null.
const NOT_NULL: [&str; 7] =
    ["metadata", "config", "multitask_strategy", "webhook", "stream_mode", "checkpoint", "after_seconds"];

impl TryFrom<Map<String, Value>> for NewRun {
    type Error = String;

    fn try_from(body: Map<String, Value>) -> Result<Self, String> {
        if let Some(field) = NOT_NULL.into_iter().find(|field| body.get(*field).is_some_and(Value::is_null)) {
            return Err(format!("`{field}` is null; omit it"));
        }
        check_input(&body)?;
        from_value(Value::Object(body)).map(Self)
    }
}

/// Returns an error if the input of a request is not an object.
pub(crate) fn check_input(body: &Map<String, Value>) -> Result<(), String> {
    match body.get("input") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => Err("`input`: an object of channels, such as {\"messages\": […]}, is expected".to_owned()),
    }
}

/// Deserialises seconds. Fractions round up, and negative values become 0.
fn whole_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let seconds = Option::<f64>::deserialize(deserializer)?;
    let whole = |seconds: f64| match Duration::try_from_secs_f64(seconds.max(0.0)) {
        Ok(given) => given.as_secs() + u64::from(given.subsec_nanos() > 0),
        Err(_) => u64::MAX,
    };
    Ok(seconds.map(whole))
}

impl RunCreate {
    /// Creates a request without an input. Its thread is created if it does not exist, and nothing is streamed unless a
    /// client asks for it.
    pub(crate) fn new(assistant: &str) -> Self {
        Self {
            assistant_id: assistant.to_owned(),
            stream_mode: Some(OneOrMany::Many(Vec::new())),
            if_not_exists: Some(IfNotExists::Create),
            ..Self::default()
        }
    }

    pub(crate) fn modes(&self) -> Vec<StreamMode> {
        self.stream_mode.as_ref().map_or_else(|| vec![StreamMode::Values], |modes| modes.as_slice().to_vec())
    }

    /// Returns the checkpoint to start from, which clients may give in three places.
    pub(crate) fn checkpoint(&self) -> Option<&str> {
        let configured = || self.config.as_ref()?.get("configurable")?.get("checkpoint_id")?.as_str();
        self.checkpoint.as_ref().and_then(CheckpointRef::id).or(self.checkpoint_id.as_deref()).or_else(configured)
    }

    /// Whether the run's streams begin with the current state, because the run has no new input.
    pub(crate) fn shows_state(&self) -> bool {
        self.resume().is_some() || self.input.is_none()
    }

    /// Whether the run resumes unfinished work of its thread.
    pub(super) fn resumes(&self) -> bool {
        let goes_elsewhere = self.command.as_ref().is_some_and(|command| !command.has_no_goto());
        self.checkpoint().is_none() && (self.resume().is_some() || (self.input.is_none() && !goes_elsewhere))
    }

    /// Whether the command is about the state that the request addresses: what waits there, or what it holds. The
    /// thread goes back to that state first.
    pub(super) fn is_about_state(&self) -> bool {
        self.resume().is_some() || self.only_updates() || self.ends()
    }

    /// Whether the command only updates the state.
    pub(crate) fn only_updates(&self) -> bool {
        let told = self.command.as_ref();
        self.input.is_none()
            && told.is_some_and(|command| command.update.is_some() && command.resume.is_none() && command.has_no_goto())
    }

    /// Whether the command ends the thread in its current state. `resume` takes precedence over `goto`: the decisions
    /// are carried out.
    pub(super) fn ends(&self) -> bool {
        self.resume().is_none() && self.command.as_ref().is_some_and(Command::ends)
    }

    pub(crate) fn resume(&self) -> Option<&Value> {
        self.command.as_ref()?.resume.as_ref()
    }

    /// Returns the state update of the command.
    pub(super) fn update(&self) -> Option<&Map<String, Value>> {
        self.command.as_ref()?.update.as_ref()
    }
}
