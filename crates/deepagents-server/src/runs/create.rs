//! Run requests.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::interrupt::Decision;
use deepagents_core::message::{Message, MessageOp};
use deepagents_core::state::{MessagesChannel, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::breakpoints::Breakpoints;
use super::live::CancelAction;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::threads::{CheckpointRef, Held};
use crate::wire::{open_interrupts, read_resume, read_update};

/// The body of a run request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct RunCreate {
    pub(crate) assistant_id: String,
    pub(crate) input: Option<Value>,
    pub(crate) command: Option<Command>,
    #[serde(default)]
    pub(crate) config: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) context: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) stream_mode: Option<OneOrMany<StreamMode>>,
    #[serde(default)]
    pub(crate) stream_subgraphs: bool,
    #[serde(default)]
    pub(crate) stream_resumable: bool,
    #[serde(default)]
    pub(crate) checkpoint: Option<CheckpointRef>,
    #[serde(default)]
    pub(crate) checkpoint_id: Option<String>,
    #[serde(default)]
    pub(crate) interrupt_before: Option<OneOrMany<String>>,
    #[serde(default)]
    pub(crate) interrupt_after: Option<OneOrMany<String>>,
    #[serde(default)]
    pub(crate) multitask_strategy: Option<Strategy>,
    #[serde(default)]
    pub(crate) if_not_exists: Option<IfNotExists>,
    #[serde(default)]
    pub(crate) on_disconnect: Option<OnDisconnect>,
    #[serde(default)]
    pub(crate) on_completion: Option<OnCompletion>,
    #[serde(default, deserialize_with = "whole_seconds")]
    pub(crate) after_seconds: Option<u64>,
    /// When state is persisted. The server always persists it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    durability: Option<Durability>,
    /// The earlier name of `durability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint_during: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feedback_keys: Option<Vec<String>>,
    #[serde(default)]
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
        serde_json::from_value(Value::Object(body)).map(Self).map_err(|error| error.to_string())
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Durability {
    Sync,
    Async,
    Exit,
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

/// A command, sent in place of an input.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Command {
    #[serde(default)]
    pub(crate) resume: Option<Value>,
    #[serde(default)]
    pub(crate) update: Option<Value>,
    #[serde(default)]
    pub(crate) goto: Option<Value>,
}

impl Command {
    /// Whether the command ends the thread in its current state.
    pub(crate) fn ends(&self) -> bool {
        match &self.goto {
            Some(Value::String(node)) => node == "__end__",
            Some(Value::Array(nodes)) => nodes.iter().any(|node| node == "__end__"),
            _ => false,
        }
    }
}

impl Command {
    /// Whether the command calls the model, whatever the next node would be.
    pub(crate) fn asks(&self) -> bool {
        match &self.goto {
            Some(Value::String(node)) => node == "model",
            Some(Value::Array(nodes)) => nodes.iter().any(|node| node == "model"),
            _ => false,
        }
    }

    /// Whether the command has no `goto`.
    pub(crate) fn stays(&self) -> bool {
        match &self.goto {
            None | Some(Value::Null) => true,
            Some(Value::Array(nodes)) => nodes.is_empty(),
            Some(_) => false,
        }
    }
}

/// Configuration keys that locate the thread rather than configure the run.
const PLACE: [&str; 7] =
    ["thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id", "graph_id", "assistant_id"];

/// Makes `config.configurable` and `context` mirror each other. `context` is the later name.
pub(crate) fn mirror(config: &mut Option<Map<String, Value>>, context: &mut Option<Map<String, Value>>) -> Result<()> {
    if let Some(config) = config {
        check_config(config)?;
    }
    let configured = config.as_ref().and_then(|config| config.get("configurable")).and_then(Value::as_object);
    let mut configured = configured.cloned().unwrap_or_default();
    let of_place = |key: &str| PLACE.contains(&key) || key.starts_with("__");
    let own: Map<String, Value> = configured.clone().into_iter().filter(|(key, _)| !of_place(key)).collect();
    match context {
        Some(given) if !given.is_empty() => {
            if !own.is_empty() && own != *given {
                return Err(ApiError::bad_request(
                    "both `config.configurable` and `context` are given; give only `context`, its newer name",
                ));
            }
            configured.extend(given.clone());
            config.get_or_insert_default().insert("configurable".to_owned(), Value::Object(configured));
        }
        _ if own.is_empty() => {}
        _ => *context = Some(own),
    }
    Ok(())
}

/// Rejects a configuration with values of the wrong type.
fn check_config(config: &Map<String, Value>) -> Result<()> {
    let is_texts = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let wrong = |key: &str, fits: &dyn Fn(&Value) -> bool| config.get(key).is_some_and(|value| !fits(value));
    if wrong("recursion_limit", &|value| value.is_i64() || value.is_u64()) {
        return Err(ApiError::invalid("`config.recursion_limit` must be a whole number"));
    }
    if wrong("tags", &is_texts) {
        return Err(ApiError::invalid("`config.tags` must be a list of strings"));
    }
    if wrong("configurable", &Value::is_object) {
        return Err(ApiError::invalid("`config.configurable` must be an object"));
    }
    Ok(())
}

