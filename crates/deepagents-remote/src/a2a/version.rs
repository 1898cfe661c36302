//! What versions 0.3 and 1.0 of the protocol call the same things.

use serde_json::{Value, json};

/// The version in which an agent is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V0_3,
    V1_0,
}

/// What is asked of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    SendAndStream,
    Get,
    Cancel,
    Subscribe,
}

impl Version {
    /// The version that an interface of a card names; none of ours if it is neither.
    pub(super) fn named(version: Option<&str>) -> Option<Self> {
        match version {
            None => Some(Self::V0_3),
            Some(version) if version.starts_with("0.") => Some(Self::V0_3),
            Some(version) if version == "1" || version.starts_with("1.") => Some(Self::V1_0),
            Some(_) => None,
        }
    }

    /// The method of an operation.
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
            (Self::V1_0, Operation::Cancel) => "CancelTask",
            (Self::V1_0, Operation::Subscribe) => "SubscribeToTask",
        }
    }

    /// How a message is sent that is not waited for.
    pub(super) fn sent(self, message: &Value) -> Value {
        let modes = json!(["text/plain", "application/json"]);
        match self {
            Self::V0_3 => {
                json!({"message": message, "configuration": {"acceptedOutputModes": modes, "blocking": false}})
            }
            Self::V1_0 => {
                json!({"message": message, "configuration": {"acceptedOutputModes": modes, "returnImmediately": true}})
            }
        }
    }

    /// Which task is meant.
    pub(super) fn task(self, id: &str, context: &str) -> Value {
        match self {
            Self::V0_3 => json!({"id": id, "contextId": context}),
            Self::V1_0 => json!({"id": id}),
        }
    }

    /// A part of a message, of this kind, and the message around it.
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

/// What a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Task,
    Message,
    StatusUpdate,
    ArtifactUpdate,
}

/// What a result is and holds: version 0.3 says it in the result, 1.0 around it. A task may stand by itself in both.
pub(super) fn opened(result: &Value) -> (Kind, &Value) {
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

/// The state of a task in the words of version 0.3, such as `input-required`.
pub(super) fn state(word: &str) -> String {
    match word.strip_prefix("TASK_STATE_") {
        Some(word) => word.to_ascii_lowercase().replace('_', "-"),
        None => word.to_owned(),
    }
}

/// Whether a message is the agent's.
pub(super) fn is_agents(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str).is_some_and(|role| matches!(role, "agent" | "ROLE_AGENT"))
}
