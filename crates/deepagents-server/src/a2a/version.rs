//! Translation between versions 0.3 and 1.0 of the protocol. All other code uses the terms of 0.3.

use axum::http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::rpc::RpcError;

/// The protocol version that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V0_3,
    V1_0,
}

/// A requested operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    SendAndStream,
    Get,
    List,
    Cancel,
    Subscribe,
    ExtendedCard,
    PushNotifications,
}

/// Error code: the version is not supported.
const NO_VERSION: i32 = -32009;

impl Operation {
    /// Maps a method name to its operation and to the version that uses this name.
    pub(super) fn named(method: &str) -> Option<(Version, Self)> {
        use Version::{V0_3, V1_0};
        Some(match method {
            "message/send" => (V0_3, Self::Send),
            "message/stream" => (V0_3, Self::SendAndStream),
            "tasks/get" => (V0_3, Self::Get),
            "tasks/cancel" => (V0_3, Self::Cancel),
            "tasks/resubscribe" => (V0_3, Self::Subscribe),
            "agent/getAuthenticatedExtendedCard" => (V0_3, Self::ExtendedCard),
            _ if method.starts_with("tasks/pushNotificationConfig/") => (V0_3, Self::PushNotifications),
            "SendMessage" => (V1_0, Self::Send),
            "SendStreamingMessage" => (V1_0, Self::SendAndStream),
            "GetTask" => (V1_0, Self::Get),
            "ListTasks" => (V1_0, Self::List),
            "CancelTask" => (V1_0, Self::Cancel),
            "SubscribeToTask" => (V1_0, Self::Subscribe),
            "GetExtendedAgentCard" => (V1_0, Self::ExtendedCard),
            _ if method.contains("TaskPushNotificationConfig") => (V1_0, Self::PushNotifications),
            _ => return None,
        })
    }
}

/// Rejects an unsupported version in the headers. The header is optional because the method names tell the versions
/// apart.
pub(super) fn check(headers: &HeaderMap) -> Result<(), RpcError> {
    let Some(named) = headers.get("a2a-version") else { return Ok(()) };
    let named = named.to_str().unwrap_or_default().trim();
    let major_minor: Vec<&str> = named.split('.').take(2).collect();
    match major_minor.as_slice() {
        ["" | "1"] | ["1" | "0", _] => Ok(()),
        _ => Err(RpcError::new(NO_VERSION, format!("version `{named}` is not supported; 0.3 and 1.0 are"))),
    }
}

impl Version {
    /// Translates a task, message or event to this version, as a result of sending or an item of a stream.
    pub(super) fn result(self, result: Value) -> Value {
        if self == Self::V0_3 {
            return result;
        }
        let around = match result.get("kind").and_then(Value::as_str) {
            Some("status-update") => "statusUpdate",
            Some("artifact-update") => "artifactUpdate",
            Some("message") => "message",
            _ => "task",
        };
        json!({around: to_current(result)})
    }

    /// Translates a task that is returned on its own to this version.
    pub(super) fn task(self, task: Value) -> Value {
        if self == Self::V0_3 { task } else { to_current(task) }
    }
}

/// Converts an object of version 0.3 to 1.0: removes `kind` and `final`, renames enumeration values, and identifies
/// parts by their content field.
fn to_current(value: Value) -> Value {
    let Value::Object(object) = value else { return value };
    let each = |(key, value): (String, Value)| {
        let value = match (key.as_str(), value) {
            ("kind" | "final", _) => return None,
            ("parts", Value::Array(parts)) => Value::Array(parts.into_iter().map(part).collect()),
            ("history" | "artifacts", Value::Array(list)) => Value::Array(list.into_iter().map(to_current).collect()),
            ("status" | "message" | "artifact", value) => to_current(value),
            ("state", Value::String(state)) => json!(enumerated("TASK_STATE_", &state)),
            ("role", Value::String(role)) => json!(enumerated("ROLE_", &role)),
            (_, value) => value,
        };
        Some((key, value))
    };
    Value::Object(object.into_iter().filter_map(each).collect())
}

fn enumerated(prefix: &str, word: &str) -> String {
    format!("{prefix}{}", word.to_ascii_uppercase().replace('-', "_"))
}

/// Returns the state in the terms of version 0.3 for a name of either version.
pub(super) fn state(word: &str) -> String {
    word.strip_prefix("TASK_STATE_").unwrap_or(word).to_ascii_lowercase().replace('_', "-")
}

fn part(part: Value) -> Value {
    let Value::Object(mut part) = part else { return part };
    part.remove("kind");
    let Some(Value::Object(file)) = part.remove("file") else { return Value::Object(part) };
    let names = [("bytes", "raw"), ("uri", "url"), ("name", "filename"), ("mimeType", "mediaType")];
    let named = |(old, new): (&str, &str)| Some((new.to_owned(), file.get(old)?.clone()));
    Value::Object(names.into_iter().filter_map(named).chain(part).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_encoded_in_the_version_1_format() {
        let message = json!({
            "kind": "message", "role": "agent", "messageId": "m", "parts": [
                {"kind": "text", "text": "kind of"}, {"kind": "data", "data": {"kind": "kept", "state": "kept"}},
                {"kind": "file", "file": {"name": "a.png", "mimeType": "image/png", "bytes": "AA=="}},
            ],
        });
        let task = json!({
            "kind": "task", "id": "t", "status": {"state": "input-required", "message": message},
            "artifacts": [{"artifactId": "answer", "parts": [{"kind": "text", "text": "x"}]}], "history": [message],
            "metadata": {"kind": "kept"},
        });
        let said = json!({
            "role": "ROLE_AGENT", "messageId": "m", "parts": [
                {"text": "kind of"}, {"data": {"kind": "kept", "state": "kept"}},
                {"filename": "a.png", "mediaType": "image/png", "raw": "AA=="},
            ],
        });
        let expected = json!({
            "id": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": said},
            "artifacts": [{"artifactId": "answer", "parts": [{"text": "x"}]}], "history": [said],
            "metadata": {"kind": "kept"},
        });
        assert_eq!(Version::V1_0.result(task.clone()), json!({"task": expected}));
        assert_eq!(Version::V1_0.task(task.clone()), expected);
        assert_eq!(Version::V0_3.result(task.clone()), task);
        let update = json!({"kind": "status-update", "taskId": "t", "status": {"state": "canceled"}, "final": true});
        let expected = json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_CANCELED"}}});
        assert_eq!(Version::V1_0.result(update), expected);
    }

    #[test]
    fn unknown_versions_are_rejected_and_ours_is_optional() {
        let with = |version: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("a2a-version", version.parse().unwrap());
            check(&headers).is_ok()
        };
        assert!(check(&HeaderMap::new()).is_ok());
        assert_eq!(["", "0.3", "1.0", "1", "1.0.2"].map(with), [true; 5]);
        assert_eq!(["2.0", "x", "0"].map(with), [false; 3]);
    }
}
