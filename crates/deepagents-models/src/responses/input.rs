//! Encodes the conversation as items of a Responses request.

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Value, json};

use super::DOCUMENTS;
use super::items::{self, Kind};
use crate::blocks::{as_call, media};
use crate::body::{Turn, is_from, is_thought_by, joined, lacks_error, last_answer, own_item, parts, wire_name};
use crate::json::is_empty;

/// Encodes the items from message `from` on, which is the first or follows an assistant message. An assistant message
/// may be several items.
pub(super) fn input(request: &ModelRequest, from: usize, origin: &Origin) -> Result<Vec<Turn<Value>>, ModelError> {
    let mut turns = Vec::new();
    let mut last = last_answer(request, from);
    for (index, message) in (from..).zip(request.messages.tail(from)) {
        let items = match &**message {
            Message::User(user) => user_item(&user.content)?.into_iter().collect(),
            Message::Tool(result) => vec![result_item(result, last, origin)?],
            Message::Assistant(answer) => {
                last = Some(answer);
                assistant(answer, origin)
            }
            _ => return Err(ModelError::invalid("a message has a role that the Responses API does not know")),
        };
        let last = items.len().saturating_sub(1);
        let is_answer = message.as_assistant().is_some();
        turns.extend(items.into_iter().enumerate().map(|(at, item)| {
            // The message ends with its last item.
            Turn { item, upto: index + 1, settled: is_answer && at == last }
        }));
    }
    Ok(turns)
}

fn user_item(content: &[Block]) -> Result<Option<Value>, ModelError> {
    let content = if content.iter().all(|block| block.as_text().is_some()) {
        json!(joined(content))
    } else {
        json!(user_parts(content)?)
    };
    Ok((!is_empty(&content)).then(|| json!({"type": "message", "role": "user", "content": content})))
}

fn user_parts(content: &[Block]) -> Result<Vec<Value>, ModelError> {
    parts(content, |text| json!({"type": "input_text", "text": text}), media_part)
}

fn media_part(media: &Media) -> Result<Value, ModelError> {
    let data = |data: &str| format!("data:{};base64,{data}", media.mime);
    Ok(match (media.kind, &media.source) {
        (MediaKind::Image, MediaSource::Base64(bytes)) => json!({"type": "input_image", "image_url": data(bytes)}),
        (MediaKind::Image, MediaSource::Url(url)) => json!({"type": "input_image", "image_url": url}),
        (MediaKind::Image, MediaSource::FileId(id)) => json!({"type": "input_image", "file_id": id}),
        (MediaKind::File, MediaSource::Base64(bytes)) => {
            // The service tells the type by the ending of the name.
            let ending = DOCUMENTS.iter().find(|(mime, _)| *mime == media.mime).map_or("pdf", |(_, ending)| *ending);
            let name = media.name.clone().unwrap_or_else(|| format!("document.{ending}"));
            json!({"type": "input_file", "filename": name, "file_data": data(bytes)})
        }
        (MediaKind::File, MediaSource::Url(url)) => json!({"type": "input_file", "file_url": url}),
        (MediaKind::File, MediaSource::FileId(id)) => json!({"type": "input_file", "file_id": id}),
        _ => {
            return Err(ModelError::invalid(format!(
                "the Responses API takes images and documents, not {} content",
                media.mime
            )));
        }
    })
}

/// Encodes a tool result. The API has no error flag, so the text says so.
fn result_item(result: &ToolMessage, answer: Option<&AssistantMessage>, origin: &Origin) -> Result<Value, ModelError> {
    // IDs of the provider's own calls stay unchanged.
    let own = answer.is_some_and(|answer| is_from(answer, origin));
    let is_made = |block: &&Block| as_call(block).is_some_and(|(id, _)| id == result.call_id);
    let made = answer.into_iter().flat_map(|answer| &answer.content).find(is_made);
    let text = joined(&result.content);
    if let Some(item) = made.and_then(|block| own_item(block, own)?.as_object())
        && let Some(answer) = items::unmade(item, &text)
    {
        return Ok(answer);
    }
    let lacks_error = lacks_error(result, &text);
    let output = if media(&result.content).next().is_some() {
        let mut parts = user_parts(&result.content)?;
        parts.splice(0..0, lacks_error.then(|| json!({"type": "input_text", "text": "Error:"})));
        json!(parts)
    } else {
        json!(if lacks_error { format!("Error: {text}").into() } else { text })
    };
    Ok(json!({"type": "function_call_output", "call_id": call_id(&result.call_id, own), "output": output}))
}

fn call_id(id: &str, own: bool) -> String {
    if own { id.to_owned() } else { wire_name(id).into_owned() }
}

/// Encodes an assistant message: its own items unchanged, reasoning only for the same model, and the canonical form of
/// other providers' blocks.
fn assistant(answer: &AssistantMessage, origin: &Origin) -> Vec<Value> {
    let (own, thought_by) = (is_from(answer, origin), is_thought_by(answer, origin));
    // Items refer to the reasoning they follow from, and are rejected without it.
    let is_left_out =
        |block: &Block| matches!(block, Block::Reasoning(_)) && (!thought_by || own_item(block, own).is_none());
    let is_parted = answer.content.iter().any(is_left_out);
    let item = |block: &Block| {
        let native = own_item(block, own).cloned();
        match block {
            Block::Reasoning(_) if !thought_by => None,
            _ if native.is_some() => native.map(|item| if is_parted { without_id(item) } else { item }),
            Block::Text(text) if !text.text.trim().is_empty() => {
                let part = json!({"type": "output_text", "text": text.text});
                Some(json!({"type": "message", "role": "assistant", "content": [part]}))
            }
            Block::ToolCall(call) => Some(call_item(&call.id, &call.name, &call.args.to_string(), own)),
            Block::InvalidToolCall(call) => {
                // Text that is not valid JSON is sent back only to the provider it came from.
                let raw = if own { call.raw.as_str() } else { "{}" };
                Some(call_item(&call.id, &call.name, raw, own))
            }
            _ => None,
        }
    };
    let mut items: Vec<Value> = answer.content.iter().filter_map(item).collect();
    // The response was cut off in its reasoning, and reasoning is rejected if nothing follows from it.
    while items.pop_if(|item| Kind::of(item) == Kind::Reasoning).is_some() {}
    items
}

/// Removes the ID of a message or a call.
fn without_id(mut item: Value) -> Value {
    if let (Kind::Message | Kind::Call, Value::Object(item)) = (Kind::of(&item), &mut item) {
        item.remove("id");
    }
    item
}

fn call_item(id: &str, name: &str, arguments: &str, own: bool) -> Value {
    json!({"type": "function_call", "call_id": call_id(id, own), "name": wire_name(name), "arguments": arguments})
}
