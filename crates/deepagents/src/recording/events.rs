//! The parts of an event that must be the same in a replay.

use std::collections::HashMap;

use deepagents_core::env::Timestamp;
use serde_json::Value;

/// A sequence of events that are compared in order: those of an agent, or the progress of one of its calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lane {
    pub(super) path: Vec<String>,
    call: Option<String>,
}

impl Lane {
    /// Returns `true` for the agent's own events, without the progress of its calls.
    pub(super) fn is_of(&self, path: &[String]) -> bool {
        self.call.is_none() && self.path == path
    }
}

/// The compared form of an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) lane: Lane,
    pub(super) value: Value,
}

impl Compared {
    /// Returns `None` for events that are not compared.
    pub(super) fn from_event(event: &Value) -> Option<Self> {
        let kind = kind(event);
        if kind == "custom" {
            return None;
        }
        let path = path(event).into_iter().map(str::to_owned).collect();
        let call = (kind == "tool_progress").then(|| event.get("call").map(Value::to_string)).flatten();
        let mut value = event.clone();
        if let Some(fields) = value.as_object_mut() {
            for own in [
                "v",
                "seq",
                "run",
                "path",
                "time",
                "run_attempt",
                "position",
                "thread",
                "message",
                "retry_after_ms",
                "requested",
                "again",
                "next",
            ] {
                fields.shift_remove(own);
            }
        }
        // The wording that says who asks may differ in later versions, and earlier ones did not have it.
        if let Some(question) = value.get_mut("question").and_then(Value::as_object_mut) {
            for words in ["rule", "agent"] {
                question.shift_remove(words);
            }
        }
        Some(Self { lane: Lane { path, call }, value })
    }
}

/// Event types that every version of the recorder knows. Newer ones are compared only if the recording has them.
const KNOWN: &str = "run_started agent_started model_started text_delta reasoning_delta tool_call_delta attempt_discarded \
    model_finished tool_started tool_progress tool_finished state_changed steered asked custom agent_finished \
    agent_failed run_finished run_failed";

/// Returns `true` for an event type that the recorder may not have known.
pub(super) fn is_later(kind: &str) -> bool {
    KNOWN.split(' ').all(|known| known != kind)
}

/// Returns the `type` of an event.
pub(super) fn kind(event: &Value) -> &str {
    event.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the path of the agent to which an event belongs.
pub(super) fn path(event: &Value) -> Vec<&str> {
    event.get("path").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Replaces generated ids with numbers in the order of their first occurrence, and times with a fixed word.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    met: HashMap<String, usize>,
}

impl Scrub {
    pub(super) fn scrub(&mut self, value: &mut Value) {
        match value {
            // The id of a retried answer ends in the number of the attempt, which earlier versions did not add.
            Value::String(text) if is_id(without_try(text)) => {
                let next = self.met.len();
                let number = *self.met.entry(without_try(text).to_owned()).or_insert(next);
                *text = format!("<id {number}>");
            }
            Value::String(text) if is_time(text) => "<time>".clone_into(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.scrub(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.scrub(field)),
            _ => {}
        }
    }
}

/// Returns an id without the number of the attempt.
fn without_try(text: &str) -> &str {
    let number = |behind: &str| !behind.is_empty() && behind.bytes().all(|b| b.is_ascii_digit());
    text.rsplit_once('-').filter(|(_, behind)| number(behind)).map_or(text, |(id, _)| id)
}

/// Returns `true` for an id in the default format: a word and 96 bits in hexadecimal.
fn is_id(text: &str) -> bool {
    text.rsplit_once('_').is_some_and(|(word, bits)| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            && bits.len() == 24
            && bits.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    })
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.parse::<Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_ids_are_numbered_and_times_normalised() {
        let (a, b) = ("todo_0123456789abcdef01234567", "todo_ffffffffffffffffffffffff");
        let mut value = json!({"a": a, "b": [b, a], "at": "2026-01-02T03:04:05.123Z", "word": "todo_list"});
        Scrub::default().scrub(&mut value);
        assert_eq!(value, json!({"a": "<id 0>", "b": ["<id 1>", "<id 0>"], "at": "<time>", "word": "todo_list"}));
    }

    #[test]
    fn call_progress_is_compared_separately_from_its_agents_events() {
        let event = |kind: &str| json!({"type": kind, "seq": 3, "run": "r", "path": ["task:0.0"], "call": {"turn": 1}});
        let told = Compared::from_event(&event("tool_progress")).unwrap();
        let done = Compared::from_event(&event("tool_finished")).unwrap();
        assert!(told.lane != done.lane && told.lane.path == done.lane.path);
        assert_eq!(done.value, json!({"type": "tool_finished", "call": {"turn": 1}}));
        assert_eq!(Compared::from_event(&event("custom")), None);
    }
}
