//! The known state of a remote task.

use std::collections::BTreeMap;

use deepagents_core::agent::{ChildEvent, ChildScope};
use serde_json::{Value, json};

use super::version::{Kind, Version, is_agents, state, unwrap_result};
use super::{KnownTask, message_id};
use crate::agent::Work;
use crate::error::RemoteError;
use crate::questions::{RemoteAction, RemoteInterrupt, read_pauses};

/// Maximum number of artifacts whose texts are kept.
const MAX_ARTIFACTS: usize = 1_000;

/// The content of a message to the agent.
pub(super) enum Part {
    Text(String),
    Data(Value),
}

/// Builds a message to the agent. The agent may have given a task another context than the one that was asked for.
pub(super) fn message(version: Version, work: &Work<'_>, round: usize, part: &Part, task: Option<&KnownTask>) -> Value {
    let (kind, part) = match part {
        Part::Text(text) => ("text", json!(text)),
        Part::Data(data) => ("data", data.clone()),
    };
    let context = task.map_or(&work.conversation, |task| &task.context);
    let mut message = version.message(kind, &part, &message_id(work, round), context);
    if let (Some(task), Some(message)) = (task, message.as_object_mut()) {
        message.insert("taskId".to_owned(), task.id.as_str().into());
    }
    message
}

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Open,
    Asks,
    WantsLogin,
    Completed,
    Failed,
    Cancelled,
    Rejected,
    /// A state that the protocol does not define, or none. It may never end.
    Unknown,
}

impl State {
    fn read(word: &str) -> Self {
        match word {
            "submitted" | "working" => Self::Open,
            "input-required" => Self::Asks,
            "auth-required" => Self::WantsLogin,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "canceled" | "cancelled" => Self::Cancelled,
            "rejected" => Self::Rejected,
            _ => Self::Unknown,
        }
    }

    /// Returns the state of a task.
    pub(super) fn of(task: &Value) -> Self {
        let word = task.get("status").and_then(|status| status.get("state")?.as_str()).unwrap_or_default();
        Self::read(&state(word))
    }

    pub(super) fn is_open(self) -> bool {
        self == Self::Open
    }
}

/// The known state of a remote task.
#[derive(Default)]
pub(super) struct View {
    pub(super) id: Option<String>,
    pub(super) context: Option<String>,
    pub(super) state: State,
    /// The agent's own name of the state.
    word: String,
    /// The message that came with the state.
    status_message: Value,
    /// The ids and texts of its artifacts, in order of first appearance.
    artifacts: BTreeMap<usize, (String, String)>,
    /// The agent's last message in the history.
    spoken: Option<String>,
    pub(super) metadata: Option<Value>,
    /// Whether the task was read in full since it last changed.
    pub(super) is_whole: bool,
}

impl View {
    /// Resets the state before a message is sent, which settles what the task asked.
    pub(super) fn begin_round(&mut self) {
        (self.state, self.status_message, self.is_whole) = (State::Open, Value::Null, false);
    }

    /// Handles a result: a task, a message, or an event of a stream.
    pub(super) fn take(&mut self, result: &Value, scope: &ChildScope) {
        let (kind, result) = unwrap_result(result);
        let word = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
        match kind {
            Kind::Message => {
                let text = text_of(result);
                scope.emit(ChildEvent::Text(text.clone()));
                (self.spoken, self.state, self.is_whole) = (Some(text), State::Completed, true);
            }
            Kind::ArtifactUpdate => {
                self.identify(word("taskId"), word("contextId"));
                let append = result.get("append").and_then(Value::as_bool).unwrap_or(false);
                if let Some(artifact) = result.get("artifact") {
                    self.artifact(artifact, append, scope);
                }
            }
            Kind::StatusUpdate => {
                self.identify(word("taskId"), word("contextId"));
                self.status(result.get("status"), scope);
                self.metadata = result.get("metadata").cloned().or(self.metadata.take());
            }
            Kind::Task => {
                self.identify(word("id"), word("contextId"));
                for artifact in result.get("artifacts").and_then(Value::as_array).into_iter().flatten() {
                    self.artifact(artifact, false, scope);
                }
                let history = result.get("history").and_then(Value::as_array).into_iter().flatten();
                let mut spoken = history.filter(|one| is_agents(one)).map(text_of);
                self.spoken = spoken.rfind(|text| !text.is_empty()).or(self.spoken.take());
                self.metadata = result.get("metadata").cloned().or(self.metadata.take());
                self.status(result.get("status"), scope);
                self.is_whole = true;
            }
        }
    }

    fn identify(&mut self, id: Option<String>, context: Option<String>) {
        self.id = id.or(self.id.take());
        self.context = context.or(self.context.take());
    }

