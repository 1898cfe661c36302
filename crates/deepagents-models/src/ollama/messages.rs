//! Encodes the conversation for Ollama.

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin};
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value, json};

use crate::blocks::media;
use crate::body::{Turn, is_from, joined, lacks_error, own_item};
use crate::json::text;

/// Path of the call arguments in a message.
pub(super) const ARGS: [&str; 3] = ["tool_calls", "function", "arguments"];

/// Encodes the messages from `from` on, which is the first or follows an assistant message.
pub(super) fn messages(request: &ModelRequest, from: usize, origin: &Origin) -> Result<Vec<Turn<Value>>, ModelError> {
    let mut turns = Vec::new();
    for (index, message) in (from..).zip(request.messages.tail(from)) {
        let item = match &**message {
            Message::User(user) => plain("user", &user.content)?,
            Message::Tool(result) => {
                let mut item = plain("tool", &result.content)?.unwrap_or_else(|| object("tool", ""));
                let text = text(item.get("content"));
                if lacks_error(result, text) {
                    let text = format!("Error: {text}");
                    item.insert("content".to_owned(), Value::String(text));
                }
                item.insert("tool_name".to_owned(), json!(result.name));
                item.insert("tool_call_id".to_owned(), json!(result.call_id));
                Some(item)
            }
            Message::Assistant(answer) => assistant(answer, is_from(answer, origin)),
            _ => return Err(ModelError::invalid("a message has a role that Ollama does not know")),
        };
        let settled = message.as_assistant().is_some();
        turns.extend(item.map(|item| Turn { item: Value::Object(item), upto: index + 1, settled }));
    }
    Ok(turns)
}

fn object(role: &str, content: &str) -> Map<String, Value> {
    Map::from_iter([("role".to_owned(), json!(role)), ("content".to_owned(), json!(content))])
}

/// Encodes a message of text and images.
fn plain(role: &str, content: &[Block]) -> Result<Option<Map<String, Value>>, ModelError> {
    let text = joined(content);
    let images: Vec<&str> = media(content).map(image).collect::<Result<_, _>>()?;
    if text.is_empty() && images.is_empty() {
        return Ok(None);
    }
    let mut item = object(role, &text);
    if !images.is_empty() {
        item.insert("images".to_owned(), json!(images));
    }
    Ok(Some(item))
}

fn image(media: &Media) -> Result<&str, ModelError> {
    match (media.kind, &media.source) {
        (MediaKind::Image, MediaSource::Base64(data)) => Ok(data),
        (MediaKind::Image, _) => {
            Err(ModelError::invalid("Ollama does not fetch pictures; send the bytes instead of an address"))
        }
        _ => Err(ModelError::invalid(format!("Ollama takes pictures, not {} content", media.mime))),
    }
}

/// Encodes an assistant message. Reasoning is sent back only to the provider it came from.
fn assistant(answer: &AssistantMessage, own: bool) -> Option<Map<String, Value>> {
    let texts = answer.content.iter().filter(|block| block.as_text().is_some_and(|text| !text.is_empty()));
    let text = joined(texts);
    let thoughts =
        answer.content.iter().filter_map(|b| if let Block::Reasoning(b) = b { Some(&*b.text) } else { None });
    let thinking: String = thoughts.filter(|_| own).collect();
    let call = |block: &Block| match block {
        Block::ToolCall(_) if own_item(block, own).is_some() => own_item(block, own).cloned(),
        Block::ToolCall(call) => Some(json!({"id": call.id, "function": {"name": call.name, "arguments": call.args}})),
        Block::InvalidToolCall(call) => Some(json!({"id": call.id, "function": {"name": call.name, "arguments": {}}})),
        _ => None,
    };
    let calls: Vec<Value> = answer.content.iter().filter_map(call).collect();
    if text.is_empty() && thinking.is_empty() && calls.is_empty() {
        return None;
    }
    let mut item = object("assistant", &text);
    if !thinking.is_empty() {
        item.insert("thinking".to_owned(), json!(thinking));
    }
    if !calls.is_empty() {
        item.insert("tool_calls".to_owned(), json!(calls));
    }
    Some(item)
}
