//! Recognises blocks that were changed after their provider's item was stored with them.

use deepagents_core::message::Block;
use serde_json::Value;

use crate::args;

/// Returns whether a block's text or arguments differ from those in its provider's item. An item of an unknown form
/// counts as unchanged.
pub(super) fn is_edited(block: &Block, item: &Value) -> bool {
    match block {
        Block::Text(text) => text_of(item).is_some_and(|parts| parts.concat() != text.text),
        // Providers separate the sections of a summary in different ways.
        Block::Reasoning(thought) => {
            thought_of(item).is_some_and(|parts| !letters(&parts.concat()).eq(letters(&thought.text)))
        }
        Block::ToolCall(call) => args_of(item).is_some_and(|args| args != call.args),
        _ => false,
    }
}

fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_whitespace())
}

/// Returns the text of an item, in parts.
fn text_of(item: &Value) -> Option<Vec<&str>> {
    match (item.get("text"), item.get("content").or_else(|| item.pointer("/citationsContent/content"))) {
        (Some(text), _) => Some(vec![text.as_str()?]),
        (None, Some(parts)) => texts(parts),
        (None, None) => None,
    }
}

/// Returns the readable reasoning of an item, in parts.
fn thought_of(item: &Value) -> Option<Vec<&str>> {
    let fields = ["thinking", "reasoning_content", "reasoning", "text"].iter().find_map(|key| item.get(*key));
    match fields.or_else(|| item.pointer("/reasoningContent/reasoningText/text")) {
        Some(Value::String(whole)) => return Some(vec![whole]),
        Some(parts) => return texts(parts),
        // The texts of details that came alone are not part of the block's text.
        None if item.get("reasoning_details").is_some() => return Some(Vec::new()),
        None => {}
    }
    let summary = item.get("summary").and_then(texts).filter(|parts| !parts.concat().is_empty());
    summary.or_else(|| texts(item.get("content")?))
}

fn texts(parts: &Value) -> Option<Vec<&str>> {
    let texts = parts.as_array()?.iter().filter_map(|part| part.get("refusal").or_else(|| part.get("text"))?.as_str());
    Some(texts.collect())
}

/// Returns the arguments in the item of a call, if they can be read.
fn args_of(item: &Value) -> Option<Value> {
    let nested = ["/function/arguments", "/functionCall/args", "/toolUse/input"];
    let field = ["input", "arguments"].iter().find_map(|key| item.get(*key));
    match field.or_else(|| nested.iter().find_map(|path| item.pointer(path)))? {
        Value::String(raw) => args::parse(raw).ok(),
        args => Some(args.clone()).filter(Value::is_object),
    }
}

#[cfg(test)]
mod tests {
    use deepagents_core::message::{Reasoning, Text};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_block_is_edited_if_its_text_differs_from_that_of_its_item() {
        let items = [
            json!({"type": "text", "text": "Rome.", "citations": [1]}),
            json!({"type": "message", "content": [{"type": "output_text", "text": "Ro"}, {"type": "refusal", "refusal": "me."}]}),
            json!({"citationsContent": {"content": [{"text": "Rome."}], "citations": []}}),
        ];
        let text = |text: &str| Block::Text(Text { text: text.into(), native: None });
        for item in &items {
            assert!(!is_edited(&text("Rome."), item) && is_edited(&text("Turin."), item), "{item}");
        }
        assert!(!is_edited(&text("Rome."), &json!({"audio": {"id": "a"}})), "an unknown form");
    }

    #[test]
    fn reasoning_is_edited_if_more_than_its_paragraphs_differ() {
        let items = [
            json!({"type": "thinking", "thinking": "One.\n\nTwo.", "signature": "S"}),
            json!({"type": "reasoning", "summary": [{"text": "One."}, {"text": "Two."}], "encrypted_content": "E"}),
            json!({"type": "reasoning", "summary": [], "content": [{"text": "One.\n\nTwo."}]}),
            json!({"reasoningContent": {"reasoningText": {"text": "One.\n\nTwo."}}}),
            json!({"text": "One.\n\nTwo.", "thought": true, "thoughtSignature": "S"}),
            json!({"type": "thinking", "thinking": [{"type": "text", "text": "One. "}, {"type": "reference"}, {"text": "Two."}]}),
            json!({"reasoning_content": "One. Two."}),
            json!({"reasoning": "One. Two.", "reasoning_details": [{"type": "reasoning.text", "text": "One. Two."}]}),
        ];
        let thought = |text: &str| Block::Reasoning(Reasoning { text: text.into(), native: None });
        for item in &items {
            assert!(!is_edited(&thought("One.\n\nTwo."), item) && is_edited(&thought("One."), item), "{item}");
        }
        assert!(!is_edited(&thought(""), &json!({"type": "reasoning", "summary": []})), "no text is readable");
        let details = json!({"reasoning_details": [{"type": "reasoning.text", "text": "One."}]});
        assert!(!is_edited(&thought(""), &details) && is_edited(&thought("Two."), &details), "details alone");
    }

    #[test]
    fn a_call_is_edited_if_its_arguments_differ_from_those_of_its_item() {
        let items = [
            json!({"type": "tool_use", "input": {"n": 1}, "caller": {}}),
            json!({"type": "function_call", "arguments": "{ \"n\":1 }"}),
            json!({"type": "function", "function": {"arguments": "{\"n\":1}"}}),
            json!({"functionCall": {"args": {"n": 1}}, "thoughtSignature": "S"}),
            json!({"toolUse": {"input": "{\"n\": 1}"}}),
        ];
        let call = |n: u64| Block::call("c", "f", json!({ "n": n }));
        for item in &items {
            assert!(!is_edited(&call(1), item) && is_edited(&call(2), item), "{item}");
        }
    }
}
