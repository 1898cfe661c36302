//! Encodes requests of the Responses API.

use deepagents_core::model::{ModelError, ModelRequest, OutputSchema, ToolChoice};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::Responses;
use super::input::input;
use crate::body::{self, Extra, Fields, RequestBody, WrittenFields, write_head};
use crate::schema;

/// Encodes the body of a request.
pub(super) fn body(wire: &Responses, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
    if !request.settings.stop.is_empty() {
        return Err(ModelError::invalid(
            "the Responses API does not support stop sequences (settings.stop); drop them or use Chat Completions",
        ));
    }
    let extra = Extra { model: &wire.extra, request: &request.settings.extra };
    let head = Head { wire, request, extra, stream };
    if extra.get("input").is_some() {
        return write_head(&head, head.shared()?);
    }
    let known = wire.written.take(&request.messages, usize::MAX);
    let turns = input(request, known.messages(), &wire.origin)?;
    body::write(&wire.written, known, request, (&head, head.shared()?), ("input", &[]), turns.into_iter())
}

/// Everything in a body except the conversation.
struct Head<'a> {
    wire: &'a Responses,
    request: &'a ModelRequest,
    extra: Extra<'a>,
    stream: bool,
}

impl Head<'_> {
    fn tool_choice(&self) -> Option<Value> {
        match &self.request.tool_choice {
            _ if self.request.tools.is_empty() => None,
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Any => Some(json!("required")),
            ToolChoice::Tool(name) => Some(json!({"type": "function", "name": name})),
            _ => None,
        }
    }

    /// `text` contains more than the format, such as the verbosity.
    fn text(&self) -> Option<Map<String, Value>> {
        let mut text = self.extra.get("text").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(OutputSchema { name, schema }) = &self.request.output_schema {
            let strict = schema::is_strict(schema);
            let format = json!({"type": "json_schema", "name": name, "schema": schema, "strict": strict});
            text.entry("format").or_insert(format);
        }
        (!text.is_empty()).then_some(text)
    }

    /// Returns the encoded fields that most requests share.
    fn shared(&self) -> Result<WrittenFields, ModelError> {
        let tools = || {
            let tools = self.tools();
            (!tools.is_empty()).then_some(tools)
        };
        let instructions = || Some(self.request.system_text()).filter(|text| !text.trim().is_empty());
        let written = &self.wire.written;
        let (tools, instructions) = (written.tools(self.request, tools)?, written.system(self.request, instructions)?);
        Ok(self.extra.left([("tools", tools), ("instructions", instructions)]))
    }

    fn tools(&self) -> Vec<Tool<'_>> {
        let own = self.request.tools.iter().map(|spec| Tool::Function {
            r#type: "function",
            name: &spec.name,
            description: &spec.description,
            parameters: &spec.schema,
            strict: false,
        });
        own.chain(self.request.provider_tools_for(&self.wire.origin).map(Tool::Server)).collect()
    }
}

/// Returns whether a model reasons: others reject a request for encrypted reasoning.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let plain = ["gpt-3.5", "gpt-4", "chatgpt-4o", "gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat"];
    !plain.iter().any(|prefix| name.starts_with(prefix))
}

impl Serialize for Head<'_> {
    /// Serialises what changes between calls last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = &self.request.settings;
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.wire.origin.model)?;
        fields.put("store", &false)?;
        if reasons(&self.wire.origin.model) {
            fields.put("include", &["reasoning.encrypted_content"])?;
        }
        fields.put_some("max_output_tokens", settings.max_tokens)?;
        fields.put_some("temperature", settings.temperature)?;
        fields.put_some("top_p", settings.top_p)?;
        if self.stream {
            fields.put("stream", &true)?;
        }
        fields.put_some("tool_choice", self.tool_choice())?;
        let parallel = self.request.parallel_tool_calls.filter(|_| !self.request.tools.is_empty());
        fields.put_some("parallel_tool_calls", parallel)?;
        if let Some(text) = self.text() {
            fields.map.serialize_entry("text", &text)?;
        }
        fields.put_extra(&["text"])?;
        fields.map.end()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Function {
        r#type: &'static str,
        name: &'a str,
        description: &'a str,
        parameters: &'a Value,
        /// If omitted, it defaults to `true`, which rejects most schemas.
        strict: bool,
    },
    /// A tool that the provider runs itself.
    Server(&'a Value),
}