/// One value or a list.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
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
    pub(super) fn ends_earlier(self) -> Option<CancelAction> {
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

impl RunCreate {
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

    /// Rejects an invalid request before anything is done, such as malformed input or decisions that do not match the
    /// pending interrupts.
    pub(crate) async fn check(&self, app: &App, graph: &str, thread: Option<&str>) -> Result<()> {
        if let Some(url) = &self.webhook {
            app.webhooks.check(url)?;
        }
        let served = app.agent(graph).ok_or_else(|| ApiError::not_found("Graph", graph))?;
        for input in [self.input.as_ref(), self.command.as_ref().and_then(|command| command.update.as_ref())]
            .into_iter()
            .flatten()
        {
            read_update(served.threads.schema(), input).map_err(|error| ApiError::invalid(error.to_string()))?;
        }
        if self.command.as_ref().is_some_and(|command| !command.stays() && !command.asks() && !command.ends()) {
            return Err(ApiError::invalid(
                "a command may go to `model`, or to `__end__`, which ends the thread where it stands, and nowhere else",
            ));
        }
        if let Some(input) = &self.input {
            refuse_lone_result(app, served.threads.schema(), input, thread).await?;
        }
        Breakpoints::new(self.interrupt_before.as_ref(), self.interrupt_after.as_ref(), true)?;
        mirror(&mut self.config.clone(), &mut self.context.clone())?;
        if self.resume().is_some() && thread.is_none() {
            return Err(ApiError::bad_request(
                "`command.resume` answers a thread's interrupts; a run without a thread has none",
            ));
        }
        if let (Some(resume), Some(thread)) = (self.resume(), thread) {
            answers(app, thread, resume).await?;
        }
        if let Some(checkpoint) = self.checkpoint() {
            let missing = || ApiError::not_found("Checkpoint", checkpoint);
            let info = app.thread(thread.ok_or_else(missing)?).await?;
            app.checkpoints.entries(&app.threads_of(&info)?, &info).await?.find(checkpoint)?;
        }
        Ok(())
    }

    /// Whether the run resumes unfinished work of its thread.
    pub(super) fn goes_on(&self) -> bool {
        let goes_elsewhere = self.command.as_ref().is_some_and(|command| !command.stays());
        self.checkpoint().is_none() && (self.resume().is_some() || (self.input.is_none() && !goes_elsewhere))
    }

    /// Whether the command only updates the state.
    pub(crate) fn only_updates(&self) -> bool {
        let told = self.command.as_ref();
        self.input.is_none()
            && told.is_some_and(|command| command.update.is_some() && command.resume.is_none() && command.stays())
    }

    /// Whether the command ends the thread in its current state. `resume` takes precedence over `goto`: the decisions
    /// are carried out.
    pub(super) fn ends(&self) -> bool {
        self.resume().is_none() && self.command.as_ref().is_some_and(Command::ends)
    }

    pub(crate) fn resume(&self) -> Option<&Value> {
        self.command.as_ref().and_then(|command| command.resume.as_ref())
    }
}

/// Parses the decisions on a thread's pending interrupts. A stopped thread has none, and the run just resumes it.
pub(crate) async fn answers(app: &App, thread: &str, resume: &Value) -> Result<Vec<(String, Decision)>> {
    let info = app.thread(thread).await?;
    let state = app.threads_of(&info)?.state(thread).await?;
    let open = open_interrupts(thread, &state);
    if open.is_empty() && Held::read(&info).is_stopped() {
        return Ok(Vec::new());
    }
    read_resume(&open, resume).map_err(ApiError::invalid)
}

/// Rejects a tool result without a call, because models reject such a conversation.
async fn refuse_lone_result(app: &App, schema: &Arc<Schema>, input: &Value, thread: Option<&str>) -> Result<()> {
    let given = read_update(schema, input).map_err(|error| ApiError::invalid(error.to_string()))?;
    let mut calls: HashSet<String> = HashSet::new();
    let mut lone = None;
    for (at, op) in given.get::<MessagesChannel>().flatten().enumerate() {
        let MessageOp::Put(message) = op else { continue };
        match &**message {
            Message::Assistant(answer) => calls.extend(answer.call_ids().map(str::to_owned)),
            Message::Tool(result) if !calls.contains(&result.call_id) => {
                lone = lone.or(Some((at, result.call_id.clone())));
            }
            _ => {}
        }
    }
    let Some((at, call)) = lone else { return Ok(()) };
    if let Some(thread) = thread {
        let info = app.thread(thread).await?;
        let state = app.threads_of(&info)?.state(thread).await?;
        let has =
            |message: &Message| message.as_assistant().is_some_and(|answer| answer.call_ids().any(|id| id == call));
        // A run in flight may still make the call.
        if app.runs.is_busy(thread) || info.owner.is_some() || state.messages().iter().any(|each| has(each)) {
            return Ok(());
        }
    }
    Err(ApiError::invalid(format!("messages[{at}] is the result of `{call}`, but no earlier call has this id")))
}
