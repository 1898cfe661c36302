//! An output item being received.

use serde_json::{Map, Value, json};

use super::items::text;

/// An output item being received.
pub(super) struct Part {
    /// The provider's position of the item.
    pub(super) index: u64,
    /// Number of its block in the answer.
    pub(super) block: usize,
    pub(super) item: Map<String, Value>,
    /// Whether it was received completely.
    pub(super) done: bool,
    /// Index of the latest section of the summary; each new section is preceded by an empty line.
    pub(super) sections: u64,
    /// Pieces received so far, by the part of the item they belong to.
    emitted: Emitted,
}

#[derive(Default)]
struct Emitted {
    words: String,
    refusal: String,
    summary: String,
    thought: String,
    arguments: String,
}

impl Part {
    pub(super) fn new(index: u64, block: usize, item: Map<String, Value>, done: bool) -> Self {
        Self { index, block, item, done, sections: 0, emitted: Emitted::default() }
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, kind: &str, event: &Map<String, Value>) {
        let emitted = match kind {
            "response.output_text.delta" => &mut self.emitted.words,
            "response.refusal.delta" => &mut self.emitted.refusal,
            "response.reasoning_summary_text.delta" => &mut self.emitted.summary,
            "response.reasoning_text.delta" => &mut self.emitted.thought,
            "response.function_call_arguments.delta" => &mut self.emitted.arguments,
            "response.function_call_arguments.done" => {
                self.emitted.arguments.clear();
                self.emitted.arguments.push_str(text(event, "arguments"));
                return;
            }
            _ => return,
        };
        emitted.push_str(text(event, "delta"));
    }

    /// Returns the item, completed from its pieces if its end did not arrive.
    pub(super) fn whole(self) -> Map<String, Value> {
        let Self { mut item, done, emitted, .. } = self;
        if done {
            return item;
        }
        let mut put = |key: &str, list: Vec<Value>| {
            let is_empty = item.get(key).is_none_or(|value| value.as_array().is_none_or(Vec::is_empty));
            if is_empty && !list.is_empty() {
                item.insert(key.to_owned(), Value::Array(list));
            }
        };
        let part = |kind: &str, key: &str, words: &str| (!words.is_empty()).then(|| json!({"type": kind, key: words}));
        let parts = [part("output_text", "text", &emitted.words), part("refusal", "refusal", &emitted.refusal)];
        put("content", parts.into_iter().flatten().collect());
        put("summary", part("summary_text", "text", &emitted.summary).into_iter().collect());
        put("content", part("reasoning_text", "text", &emitted.thought).into_iter().collect());
        if text(&item, "arguments").is_empty() && !emitted.arguments.is_empty() {
            item.insert("arguments".to_owned(), Value::String(emitted.arguments));
        }
        item
    }
}

/// Returns whether two items have the same ID. The call ID stays the same, even if the item's ID changes.
pub(super) fn is_same(one: &Map<String, Value>, two: &Map<String, Value>) -> bool {
    let same = |key: &str| !text(one, key).is_empty() && text(one, key) == text(two, key);
    may_be(one, two) && (same("call_id") || same("id"))
}

/// Returns whether two items may be the same: they have the same type, and are not two different calls.
pub(super) fn may_be(one: &Map<String, Value>, two: &Map<String, Value>) -> bool {
    let [first, second] = [one, two].map(|item| text(item, "call_id"));
    text(one, "type") == text(two, "type") && (first == second || first.is_empty() || second.is_empty())
}
