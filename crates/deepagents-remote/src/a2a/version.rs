//! The differences between versions 0.3 and 1.0 of the protocol.

use serde_json::{Value, json};

/// The protocol version of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V0_3,
    V1_0,
}

/// A request to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    SendAndStream,
    Get,
    List,
    Cancel,
    Subscribe,
}

impl Version {
    /// Returns the version that an interface of a card names, or `None` if it is not supported.
    pub(super) fn named(version: Option<&str>) -> Option<Self> {
        match version {
            None => Some(Self::V0_3),
            Some(version) if version.starts_with("0.") => Some(Self::V0_3),
            Some(version) if version == "1" || version.starts_with("1.") => Some(Self::V1_0),
            Some(_) => None,
        }
    }

    /// Returns the method of an operation.
    pub(super) fn method(self, operation: Operation) -> &'static str {
        match (self, operation) {
            (Self::V0_3, Operation::Send) => "message/send",
            (Self::V0_3, Operation::SendAndStream) => "message/stream",
            (Self::V0_3, Operation::Get) => "tasks/get",
            (Self::V0_3, Operation::Cancel) => "tasks/cancel",
            (Self::V0_3, Operation::Subscribe) => "tasks/resubscribe",
            (Self::V1_0, Operation::Send) => "SendMessage",
            (Self::V1_0, Operation::SendAndStream) => "SendStreamingMessage",
            (Self::V1_0, Operation::Get) => "GetTask",
            (_, Operation::List) => "ListTasks",
            (Self::V1_0, Operation::Cancel) => "CancelTask",
            (Self::V1_0, Operation::Subscribe) => "SubscribeToTask",
        }
    }

    /// Returns the parameters that send a message without waiting for the task to end.
    pub(super) fn sent(self, message: &Value) -> Value {
        let modes = json!(["text/plain", "application/json"]);
        let (returns_at_once, value) = match self {
            Self::V0_3 => ("blocking", false),
            Self::V1_0 => ("returnImmediately", true),
        };
        json!({"message": message, "configuration": {"acceptedOutputModes": modes, returns_at_once: value}})
    }

    /// Returns the parameters that identify a task.
    pub(super) fn task(self, id: &str, context: &str) -> Value {
        match self {
            Self::V0_3 => json!({"id": id, "contextId": context}),
            Self::V1_0 => json!({"id": id}),
        }
    }

    /// Builds a message with one part of this kind.
    pub(super) fn message(self, kind: &str, part: &Value, id: &str, context: &str) -> Value {
        match self {
            Self::V0_3 => json!({
                "kind": "message", "role": "user", "parts": [{"kind": kind, kind: part}], "messageId": id,
                "contextId": context,
            }),
            Self::V1_0 => json!({
                "role": "ROLE_USER", "parts": [{kind: part}], "messageId": id, "contextId": context,
            }),
        }
    }
}

/// The kind of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Task,
    Message,
    StatusUpdate,
    ArtifactUpdate,
}

/// Returns the kind of a result and its contents. Version 0.3 has the kind inside the result, version 1.0 around it. In
/// both, a task may come without a kind.
pub(super) fn unwrap_result(result: &Value) -> (Kind, &Value) {
    match result.get("kind").and_then(Value::as_str) {
        Some("message") => return (Kind::Message, result),
        Some("status-update") => return (Kind::StatusUpdate, result),
        Some("artifact-update") => return (Kind::ArtifactUpdate, result),
        Some(_) => return (Kind::Task, result),
        None => {}
    }
    let around = [
        ("task", Kind::Task),
        ("message", Kind::Message),
        ("statusUpdate", Kind::StatusUpdate),
        ("artifactUpdate", Kind::ArtifactUpdate),
    ];
    let inside =
        around.iter().find_map(|(key, kind)| Some((*kind, result.get(key).filter(|inside| inside.is_object())?)));
    inside.unwrap_or((Kind::Task, result))
}

/// Returns the state of a task in the spelling of version 0.3, such as `input-required`.
pub(super) fn state(word: &str) -> String {
    match word.strip_prefix("TASK_STATE_") {
        Some(word) => word.to_ascii_lowercase().replace('_', "-"),
        None => word.to_owned(),
    }
}

/// Returns whether a message is from the agent.
pub(super) fn is_agents(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str).is_some_and(|role| matches!(role, "agent" | "ROLE_AGENT"))
}
