//! Encodes requests of the Interactions API.

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{ModelError, ModelRequest, ToolSpec};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::Steps;
use crate::blocks::media;
use crate::body::{Fields, Head, Turn, WrittenFields, filled, is_from, joined, own_item, parts, wire_name};
use crate::schema;

/// Encodes the steps from message `from` on, which is the first or follows an assistant message. The results of one
/// message's calls form one step.
pub(super) fn steps(request: &ModelRequest, from: usize, origin: &Origin) -> Result<Vec<Turn<Value>>, ModelError> {
    let mut turns: Vec<Turn<Value>> = Vec::new();
    let mut results: Vec<Value> = Vec::new();
    for (index, message) in (from..).zip(request.messages.tail(from)) {
        let upto = index + 1;
        if let (None, false) = (message.as_tool(), results.is_empty()) {
            turns.push(Turn { item: user_input(std::mem::take(&mut results)), upto: index, settled: false });
        }
        match &**message {
            Message::User(user) => {
                let content = content(&user.content)?;
                if !content.is_empty() {
                    turns.push(Turn { item: user_input(content), upto, settled: false });
                }
            }
            Message::Tool(result) => results.push(function_result(result)?),
            Message::Assistant(answer) => {
                let items = assistant(answer, is_from(answer, origin));
                let last = items.len().saturating_sub(1);
                let turn = |(at, item)| Turn { item, upto, settled: at == last };
                turns.extend(items.into_iter().enumerate().map(turn));
            }
            _ => return Err(ModelError::invalid("a message has a role that the Interactions API does not know")),
        }
    }
    if !results.is_empty() {
        turns.push(Turn { item: user_input(results), upto: request.messages.len(), settled: false });
    }
    Ok(turns)
}

fn user_input(content: impl Into<Value>) -> Value {
    json!({"type": "user_input", "content": content.into()})
}

fn content(blocks: &[Block]) -> Result<Vec<Value>, ModelError> {
    parts(blocks, |text| json!({"type": "text", "text": text}), medium)
}

fn medium(media: &Media) -> Result<Value, ModelError> {
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Audio => "audio",
        MediaKind::Video => "video",
        _ => "document",
    };
    Ok(match &media.source {
        MediaSource::Base64(data) => json!({"type": kind, "mime_type": media.mime, "data": data}),
        MediaSource::Url(uri) | MediaSource::FileId(uri) => json!({"type": kind, "mime_type": media.mime, "uri": uri}),
        _ => return Err(ModelError::invalid("a media block has a source that the Interactions API does not know")),
    })
}

fn function_result(result: &ToolMessage) -> Result<Value, ModelError> {
    let has_media = media(&result.content).next().is_some();
    let told = if has_media { json!(content(&result.content)?) } else { json!(joined(&result.content)) };
    let mut item =
        json!({"type": "function_result", "call_id": result.call_id, "name": wire_name(&result.name), "result": told});
    if let (true, Value::Object(item)) = (result.is_error, &mut item) {
        item.insert("is_error".to_owned(), Value::Bool(true));
    }
    Ok(item)
}

/// Encodes an assistant message: its own steps unchanged, and the canonical form of other providers' blocks.
fn assistant(answer: &AssistantMessage, own: bool) -> Vec<Value> {
    let call = |id: &str, name: &str, args: Value| json!({"type": "function_call", "id": id, "name": wire_name(name), "arguments": args});
    let step = |block: &Block| match (block, own_item(block, own)) {
        (_, Some(native)) => Some(native.clone()),
        (Block::Text(text), None) if !text.text.trim().is_empty() => {
            Some(json!({"type": "model_output", "content": [{"type": "text", "text": text.text}]}))
        }
        (Block::ToolCall(made), None) => Some(call(&made.id, &made.name, made.args.clone())),
        (Block::InvalidToolCall(made), None) => Some(call(&made.id, &made.name, json!({}))),
        _ => None,
    };
    answer.content.iter().filter_map(step).collect()
}

impl Head<'_, Steps> {
    /// Sampling settings and the like; configured values are merged into those of the request.
    fn generation_config(&self) -> Map<String, Value> {
        let tool = |name: &str| json!({"allowed_tools": {"mode": "any", "tools": [name]}});
        let choice = self.tool_choice(Some(json!("none")), json!("any"), tool);
        let names = ["max_output_tokens", "temperature", "top_p", "stop_sequences"];
        self.settings("generation_config", names, [("tool_choice", choice)])
    }

    /// Returns the encoded fields that most requests share.
    pub(super) fn tools_and_system(&self) -> Result<WrittenFields, ModelError> {
        let declare = |spec: &ToolSpec| {
            json!({"type": "function", "name": spec.name, "description": spec.description,
                "parameters": schema::gemini(&spec.schema)})
        };
        self.shared(("tools", || filled(self.tools(declare))), ("system_instruction", || self.system_text()))
    }
}

impl Serialize for Head<'_, Steps> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.target.origin.model)?;
        fields.put("store", &false)?;
        if self.stream {
            fields.put("stream", &true)?;
        }
        fields.put_merged("generation_config", &self.generation_config())?;
        if let Some(output) = &self.request.output_schema {
            fields.put("response_mime_type", "application/json")?;
            fields.put("response_format", &schema::gemini(&output.schema))?;
        }
        fields.put_extra(&["generation_config"])?;
        fields.map.end()
    }
}
