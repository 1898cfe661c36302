//! Names of finish reasons.

use std::borrow::Cow;

use deepagents_core::model::StopReason;
use deepagents_core::run::FinishReason;

/// Returns the name of a finish reason, as in its JSON.
pub(super) fn finish(reason: &FinishReason) -> Cow<'static, str> {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(word)) => word.into(),
        _ => "_OTHER".into(),
    }
}

/// Returns the error class of a finish reason that is an error for the caller.
pub(super) fn failure(reason: &FinishReason) -> Option<Cow<'static, str>> {
    match reason {
        FinishReason::Cancelled => Some("cancelled".into()),
        FinishReason::Deadline => Some("timeout".into()),
        FinishReason::StepLimit | FinishReason::Budget(_) => Some(finish(reason)),
        _ => None,
    }
}

/// Returns the name that the conventions give a stop reason.
pub(super) fn stop(reason: &StopReason) -> Cow<'static, str> {
    match reason {
        StopReason::End | StopReason::StopSequence => "stop".into(),
        StopReason::ToolCalls => "tool_call".into(),
        StopReason::MaxTokens | StopReason::ContextWindow => "length".into(),
        StopReason::Refusal => "content_filter".into(),
        StopReason::Pause => "pause".into(),
        StopReason::Other(word) => word.clone().into(),
        _ => "_OTHER".into(),
    }
}
