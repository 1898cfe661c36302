//! Encodes the conversation as contents of a request.

use deepagents_core::message::{AssistantMessage, Block, Media, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value, json};

use super::parts::{is_part, merge_beside, sign_first_call};
use crate::blocks::{as_call, media};
use crate::body::{ATTACHED_BELOW, Turn, attached_to, is_from, joined, last_answer, own_item, parts, wire_name};

/// Encodes the contents from message `from` on, which is the first or follows an assistant message. The results of one
/// message's calls form one content.
pub(super) fn contents(request: &ModelRequest, from: usize, origin: &Origin) -> Result<Vec<Turn<Value>>, ModelError> {
    let mut turns: Vec<Turn<Value>> = Vec::new();
    let mut last = last_answer(request, from);
    let mut results: Vec<Value> = Vec::new();
    let mut attached: Vec<Value> = Vec::new();
    let flush = |turns: &mut Vec<Turn<Value>>, results: &mut Vec<Value>, attached: &mut Vec<Value>, upto: usize| {
        for parts in [results, attached].into_iter().filter(|parts| !parts.is_empty()) {
            turns.push(Turn { item: content("user", &std::mem::take(parts)), upto, settled: false });
        }
    };
    for (index, message) in (from..).zip(request.messages.tail(from)) {
        if message.as_tool().is_none() {
            flush(&mut turns, &mut results, &mut attached, index);
        }
        let upto = index + 1;
        match &**message {
            Message::User(user) => {
                let parts = parts(&user.content, text_part, media_part)?;
                if !parts.is_empty() {
                    turns.push(Turn { item: content("user", &parts), upto, settled: false });
                }
            }
            Message::Assistant(answer) => {
                last = Some(answer);
                let own = is_from(answer, origin);
                let mut parts = assistant(answer, own)?;
                // Any unsigned first call is marked: a rebuilt one may have lost its signature, and models that sign
                // their calls reject it without one.
                if origin.model.contains("gemini-3") {
                    sign_first_call(&mut parts);
                }
                if !parts.is_empty() {
                    turns.push(Turn { item: content("model", &parts), upto, settled: true });
                }
            }
            Message::Tool(result) => {
                let id = last.filter(|answer| is_from(answer, origin)).and_then(|answer| given_id(answer, result));
                results.push(response(result, id));
                attach(result, &mut attached)?;
            }
            _ => return Err(ModelError::invalid("a message has a role that Gemini does not know")),
        }
    }
    flush(&mut turns, &mut results, &mut attached, request.messages.len());
    Ok(turns)
}

fn content(role: &str, parts: &[Value]) -> Value {
    json!({"role": role, "parts": parts})
}

/// Returns the ID that a call is sent back with, which the model itself gave it. Most calls have none, and then their
/// results must have none.
fn given_id(answer: &AssistantMessage, result: &ToolMessage) -> Option<Value> {
    let made = answer.content.iter().filter(|block| as_call(block).is_some_and(|(id, _)| id == result.call_id));
    made.filter_map(|block| own_item(block, true)).find_map(|item| item.get("functionCall")?.get("id").cloned())
}

fn response(result: &ToolMessage, id: Option<Value>) -> Value {
    let text = joined(&result.content);
    let has_media = media(&result.content).next().is_some();
    let output = if text.is_empty() && has_media { ATTACHED_BELOW.into() } else { text };
    let field = if result.is_error { "error" } else { "output" };
    let mut response = Map::new();
    if let Some(id) = id {
        response.insert("id".to_owned(), id);
    }
    response.insert("name".to_owned(), json!(wire_name(&result.name)));
    response.insert("response".to_owned(), json!({field: output}));
    json!({"functionResponse": response})
}

/// Collects a result's media, which follow in a separate content: the results must be as many as the calls, without
/// anything else.
fn attach(result: &ToolMessage, attached: &mut Vec<Value>) -> Result<(), ModelError> {
    attached.extend(attached_to(result).map(|text| text_part(&text)));
    media(&result.content).try_for_each(|media| media_part(media).map(|part| attached.push(part)))
}

fn text_part(text: &str) -> Value {
    json!({"text": text})
}

fn media_part(media: &Media) -> Result<Value, ModelError> {
    Ok(match &media.source {
        MediaSource::Base64(data) => json!({"inlineData": {"mimeType": media.mime, "data": data}}),
        MediaSource::Url(uri) | MediaSource::FileId(uri) => {
            json!({"fileData": {"mimeType": media.mime, "fileUri": uri}})
        }
        _ => return Err(ModelError::invalid("a media block has a source that Gemini does not know")),
    })
}

fn call(name: &str, args: &Value) -> Value {
    json!({"functionCall": {"name": wire_name(name), "args": args}})
}

/// Encodes an assistant message: its own parts unchanged, and the canonical form of other providers' blocks.
fn assistant(answer: &AssistantMessage, own: bool) -> Result<Vec<Value>, ModelError> {
    let mut parts: Vec<Value> = Vec::with_capacity(answer.content.len());
    for block in &answer.content {
        let native = own_item(block, own);
        match (block, native) {
            (Block::ProviderItem(_), Some(native)) if !is_part(native) => merge_beside(&mut parts, native),
            (_, Some(native)) => parts.push(native.clone()),
            (Block::Text(text), None) if !text.text.trim().is_empty() => parts.push(text_part(&text.text)),
            (Block::Media(media), None) => {
                let mut part = media_part(media)?;
                let data = part.get_mut("inlineData").and_then(Value::as_object_mut);
                if let (true, Some(name), Some(data)) = (own, &media.name, data) {
                    data.insert("displayName".to_owned(), json!(name));
                }
                parts.push(part);
            }
            (Block::Reasoning(thought), None) if own && !thought.text.is_empty() => {
                parts.push(json!({"text": thought.text, "thought": true}));
            }
            (Block::ToolCall(made), None) => parts.push(call(&made.name, &made.args)),
            (Block::InvalidToolCall(made), None) => parts.push(call(&made.name, &json!({}))),
            _ => {}
        }
    }
    Ok(parts)
}
