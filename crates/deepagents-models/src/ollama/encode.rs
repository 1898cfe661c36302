//! Encodes requests of Ollama's API.

use deepagents_core::message::{Block, Media, MediaSource};
use deepagents_core::model::{ModelError, ModelRequest, ToolChoice};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::OllamaChat;
use super::messages::{ARGS, messages};
use crate::body::{self, Extra, Fields, RequestBody, WrittenFields, write_head, write_value};
use crate::exact::Exact;

/// Encodes the body of a request.
pub(super) fn body(wire: &OllamaChat, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
    let extra = Extra { model: &wire.extra, request: &request.settings.extra };
    let mut head = Head { wire, request, extra, stream, num_ctx: None };
    if extra.get("messages").is_some() {
        return write_head(&head, head.shared()?);
    }
    let system = request.system_text();
    let system = (!system.trim().is_empty()).then(|| json!({"role": "system", "content": system}));
    let lead: Vec<Exact<'_>> = system.iter().map(|item| Exact { item, path: &[] }).collect();
    let write = |head: &Head<'_>| {
        let known = wire.written.take(&request.messages, usize::MAX);
        let turns = messages(request, known.messages(), &wire.origin)?;
        let turns = body::exact(&turns, &ARGS);
        body::write(&wire.written, known, request, (head, head.shared()?), ("messages", &lead), turns)
    };
    let body = write(&head)?;
    if head.options().contains_key("num_ctx") {
        return Ok(body);
    }
    // The context size precedes the conversation but depends on its encoded size; the second time, the cached encoding
    // is used.
    let (media, count) = media(request);
    let bytes = body.len().saturating_sub(media).saturating_add(count * BYTES_PER_IMAGE);
    head.num_ctx = Some(wire.context.size(bytes, request.settings.max_tokens)?);
    write(&head)
}

/// Number of bytes that an image counts for, whatever its size: models see it in tiles.
const BYTES_PER_IMAGE: usize = 6000;

/// Returns the total bytes of the images in the conversation, and their number.
fn media(request: &ModelRequest) -> (usize, usize) {
    if !request.messages.has_media() {
        return (0, 0);
    }
    let sizes = request.messages.iter().flat_map(|message| message.content()).filter_map(|block| match block {
        Block::Media(Media { source: MediaSource::Base64(data), .. }) => Some(data.len()),
        _ => None,
    });
    sizes.fold((0, 0), |(bytes, count), size| (bytes + size, count + 1))
}

/// Everything in a body except the conversation.
struct Head<'a> {
    wire: &'a OllamaChat,
    request: &'a ModelRequest,
    extra: Extra<'a>,
    stream: bool,
    num_ctx: Option<u64>,
}

impl Head<'_> {
    /// Sampling settings and the like; configured values are merged into those of the request.
    fn options(&self) -> Map<String, Value> {
        let settings = &self.request.settings;
        let mut options = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                options.insert(key.to_owned(), value);
            }
        };
        put("num_ctx", self.num_ctx.map(Value::from));
        put("num_predict", settings.max_tokens.map(Value::from));
        put("temperature", settings.temperature.map(Value::from));
        put("top_p", settings.top_p.map(Value::from));
        put("stop", (!settings.stop.is_empty()).then(|| json!(settings.stop)));
        if let Some(Value::Object(given)) = self.extra.get("options") {
            options.extend(given.clone());
        }
        options
    }

    /// Returns the encoded fields that most requests share.
    fn shared(&self) -> Result<WrittenFields, ModelError> {
        let tools = || {
            let tools = self.tools();
            (!tools.is_empty()).then_some(tools)
        };
        let chosen = matches!(self.request.tool_choice, ToolChoice::None | ToolChoice::Tool(_));
        let tools = if chosen { write_value(tools())? } else { self.wire.written.tools(self.request, tools)? };
        Ok(self.extra.left([("tools", tools)]))
    }

    /// The API has no tool choice, so the choice is made by which tools are declared.
    fn tools(&self) -> Vec<Value> {
        let offered = self.request.tools.iter().filter(|spec| match &self.request.tool_choice {
            ToolChoice::None => false,
            ToolChoice::Tool(name) => spec.name == *name,
            _ => true,
        });
        let tool = |spec: &std::sync::Arc<deepagents_core::model::ToolSpec>| {
            json!({"type": "function", "function":
                {"name": spec.name, "description": spec.description, "parameters": spec.schema}})
        };
        offered.map(tool).collect()
    }
}

impl Serialize for Head<'_> {
    /// Serialises what changes between calls last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.wire.origin.model)?;
        fields.put("stream", &self.stream)?;
        // A prompt that is too long must be an error.
        fields.put("truncate", &false)?;
        fields.put("shift", &false)?;
        let options = self.options();
        if !options.is_empty() {
            fields.map.serialize_entry("options", &options)?;
        }
        fields.put_some("format", self.request.output_schema.as_ref().map(|output| &output.schema))?;
        fields.put_extra(&["options"])?;
        fields.map.end()
    }
}
