//! Request bodies of Chat Completions.

use std::borrow::Cow;

use deepagents_core::model::{ModelError, ModelRequest, OutputSchema, ToolChoice};
use deepagents_core::tool::ToolSpec;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::Chat;
use super::dialect::OutputForm;
use super::items::{Item, items};
use crate::extra::{Extra, Fields};
use crate::schema;

/// The body of a request.
pub(super) fn body(chat: &Chat, request: &ModelRequest, stream: bool) -> Result<Vec<u8>, ModelError> {
    if chat.dialect.output == OutputForm::None && request.output_schema.is_some() {
        return Err(ModelError::invalid(format!(
            "{} does not hold answers to a schema; offer a tool with that schema instead",
            chat.dialect.name
        )));
    }
    let mut items = items(chat, request)?;
    if let Some(system) = system(chat, request) {
        items.insert(0, system);
    }
    let extra = Extra { model: &chat.extra, request: &request.settings.extra };
    let body = Body { chat, request, items, extra, stream };
    serde_json::to_vec(&body).map_err(|error| ModelError::invalid(format!("the request cannot be written: {error}")))
}

/// The system prompt: one text, or parts where some carry cache marks that the service honours.
fn system<'a>(chat: &'a Chat, request: &'a ModelRequest) -> Option<Item<'a>> {
    let blocks = || request.system.iter().filter(|block| !block.text.trim().is_empty());
    let role = chat.dialect.system_role;
    let told = request.output_schema.as_ref().filter(|_| chat.dialect.output == OutputForm::JsonObject);
    let told = told.map(|output| {
        format!("Answer with one JSON object, and nothing else, that fits this JSON schema:\n{}", output.schema)
    });
    if chat.dialect.cache_marks && blocks().any(|block| block.cache.is_some()) {
        let parts = blocks().map(|block| (Cow::Borrowed(&*block.text), block.cache));
        return Some(Item::System { role, parts: parts.chain(told.map(|text| (Cow::Owned(text), None))).collect() });
    }
    let mut texts: Vec<Cow<'a, str>> = blocks().map(|block| Cow::Borrowed(&*block.text)).collect();
    texts.extend(told.map(Cow::Owned));
    let text = match texts.len() {
        0 | 1 => texts.pop()?,
        _ => Cow::Owned(texts.join("\n\n")),
    };
    Some(Item::System { role, parts: vec![(text, None)] })
}

struct Body<'a> {
    chat: &'a Chat,
    request: &'a ModelRequest,
    items: Vec<Item<'a>>,
    extra: Extra<'a>,
    stream: bool,
}

impl Body<'_> {
    fn tool_choice(&self) -> Option<Value> {
        match &self.request.tool_choice {
            _ if self.request.tools.is_empty() => None,
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Any => Some(json!(self.chat.dialect.any_tool)),
            ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
            _ => None,
        }
    }

    fn response_format(&self) -> Option<Value> {
        let OutputSchema { name, schema } = self.request.output_schema.as_ref()?;
        Some(match self.chat.dialect.output {
            OutputForm::JsonSchema if schema::is_strict(schema) => {
                json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": true}})
            }
            OutputForm::JsonSchema => json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema}}),
            _ => json!({"type": "json_object"}),
        })
    }
}

impl Serialize for Body<'_> {
    /// What changes from call to call comes last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (settings, dialect) = (&self.request.settings, &self.chat.dialect);
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.chat.origin.model)?;
        fields.put_some(dialect.max_tokens_field, settings.max_tokens)?;
        fields.put_some("temperature", settings.temperature)?;
        fields.put_some("top_p", settings.top_p)?;
        fields.put_some("stop", (!settings.stop.is_empty()).then_some(&settings.stop))?;
        if self.stream {
            fields.put("stream", &true)?;
            if dialect.asks_usage {
                fields.put("stream_options", &json!({"include_usage": true}))?;
            }
        }
        fields.put_some("tool_choice", self.tool_choice())?;
        let parallel = self.request.parallel_tool_calls.filter(|_| dialect.parallel_field);
        fields.put_some("parallel_tool_calls", parallel.filter(|_| !self.request.tools.is_empty()))?;
        fields.put_some("response_format", self.response_format())?;
        fields.put_extra(&[])?;
        if !self.request.tools.is_empty() {
            let tools: Vec<Tool<'_>> = self.request.tools.iter().map(|spec| Tool(spec)).collect();
            fields.put("tools", &tools)?;
        }
        fields.put("messages", &self.items)?;
        fields.map.end()
    }
}

struct Tool<'a>(&'a ToolSpec);

struct Function<'a>(&'a ToolSpec);

impl Serialize for Tool<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function(self.0))?;
        map.end()
    }
}

impl Serialize for Function<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.0.name)?;
        map.serialize_entry("description", &self.0.description)?;
        map.serialize_entry("parameters", &self.0.schema)?;
        map.end()
    }
}
