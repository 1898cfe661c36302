//! Messages as flat objects with a `type`.

use deepagents_core::message::{Block, Media, MediaKind, MediaSource, Message, Usage};
use serde_json::{Value, json};

use super::as_sent;
use super::sources::annotations;
use crate::json::set;

/// Serialises a message.
pub(crate) fn message(message: &Message) -> Value {
    let kind = match message {
        Message::Assistant(_) => "ai",
        Message::Tool(_) => "tool",
        _ => "human",
    };
    let mut out = json!({
        "type": kind, "id": message.id(), "content": null, "additional_kwargs": {}, "response_metadata": {},
        "name": null,
    });
    set(&mut out, "content", content(message.content()));
    match message {
        Message::Assistant(answer) => {
            let (calls, invalid) = calls(&answer.content);
            set(&mut out, "tool_calls", calls);
            set(&mut out, "invalid_tool_calls", invalid);
            set(&mut out, "usage_metadata", answer.usage.as_ref().map(usage));
            set(&mut out, "name", answer.name.as_deref());
            if let Some(origin) = &answer.origin {
                let metadata = json!({"model_name": origin.model, "model_provider": origin.provider});
                set(&mut out, "response_metadata", metadata);
            }
        }
        Message::Tool(result) => {
            set(&mut out, "tool_call_id", result.call_id.as_str());
            set(&mut out, "name", result.name.as_str());
            set(&mut out, "status", if result.is_error { "error" } else { "success" });
            set(&mut out, "artifact", result.artifact.clone());
        }
        _ => {}
    }
    as_sent::show(message, &mut out);
    out
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

/// Builds a chunk of a tool call.
pub(crate) fn tool_call_chunk(id: &str, call: Option<&str>, name: Option<&str>, args: &str, index: usize) -> Value {
    let mut chunk = chunk_text(id, "");
    let piece = json!({"type": "tool_call_chunk", "id": call, "name": name, "args": args, "index": index});
    set(&mut chunk, "tool_call_chunks", json!([piece]));
    chunk
}

/// Builds a text chunk of an assistant message.
pub(crate) fn chunk_text(id: &str, text: &str) -> Value {
    json!({
        "type": "AIMessageChunk", "id": id, "content": text, "name": null, "additional_kwargs": {},
        "response_metadata": {}, "tool_calls": [], "invalid_tool_calls": [], "tool_call_chunks": [],
        "usage_metadata": null,
    })
}

/// Serialises content: as a string if it is only text without sources, otherwise as a list of blocks.
pub(super) fn content(blocks: &[Block]) -> Value {
    let shown: Vec<&Block> = blocks.iter().filter(|block| is_content(block)).collect();
    match shown.as_slice() {
        [] => "".into(),
        [Block::Text(only)] if annotations(only).is_empty() => only.text.as_str().into(),
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
        Block::Text(text) => {
            let mut block = json!({"type": "text", "text": text.text});
            let sources = annotations(text);
            if !sources.is_empty() {
                set(&mut block, "annotations", sources);
            }
            block
        }
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
    let mut block = json!({"type": kind, "mime_type": media.mime});
    let (key, value) = match &media.source {
        MediaSource::Base64(data) => ("base64", data),
        MediaSource::Url(url) => ("url", url),
        MediaSource::FileId(id) => ("file_id", id),
        _ => return block,
    };
    set(&mut block, key, value.as_str());
    if let Some(name) = &media.name {
        set(&mut block, "filename", name.as_str());
    }
    block
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
