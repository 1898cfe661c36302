//! The state of a thread after a run.

use serde_json::Value;

use super::api::RunStatus;
use crate::agent::WorkError;
use crate::error::RemoteError;
use crate::progress::{Place, Progress, sum, text_of, usage_of};
use crate::questions::{RemoteInterrupt, read_pauses};

/// The result of a run.
#[derive(Debug)]
pub(super) enum RunResult {
    /// The agent has ended with this answer.
    Done(String),
    /// The run waits for answers.
    Waits(Vec<RemoteInterrupt>),
}

/// Returns the messages of the last turn, which follow the last user message.
fn last_turn(state: &Value) -> &[Value] {
    let messages = state.get("values").and_then(|values| values.get("messages")?.as_array());
    let messages = messages.map(Vec::as_slice).unwrap_or_default();
    let is_human = |message: &Value| matches!(kind_of(message), "human" | "user");
    let from = messages.iter().rposition(is_human).map_or(0, |at| at + 1);
    messages.get(from..).unwrap_or_default()
}

fn kind_of(message: &Value) -> &str {
    ["type", "role"].iter().find_map(|key| message.get(key)?.as_str()).unwrap_or_default()
}

fn is_answer(message: &&Value) -> bool {
    matches!(kind_of(message), "ai" | "assistant" | "AIMessage")
}

/// Charges the usage in the state if it exceeds what the stream reported. Forwards the messages if none were read from
/// the stream.
pub(super) async fn account(state: &Value, progress: &mut Progress<'_>) -> Result<(), WorkError> {
    let total = sum(last_turn(state).iter().filter(is_answer).map(usage_of));
    if progress.is_unread() {
        for message in last_turn(state) {
            progress.message(Place { path: &[], name: "" }, message).await?;
        }
    }
    Ok(progress.charge_usage(total).await?)
}

pub(super) fn run_result(
    host: &str,
    status: &RunStatus,
    state: &Value,
    error: Option<String>,
) -> Result<RunResult, RemoteError> {
    let host = host.to_owned();
    let paused = state.get("status").is_none_or(|status| status == "interrupted");
    if paused && matches!(status.0.as_str(), "success" | "interrupted") {
        let places = [state.get("interrupts"), state.get("values").and_then(|values| values.get("__interrupt__"))];
        let pauses = places.into_iter().flatten().map(read_pauses).find(|pauses| !pauses.is_empty());
        if let Some(pauses) = pauses {
            return Ok(RunResult::Waits(pauses));
        }
    }
    match status.0.as_str() {
        "success" if state.get("status").is_some_and(|status| status == "interrupted") => {
            Err(RemoteError::Ended { host, reason: "it stopped at a breakpoint".to_owned() })
        }
        "success" => Ok(RunResult::Done(result(state))),
        "error" => {
            let reason = error.unwrap_or_else(|| "the server does not say why".to_owned());
            Err(RemoteError::Failed { host, reason })
        }
        "timeout" => Err(RemoteError::Failed { host, reason: "its time was up".to_owned() }),
        "interrupted" => Err(RemoteError::Ended { host, reason: "it was cancelled".to_owned() }),
        other => Err(RemoteError::Ended { host, reason: format!("its status is {other}") }),
    }
}

/// Returns the structured response, or else the agent's last message with text.
fn result(state: &Value) -> String {
    let shaped = state.get("values").and_then(|values| values.get("structured_response")).filter(|it| !it.is_null());
    if let Some(shaped) = shaped {
        return shaped.to_string();
    }
    let answers = last_turn(state).iter().rev().filter(is_answer).map(text_of);
    answers.map(|text| text.trim_end().to_owned()).find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(status: &str, state: &Value) -> Result<RunResult, RemoteError> {
        run_result("http://there", &RunStatus(status.to_owned()), state, None)
    }

    #[test]
    fn the_result_is_the_last_nonempty_text_of_the_last_turn() {
        let state = json!({"status": "idle", "values": {"messages": [
            {"type": "human", "content": "one"}, {"type": "ai", "content": "old"},
            {"type": "human", "content": "two"}, {"type": "ai", "content": [{"type": "text", "text": "new "}]}, {"type": "ai", "content": ""},
        ]}});
        assert!(matches!(ended("success", &state), Ok(RunResult::Done(text)) if text == "new"));
        let shaped = json!({"status": "idle", "values": {"messages": [], "structured_response": {"a": 1}}});
        assert!(matches!(ended("success", &shaped), Ok(RunResult::Done(text)) if text == r#"{"a":1}"#));
        assert!(matches!(ended("success", &json!({})), Ok(RunResult::Done(text)) if text.is_empty()));
    }

    #[test]
    fn pending_questions_and_failures_are_distinguished() {
        let waits = json!({"status": "interrupted", "interrupts": {"t": [{"id": "a", "value": "Which?"}]}});
        assert!(matches!(ended("success", &waits), Ok(RunResult::Waits(pauses)) if pauses.len() == 1));
        let breakpoint = json!({"status": "interrupted", "interrupts": {}});
        assert!(matches!(ended("success", &breakpoint), Err(RemoteError::Ended { .. })));
        for (status, word) in
            [("error", "does not say why"), ("timeout", "time was up"), ("interrupted", "cancelled"), ("odd", "odd")]
        {
            assert!(ended(status, &json!({})).unwrap_err().to_string().contains(word), "{status}");
        }
    }
}
