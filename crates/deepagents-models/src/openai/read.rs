//! Helpers for reading responses.

use deepagents_core::message::Usage;
use serde_json::{Map, Value};

/// Merges a piece of structured reasoning. Pieces of the same item share an index and, if present, an ID: their texts
/// are appended, the rest is replaced.
pub(super) fn merge_detail(details: &mut Vec<Value>, detail: Value) {
    let same = |other: &&mut Value| {
        let ids = [other.get("id"), detail.get("id")].map(|id| id.filter(|id| !id.is_null()));
        // Pieces that belong to two calls are distinct, although some services give both the same index.
        let differ = matches!(ids, [Some(one), Some(two)] if one != two);
        let keys = ["index", "type"];
        !differ && detail.get("index").is_some() && keys.iter().all(|key| other.get(key) == detail.get(key))
    };
    match (details.iter_mut().rfind(same), detail) {
        (Some(Value::Object(target)), Value::Object(detail)) => {
            for (key, value) in detail {
                match (target.get_mut(&key), value) {
                    (_, Value::Null) => {}
                    (Some(Value::String(text)), Value::String(more))
                        if matches!(key.as_str(), "text" | "summary" | "data") =>
                    {
                        text.push_str(&more);
                    }
                    (_, value) => drop(target.insert(key, value)),
                }
            }
        }
        (_, detail) => details.push(detail),
    }
}

pub(super) fn usage(reported: &Value) -> Usage {
    let count = |path: &[&str]| path.iter().try_fold(reported, |value, key| value.get(key)).and_then(whole_number);
    let (input, answer) =
        (count(&["prompt_tokens"]).unwrap_or_default(), count(&["completion_tokens"]).unwrap_or_default());
    let reasoning = count(&["completion_tokens_details", "reasoning_tokens"]).unwrap_or_default();
    // Some services exclude reasoning from the output tokens, which the total reveals.
    let apart = count(&["total_tokens"]) == Some(input.saturating_add(answer).saturating_add(reasoning));
    Usage {
        input,
        output: if apart { answer.saturating_add(reasoning) } else { answer },
        cache_read: count(&["prompt_tokens_details", "cached_tokens"])
            .or_else(|| count(&["prompt_cache_hit_tokens"]))
            .or_else(|| count(&["cached_tokens"]))
            .unwrap_or_default(),
        cache_write: count(&["prompt_tokens_details", "cache_write_tokens"]).unwrap_or_default(),
        reasoning,
    }
}

/// Reads a count or an index, also if written as `5.0` or as a string.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let exact = || number.as_f64().filter(|n| n.fract() == 0.0).and_then(|n| format!("{n}").parse().ok());
            number.as_u64().or_else(exact)
        }
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

pub(super) fn take_text(map: &mut Map<String, Value>, key: &str) -> String {
    match map.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}
