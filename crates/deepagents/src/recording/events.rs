//! What of an event has to be the same.

use std::collections::HashMap;

use deepagents_core::env::Timestamp;
use serde_json::Value;

/// Events that are compared with each other in their order: those of an agent, apart from what its single calls tell
/// while they run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lane {
    pub(super) path: Vec<String>,
    call: Option<String>,
}

impl Lane {
    /// Whether it is what an agent does.
    pub(super) fn is_of(&self, path: &[String]) -> bool {
        self.call.is_none() && self.path == path
    }
}

/// An event as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) lane: Lane,
    pub(super) value: Value,
}

impl Compared {
    /// Nothing for events that are not compared.
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
        // Who asks is in words that later programs may choose otherwise, and earlier ones did not have.
        if let Some(question) = value.get_mut("question").and_then(Value::as_object_mut) {
            for words in ["rule", "agent"] {
                question.shift_remove(words);
            }
        }
        Some(Self { lane: Lane { path, call }, value })
    }
}

/// Kinds of events that every program knows that records. Later ones are compared where the recording has them.
const KNOWN: &str = "run_started agent_started model_started text_delta reasoning_delta tool_call_delta attempt_discarded \
    model_finished tool_started tool_progress tool_finished state_changed steered asked custom agent_finished \
    agent_failed run_finished run_failed";

/// Whether a recording without events of a kind was made by a program that did not know it.
pub(super) fn is_later(kind: &str) -> bool {
    KNOWN.split(' ').all(|known| known != kind)
}

/// The `type` of an event.
pub(super) fn kind(event: &Value) -> &str {
    event.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The path of the agent that an event is of.
pub(super) fn path(event: &Value) -> Vec<&str> {
    event.get("path").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Puts numbers in the place of generated ids, in the order in which they are met, and one word in the place of times.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    met: HashMap<String, usize>,
}

impl Scrub {
    pub(super) fn scrub(&mut self, value: &mut Value) {
        match value {
            // An answer that is asked for again has a number behind its id, which earlier programs did not give.
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

/// An id without the number of the try.
fn without_try(text: &str) -> &str {
    let number = |behind: &str| !behind.is_empty() && behind.bytes().all(|b| b.is_ascii_digit());
    text.rsplit_once('-').filter(|(_, behind)| number(behind)).map_or(text, |(id, _)| id)
}

/// Whether it is an id as they are made by default: a word and 96 bits.
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
    fn generated_ids_are_numbered_and_times_are_all_the_same() {
        let (a, b) = ("todo_0123456789abcdef01234567", "todo_ffffffffffffffffffffffff");
        let mut value = json!({"a": a, "b": [b, a], "at": "2026-01-02T03:04:05.123Z", "word": "todo_list"});
        Scrub::default().scrub(&mut value);
        assert_eq!(value, json!({"a": "<id 0>", "b": ["<id 1>", "<id 0>"], "at": "<time>", "word": "todo_list"}));
    }

    #[test]
    fn what_calls_tell_is_apart_from_what_their_agent_does() {
        let event = |kind: &str| json!({"type": kind, "seq": 3, "run": "r", "path": ["task:0.0"], "call": {"turn": 1}});
        let told = Compared::from_event(&event("tool_progress")).unwrap();
        let done = Compared::from_event(&event("tool_finished")).unwrap();
        assert!(told.lane != done.lane && told.lane.path == done.lane.path);
        assert_eq!(done.value, json!({"type": "tool_finished", "call": {"turn": 1}}));
        assert_eq!(Compared::from_event(&event("custom")), None);
    }
}
