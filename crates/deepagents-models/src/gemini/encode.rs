//! Encodes requests of Gemini's API.

use deepagents_core::model::{ModelError, ModelRequest, ToolChoice};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::GenerateContent;
use super::contents::contents;
use super::parts::ARGS;
use crate::body::{self, Extra, Fields, RequestBody, WrittenFields, write_head};
use crate::schema;

/// Encodes the body of a request. The URL requests a stream.
pub(super) fn body(wire: &GenerateContent, request: &ModelRequest) -> Result<RequestBody, ModelError> {
    let extra = Extra { model: &wire.extra, request: &request.settings.extra };
    let head = Head { wire, request, extra };
    if extra.get("contents").is_some() {
        return write_head(&head, head.shared()?);
    }
    let known = wire.written.take(&request.messages, usize::MAX);
    let turns = contents(request, known.messages(), &wire.origin)?;
    let turns = body::exact(&turns, &ARGS);
    body::write(&wire.written, known, request, (&head, head.shared()?), ("contents", &[]), turns)
}

/// Everything in a body except the conversation.
struct Head<'a> {
    wire: &'a GenerateContent,
    request: &'a ModelRequest,
    extra: Extra<'a>,
}

impl Head<'_> {
    /// Sampling settings and the like; configured values are merged into those of the request.
    fn generation_config(&self) -> Map<String, Value> {
        let settings = &self.request.settings;
        let mut config = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                config.insert(key.to_owned(), value);
            }
        };
        put("maxOutputTokens", settings.max_tokens.map(Value::from));
        put("temperature", settings.temperature.map(Value::from));
        put("topP", settings.top_p.map(Value::from));
        put("stopSequences", (!settings.stop.is_empty()).then(|| json!(settings.stop)));
        if let Some(output) = &self.request.output_schema {
            put("responseMimeType", Some(json!("application/json")));
            put("responseJsonSchema", Some(schema::gemini(&output.schema)));
        }
        if let Some(Value::Object(given)) = self.extra.get("generationConfig") {
            config.extend(given.clone());
        }
        config
    }

    fn tool_config(&self) -> Option<Value> {
        let mode = match &self.request.tool_choice {
            _ if self.request.tools.is_empty() => return None,
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Any => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
            _ => return None,
        };
        Some(json!({"functionCallingConfig": mode}))
    }

    /// Returns the encoded fields that most requests share.
    fn shared(&self) -> Result<WrittenFields, ModelError> {
        // A cached prompt contains these, and the API rejects them beside it.
        if self.extra.get("cachedContent").is_some() {
            return Ok(WrittenFields::new());
        }
        let tools = || {
            let tools = self.tools();
            (!tools.is_empty()).then_some(tools)
        };
        let system = || {
            let blocks = self.request.system.iter().filter(|block| !block.text.trim().is_empty());
            let system: Vec<Value> = blocks.map(|block| json!({"text": block.text})).collect();
            (!system.is_empty()).then(|| json!({"parts": system}))
        };
        let written = &self.wire.written;
        let (tools, system) = (written.tools(self.request, tools)?, written.system(self.request, system)?);
        Ok(self.extra.left([("tools", tools), ("systemInstruction", system)]))
    }

    fn tools(&self) -> Vec<Value> {
        let declare = |spec: &std::sync::Arc<deepagents_core::model::ToolSpec>| {
            json!({"name": spec.name, "description": spec.description,
                "parametersJsonSchema": schema::gemini(&spec.schema)})
        };
        let declared: Vec<Value> = self.request.tools.iter().map(declare).collect();
        let own = (!declared.is_empty()).then(|| json!({"functionDeclarations": declared}));
        own.into_iter().chain(self.request.provider_tools_for(&self.wire.origin).cloned()).collect()
    }
}

impl Serialize for Head<'_> {
    /// Serialises what changes between calls last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        let config = self.generation_config();
        if !config.is_empty() {
            fields.map.serialize_entry("generationConfig", &config)?;
        }
        fields.put_extra(&["generationConfig"])?;
        // A cached prompt contains these, and the API rejects them beside it.
        if self.extra.get("cachedContent").is_none() {
            fields.put_some("toolConfig", self.tool_config())?;
        }
        fields.map.end()
    }
}
