//! Encodes requests of the Converse API.

use std::collections::BTreeSet;

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelRequest, ToolChoice};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::Converse;
use super::messages::{cache_point, messages};
use crate::anthropic::thinks;
use crate::body::{self, EncodedStart, Extra, Fields, RequestBody, WrittenFields, wire_name, write_head, write_value};

/// Encodes the body of a request. The URL requests a stream.
pub(super) fn body(wire: &Converse, request: &ModelRequest) -> Result<RequestBody, ModelError> {
    if request.output_schema.is_some() {
        return Err(ModelError::invalid(
            "Converse cannot hold answers to a schema; offer a tool with that schema instead",
        ));
    }
    let extra = Extra { model: &wire.extra, request: &request.settings.extra };
    let head = Head { wire, request, extra };
    if extra.get("messages").is_some() {
        return write_head(&head, head.shared()?);
    }
    let marks = request.cache.messages.iter().filter(|_| wire.cache_points).map(|(index, _)| *index);
    let first_marked = marks.min().unwrap_or(usize::MAX);
    let mut known = wire.written.take(&request.messages, first_marked);
    let mut turns = messages(wire, request, known.messages(), first_marked)?;
    // Two consecutive assistant messages form one, so the second cannot be appended to a cached first.
    if known.messages() > 0 && turns.first().is_some_and(|turn| turn.item.get("role").is_some_and(|r| r == "assistant"))
    {
        known = EncodedStart::default();
        turns = messages(wire, request, 0, first_marked)?;
    }
    let turns = body::exact(&turns, &["content", "toolUse", "input"]);
    body::write(&wire.written, known, request, (&head, head.shared()?), ("messages", &[]), turns)
}

/// Everything in a body except the conversation.
struct Head<'a> {
    wire: &'a Converse,
    request: &'a ModelRequest,
    extra: Extra<'a>,
}

impl Head<'_> {
    /// Returns the encoded fields that most requests share.
    fn shared(&self) -> Result<WrittenFields, ModelError> {
        let written = &self.wire.written;
        let chosen = matches!(self.request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_));
        let tools = if chosen || self.request.tools.is_empty() {
            write_value(self.tool_config())?
        } else {
            written.tools(self.request, || self.tool_config())?
        };
        let system = written.system(self.request, || Some(self.system()).filter(|system| !system.is_empty()))?;
        Ok(self.extra.left([("toolConfig", tools), ("system", system)]))
    }

    /// Sampling settings and the like; configured values are merged into those of the request.
    fn inference_config(&self) -> Map<String, Value> {
        let settings = &self.request.settings;
        let mut config = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                config.insert(key.to_owned(), value);
            }
        };
        put("maxTokens", settings.max_tokens.map(Value::from));
        put("temperature", settings.temperature.map(Value::from));
        put("topP", settings.top_p.map(Value::from));
        put("stopSequences", (!settings.stop.is_empty()).then(|| json!(settings.stop)));
        if let Some(Value::Object(given)) = self.extra.get("inferenceConfig") {
            config.extend(given.clone());
        }
        config
    }

    fn tool_config(&self) -> Option<Value> {
        let mut tools: Vec<Value> =
            self.request.tools.iter().map(|spec| tool(&spec.name, &spec.description, &spec.schema)).collect();
        if tools.is_empty() {
            // A conversation with calls is rejected without tools, so declare those that were called.
            tools = called(self.request)
                .iter()
                .map(|name| tool(name, "Not on offer now.", &json!({"type": "object"})))
                .collect();
        }
        if tools.is_empty() {
            return None;
        }
        if self.wire.cache_points
            && let Some(ttl) = self.request.cache.tools
        {
            tools.push(cache_point(ttl));
        }
        let mut config = json!({"tools": tools});
        let thinking = self.extra.get("additionalModelRequestFields").and_then(|fields| fields.get("thinking"));
        let choice = match &self.request.tool_choice {
            _ if self.request.tools.is_empty() || thinks(thinking) => None,
            ToolChoice::Any => Some(json!({"any": {}})),
            ToolChoice::Tool(name) => Some(json!({"tool": {"name": name}})),
            // The API has no equivalent of "none".
            _ => None,
        };
        if let (Some(choice), Value::Object(config)) = (choice, &mut config) {
            config.insert("toolChoice".to_owned(), choice);
        }
        Some(config)
    }

    fn system(&self) -> Vec<Value> {
        let mut system = Vec::new();
        for block in self.request.system.iter().filter(|block| !block.text.trim().is_empty()) {
            system.push(json!({"text": block.text}));
            system.extend(block.cache.filter(|_| self.wire.cache_points).map(cache_point));
        }
        system
    }
}

fn tool(name: &str, description: &str, schema: &Value) -> Value {
    json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}})
}

/// Returns the names of the tools that were called.
fn called(request: &ModelRequest) -> BTreeSet<String> {
    let blocks = request.messages.iter().filter_map(|message| message.as_assistant()).flat_map(|m| &m.content);
    let name = |block: &Block| match block {
        Block::ToolCall(call) => Some(wire_name(&call.name).into_owned()),
        Block::InvalidToolCall(call) => Some(wire_name(&call.name).into_owned()),
        _ => None,
    };
    blocks.filter_map(name).collect()
}

impl Serialize for Head<'_> {
    /// Serialises what changes between calls last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        let config = self.inference_config();
        if !config.is_empty() {
            fields.map.serialize_entry("inferenceConfig", &config)?;
        }
        fields.put_extra(&["inferenceConfig"])?;
        fields.map.end()
    }
}
