//! Words for how things end.

use std::borrow::Cow;

use deepagents_core::model::StopReason;
use deepagents_core::run::FinishReason;

/// Why an agent ended, by the word that its JSON has.
pub(super) fn finish(reason: &FinishReason) -> Cow<'static, str> {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(word)) => word.into(),
        _ => "_OTHER".into(),
    }
}

/// The class of the error, where the end of a run is one for whoever asked for it.
pub(super) fn failure(reason: &FinishReason) -> Option<Cow<'static, str>> {
    match reason {
        FinishReason::Cancelled => Some("cancelled".into()),
        FinishReason::Deadline => Some("timeout".into()),
        FinishReason::StepLimit | FinishReason::Budget(_) => Some(finish(reason)),
        _ => None,
    }
}

/// Why a model stopped, by the words of the conventions.
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
