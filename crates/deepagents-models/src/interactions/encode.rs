//! Encodes requests of the Interactions API.

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{ModelError, ModelRequest, ToolChoice};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::Steps;
use crate::body::{
    self, Extra, Fields, RequestBody, Turn, WrittenFields, is_from, joined, own_item, wire_name, write_head,
};
use crate::schema;

/// Encodes the body of a request.
pub(super) fn body(wire: &Steps, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
    let extra = Extra { model: &wire.extra, request: &request.settings.extra };
    let head = Head { wire, request, extra, stream };
    if extra.get("input").is_some() {
        return write_head(&head, head.shared()?);
    }
    let known = wire.written.take(&request.messages, usize::MAX);
    let turns = steps(request, known.messages(), &wire.origin)?;
    let turns = body::exact(&turns, &["arguments"]);
    body::write(&wire.written, known, request, (&head, head.shared()?), ("input", &[]), turns)
}

/// Encodes the steps from message `from` on, which is the first or follows an assistant message. The results of one
/// message's calls form one step.
fn steps(request: &ModelRequest, from: usize, origin: &Origin) -> Result<Vec<Turn<Value>>, ModelError> {
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
    let mut content = Vec::with_capacity(blocks.len());
    for block in blocks {
        match block {
            Block::Text(text) if !text.text.is_empty() => content.push(json!({"type": "text", "text": text.text})),
            Block::Media(media) => content.push(medium(media)?),
            Block::ProviderItem(item) => content.push(item.native.value().clone()),
            _ => {}
        }
    }
    Ok(content)
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
    let has_media = result.content.iter().any(|block| matches!(block, Block::Media(_)));
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

/// Everything in a body except the conversation.
struct Head<'a> {
    wire: &'a Steps,
    request: &'a ModelRequest,
    extra: Extra<'a>,
    stream: bool,
}

impl Head<'_> {
    /// Sampling settings and the like; configured values are merged into those of the request.
    fn generation_config(&self) -> Map<String, Value> {
        let settings = &self.request.settings;
        let choice = match &self.request.tool_choice {
            _ if self.request.tools.is_empty() => None,
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Any => Some(json!("any")),
            ToolChoice::Tool(name) => Some(json!({"allowed_tools": {"mode": "any", "tools": [name]}})),
            _ => None,
        };
        let fields = [
            ("max_output_tokens", settings.max_tokens.map(Value::from)),
            ("temperature", settings.temperature.map(Value::from)),
            ("top_p", settings.top_p.map(Value::from)),
            ("stop_sequences", (!settings.stop.is_empty()).then(|| json!(settings.stop))),
            ("tool_choice", choice),
        ];
        let mut config: Map<String, Value> =
            fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        if let Some(Value::Object(given)) = self.extra.get("generation_config") {
            config.extend(given.clone());
        }
        config
    }

    /// Returns the encoded fields that most requests share.
    fn shared(&self) -> Result<WrittenFields, ModelError> {
        let tools = || {
            let tools = self.tools();
            (!tools.is_empty()).then_some(tools)
        };
        let system = || Some(self.request.system_text()).filter(|text| !text.trim().is_empty());
        let written = &self.wire.written;
        let (tools, system) = (written.tools(self.request, tools)?, written.system(self.request, system)?);
        Ok(self.extra.left([("tools", tools), ("system_instruction", system)]))
    }

    fn tools(&self) -> Vec<Value> {
        let own = self.request.tools.iter().map(|spec| {
            json!({"type": "function", "name": spec.name, "description": spec.description,
                "parameters": schema::gemini(&spec.schema)})
        });
        own.chain(self.request.provider_tools_for(&self.wire.origin).cloned()).collect()
    }
}

impl Serialize for Head<'_> {
    /// Serialises what changes between calls last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.wire.origin.model)?;
        fields.put("store", &false)?;
        if self.stream {
            fields.put("stream", &true)?;
        }
        let config = self.generation_config();
        if !config.is_empty() {
            fields.map.serialize_entry("generation_config", &config)?;
        }
        if let Some(output) = &self.request.output_schema {
            fields.put("response_mime_type", "application/json")?;
            fields.put("response_format", &schema::gemini(&output.schema))?;
        }
        fields.put_extra(&["generation_config"])?;
        fields.map.end()
    }
}
