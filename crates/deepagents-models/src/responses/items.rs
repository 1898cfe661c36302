//! Converts output items of the Responses API to blocks.

use deepagents_core::message::{Block, Reasoning, Text};
use serde_json::{Map, Value, json};

use crate::args::{self, InvalidArgs};
use crate::blocks::{self, native, provider_item};

/// Returns the text of a field.
pub(super) fn text<'a>(item: &'a Map<String, Value>, key: &str) -> &'a str {
    crate::json::text(item.get(key))
}

/// What an item is to the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call,
    /// A call that neither this harness nor the provider executes.
    Unmade,
    /// A server tool, or a future kind of item.
    Other,
}

impl Kind {
    pub(super) fn new(item: &Map<String, Value>) -> Self {
        match text(item, "type") {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            "custom_tool_call" | "local_shell_call" | "mcp_approval_request" => Self::Unmade,
            _ => Self::Other,
        }
    }

    pub(super) fn of(item: &Value) -> Self {
        item.as_object().map_or(Self::Other, Self::new)
    }
}

/// Converts a complete item; `was_cut` says that the response reached its token limit.
pub(super) fn block(item: Map<String, Value>, was_cut: bool) -> Block {
    match Kind::new(&item) {
        Kind::Message => Block::Text(Text { text: words(&item, "content"), native: native(item) }),
        Kind::Reasoning => {
            let summary = words(&item, "summary");
            let text = if summary.is_empty() { words(&item, "content") } else { summary };
            Block::Reasoning(Reasoning { text, native: native(item) })
        }
        Kind::Call => call(item, was_cut),
        Kind::Unmade => {
            let (id, name) = name_of(&item);
            let raw = ["input", "arguments", "action"].iter().find_map(|key| item.get(*key)).map(as_text);
            let error = "a call of this kind cannot be made here: only functions can be called".to_owned();
            let args = Err(InvalidArgs { raw: raw.unwrap_or_default(), error });
            blocks::call(id, name, args, native(item))
        }
        Kind::Other => provider_item(Value::Object(item)),
    }
}

/// Returns the texts of an item's parts. Sections of a summary become separate paragraphs.
fn words(item: &Map<String, Value>, field: &str) -> String {
    let parts = item.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let texts = parts.map(|part| if part.contains_key("refusal") { text(part, "refusal") } else { text(part, "text") });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(if field == "summary" { "\n\n" } else { "" })
}

/// Returns whether a message is a refusal.
pub(super) fn is_refusal(item: &Map<String, Value>) -> bool {
    let parts = item.get("content").and_then(Value::as_array).into_iter().flatten();
    parts.into_iter().any(|part| part.get("type").is_some_and(|kind| kind == "refusal"))
}

/// Returns the ID and name of a call.
pub(super) fn name_of(item: &Map<String, Value>) -> (String, String) {
    let (id, name) = match text(item, "type") {
        "mcp_approval_request" => (text(item, "id"), text(item, "name")),
        "local_shell_call" => (text(item, "call_id"), "local_shell"),
        _ => (text(item, "call_id"), text(item, "name")),
    };
    (id.to_owned(), name.to_owned())
}

/// Returns the dedicated item for the response to a call that nobody executes; `None` for other calls.
pub(super) fn unmade(item: &Map<String, Value>, words: &str) -> Option<Value> {
    Some(match text(item, "type") {
        "mcp_approval_request" => json!({"type": "mcp_approval_response", "approval_request_id": text(item, "id"),
            "approve": false, "reason": words}),
        kind @ ("custom_tool_call" | "local_shell_call") => {
            json!({"type": format!("{kind}_output"), "call_id": text(item, "call_id"), "output": words})
        }
        _ => return None,
    })
}

/// Returns text as it is, other values as JSON, and an empty text for null.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn call(mut item: Map<String, Value>, was_cut: bool) -> Block {
    let (id, name) = name_of(&item);
    let raw = item.get("arguments").map(as_text).unwrap_or_default();
    if item.get("arguments").is_some_and(|arguments| !arguments.is_string()) {
        // The API requires a string.
        let text = if raw.is_empty() { "{}".to_owned() } else { raw.clone() };
        item.insert("arguments".to_owned(), Value::String(text));
    }
    let is_empty = raw.trim().is_empty();
    let args = args::from_text(&raw, was_cut && (is_empty || text(&item, "status") == "incomplete"));
    if !is_empty
        && !args::is_json(&raw)
        && let Ok(repaired) = args::parse(&raw)
    {
        // Repaired arguments are sent back in their repaired form.
        item.insert("arguments".to_owned(), Value::String(repaired.to_string()));
    }
    blocks::call(id, name, args, native(item))
}
