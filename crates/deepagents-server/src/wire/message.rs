//! Messages as flat objects with a `type`.

use deepagents_core::message::{Block, Media, MediaKind, MediaSource, Message, Usage};
use serde_json::{Map, Value, json};

use super::as_sent;

/// Serialises a message.
pub(crate) fn message(message: &Message) -> Value {
    let mut out = Map::new();
    let kind = match message {
        Message::Assistant(_) => "ai",
        Message::Tool(_) => "tool",
        _ => "human",
    };
    out.insert("type".to_owned(), kind.into());
    out.insert("id".to_owned(), message.id().into());
    out.insert("content".to_owned(), content(message.content()));
    out.insert("additional_kwargs".to_owned(), json!({}));
    out.insert("response_metadata".to_owned(), json!({}));
    out.insert("name".to_owned(), Value::Null);
    match message {
        Message::Assistant(answer) => {
            let (calls, invalid) = calls(&answer.content);
            out.insert("tool_calls".to_owned(), calls);
            out.insert("invalid_tool_calls".to_owned(), invalid);
            out.insert("usage_metadata".to_owned(), answer.usage.map_or(Value::Null, |spent| usage(&spent)));
            if let Some(name) = &answer.name {
                out.insert("name".to_owned(), name.as_str().into());
            }
            if let Some(origin) = &answer.origin {
                let metadata = json!({"model_name": origin.model, "model_provider": origin.provider});
                out.insert("response_metadata".to_owned(), metadata);
            }
        }
        Message::Tool(result) => {
            let status = if result.is_error { "error" } else { "success" };
            out.insert("tool_call_id".to_owned(), result.call_id.as_str().into());
            out.insert("name".to_owned(), result.name.as_str().into());
            out.insert("status".to_owned(), status.into());
            out.insert("artifact".to_owned(), result.artifact.clone().unwrap_or_default());
        }
        _ => {}
    }
    as_sent::show(message, &mut out);
    Value::Object(out)
}

/// Serialises token usage.
pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "input_token_details": {"cache_read": usage.cache_read, "cache_creation": usage.cache_write},
        "output_token_details": {"reasoning": usage.reasoning},
    })
}

/// Builds a text chunk of an assistant message.
pub(crate) fn chunk_text(id: &str, text: &str) -> Value {
    chunk(id, text)
}

/// Builds a chunk of a tool call.
pub(crate) fn tool_call_chunk(id: &str, call: Option<&str>, name: Option<&str>, args: &str, index: usize) -> Value {
    let mut chunk = chunk(id, "");
    if let Some(chunk) = chunk.as_object_mut() {
        let piece = json!({"type": "tool_call_chunk", "id": call, "name": name, "args": args, "index": index});
        chunk.insert("tool_call_chunks".to_owned(), json!([piece]));
    }
    chunk
}

fn chunk(id: &str, content: &str) -> Value {
    json!({
        "type": "AIMessageChunk", "id": id, "content": content, "name": null, "additional_kwargs": {},
        "response_metadata": {}, "tool_calls": [], "invalid_tool_calls": [], "tool_call_chunks": [],
        "usage_metadata": null,
    })
}

/// Serialises content: as a string if it is only text, otherwise as a list of blocks.
pub(super) fn content(blocks: &[Block]) -> Value {
    let shown: Vec<&Block> = blocks.iter().filter(|block| is_content(block)).collect();
    match shown.as_slice() {
        [] => "".into(),
        [Block::Text(only)] => only.text.as_str().into(),
        several => several.iter().map(|block| content_block(block)).collect(),
    }
}

fn is_content(block: &Block) -> bool {
    match block {
        Block::Text(text) => !text.text.is_empty(),
        Block::Reasoning(reasoning) => !reasoning.text.is_empty(),
        Block::Media(_) => true,
        _ => false,
    }
}

/// Serialises a content block.
pub(crate) fn content_block(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text.text}),
        Block::Reasoning(reasoning) => json!({"type": "reasoning", "reasoning": reasoning.text}),
        Block::Media(media) => media_block(media),
        _ => Value::Null,
    }
}

fn media_block(media: &Media) -> Value {
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Audio => "audio",
        MediaKind::Video => "video",
        _ => "file",
    };
    let mut out = json!({"type": kind, "mime_type": media.mime});
    if let Some(block) = out.as_object_mut() {
        let (key, value) = match &media.source {
            MediaSource::Base64(data) => ("base64", data),
            MediaSource::Url(url) => ("url", url),
            MediaSource::FileId(id) => ("file_id", id),
            _ => return out,
        };
        block.insert(key.to_owned(), value.as_str().into());
        if let Some(name) = &media.name {
            block.insert("filename".to_owned(), name.as_str().into());
        }
    }
    out
}

fn calls(blocks: &[Block]) -> (Value, Value) {
    let (mut calls, mut invalid) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::ToolCall(call) => {
                calls.push(json!({"name": call.name, "args": call.args, "id": call.id, "type": "tool_call"}));
            }
            Block::InvalidToolCall(call) => invalid.push(json!({
                "name": call.name, "args": call.raw, "id": call.id, "error": call.error, "type": "invalid_tool_call",
            })),
            _ => {}
        }
    }
    (Value::Array(calls), Value::Array(invalid))
}