    fn status(&mut self, status: Option<&Value>, scope: &ChildScope) {
        let word = status.and_then(|status| status.get("state")?.as_str()).unwrap_or_default();
        (self.state, self.word) = (State::read(&state(word)), crate::http::cut(word));
        self.status_message = status.and_then(|status| status.get("message")).cloned().unwrap_or_default();
        let text = text_of(&self.status_message);
        if self.state.is_open() && !text.is_empty() {
            scope.emit(ChildEvent::Custom { name: "status".to_owned(), data: json!({"text": text}) });
        }
    }

    /// Stores an artifact or appends to it, and forwards the new text.
    fn artifact(&mut self, artifact: &Value, append: bool, scope: &ChildScope) {
        let id = artifact.get("artifactId").and_then(Value::as_str).unwrap_or_default();
        let text = content_of(artifact);
        let known = self.artifacts.iter().find(|(_, (known, _))| known == id).map(|(at, _)| *at);
        let at = known.unwrap_or(self.artifacts.len());
        if at >= MAX_ARTIFACTS {
            return;
        }
        let (_, whole) = self.artifacts.entry(at).or_insert_with(|| (id.to_owned(), String::new()));
        let new = if append {
            whole.push_str(&text);
            text
        } else {
            let new = text.strip_prefix(whole.as_str()).unwrap_or(&text).to_owned();
            *whole = text;
            new
        };
        if !new.is_empty() {
            scope.emit(ChildEvent::Text(new));
        }
    }

    /// Returns the result of the task: its artifacts, or else its last message.
    pub(super) fn result(&self) -> String {
        let artifacts: Vec<&str> =
            self.artifacts.values().map(|(_, text)| text.trim_end()).filter(|text| !text.is_empty()).collect();
        if !artifacts.is_empty() {
            return artifacts.join("\n\n");
        }
        let said = text_of(&self.status_message);
        if said.is_empty() { self.spoken.clone().unwrap_or_default() } else { said }
    }

    /// Returns the questions that the task asks.
    pub(super) fn pauses(&self) -> Vec<RemoteInterrupt> {
        let parts = self.status_message.get("parts").and_then(Value::as_array).into_iter().flatten();
        let given = parts.filter_map(|part| part.get("data")?.get("interrupts")).map(read_pauses);
        let pauses: Vec<RemoteInterrupt> = given.flatten().collect();
        if !pauses.is_empty() {
            return pauses;
        }
        let text = text_of(&self.status_message);
        let text = if text.is_empty() { "The agent needs an answer.".to_owned() } else { text };
        vec![RemoteInterrupt { id: None, asked: vec![RemoteAction::text_question(text)], decisions: false }]
    }

    /// Returns the error of a task without a result.
    pub(super) fn error(&self, host: &str) -> RemoteError {
        let (host, said) = (host.to_owned(), text_of(&self.status_message));
        let or = |text: &str| if said.is_empty() { text.to_owned() } else { crate::http::cut(&said) };
        match self.state {
            State::Cancelled => RemoteError::Ended { host, reason: "it was cancelled".to_owned() },
            State::Rejected => RemoteError::Failed { host, reason: or("the agent does not take the task") },
            State::WantsLogin => {
                RemoteError::Failed { host, reason: "the agent wants a login that it was not given".to_owned() }
            }
            State::Unknown => RemoteError::UnknownStatus { host, status: self.word.clone() },
            _ => RemoteError::Failed { host, reason: or("the agent does not say why") },
        }
    }
}

/// Returns what the model sees of an artifact: texts, data as JSON, and a line per file. Files are not downloaded.
fn content_of(artifact: &Value) -> String {
    let parts = artifact.get("parts").and_then(Value::as_array).into_iter().flatten();
    let one = |part: &Value| match (part.get("text"), part.get("data"), file_of(part)) {
        (Some(text), _, _) => text.as_str().map(str::to_owned),
        (None, Some(data), _) => Some(data.to_string()),
        (None, None, Some(file)) => Some(file_line(file)),
        (None, None, None) => None,
    };
    parts.filter_map(one).collect::<Vec<_>>().join("\n")
}

/// Returns the object that describes a part's file; in version 1.0, the part itself.
fn file_of(part: &Value) -> Option<&Value> {
    part.get("file").or_else(|| part.get("url").or_else(|| part.get("raw")).map(|_| part))
}

/// Returns a line about a file, so that it does not seem to be missing: its address, or a remark that its content was
/// not downloaded.
fn file_line(file: &Value) -> String {
    let word = |key: &str| file.get(key).and_then(Value::as_str);
    let name = word("name").or_else(|| word("filename")).map_or_else(|| "without a name".to_owned(), crate::http::cut);
    // A truncated address would be useless.
    match word("uri").or_else(|| word("url")) {
        Some(uri) => format!("[file {name}: {uri}]"),
        None => format!("[file {name}: its content was not taken over]"),
    }
}

/// Returns the text of a message's parts.
fn text_of(holder: &Value) -> String {
    let parts = holder.get("parts").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part.get("text")?.as_str()).collect();
    texts.join("\n")
}
