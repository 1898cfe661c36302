//! Encodes requests of Chat Completions.

use std::borrow::Cow;

use deepagents_core::model::{ModelError, ModelRequest, OutputSchema, ToolChoice};
use deepagents_core::tool::ToolSpec;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::Chat;
use super::dialect::OutputForm;
use super::items::{Content, Item, Part, items};
use crate::body::{self, Extra, Fields, RequestBody, TextPart, WrittenFields, write_head};
use crate::schema;

/// Encodes the body of a request.
pub(super) fn body(chat: &Chat, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
    if chat.dialect.output == OutputForm::None && request.output_schema.is_some() {
        return Err(ModelError::invalid(format!(
            "{} cannot hold answers to a schema; offer a tool with that schema instead",
            chat.dialect.name
        )));
    }
    let extra = Extra { model: &chat.extra, request: &request.settings.extra };
    let head = Head { chat, request, extra, stream };
    if extra.get("messages").is_some() {
        return write_head(&head, head.shared()?);
    }
    let marks = request.cache.messages.iter().filter(|_| chat.dialect.cache_marks).map(|(index, _)| *index);
    let first_marked = marks.min().unwrap_or(usize::MAX);
    let known = chat.written.take(&request.messages, first_marked);
    let items = items(chat, request, known.messages(), first_marked)?;
    let lead: Vec<Item<'_>> = system(chat, request).into_iter().collect();
    body::write(&chat.written, known, request, (&head, head.shared()?), ("messages", &lead), items.into_iter())
}

/// Returns the system prompt: a single text, or parts if some carry cache marks that the service supports.
fn system<'a>(chat: &'a Chat, request: &'a ModelRequest) -> Option<Item<'a>> {
    let blocks = || request.system.iter().filter(|block| !block.text.trim().is_empty());
    let role = chat.dialect.system_role;
    let note = request.output_schema.as_ref().filter(|_| chat.dialect.output == OutputForm::JsonObject);
    let note = note.map(|output| {
        format!("Answer with one JSON object, and nothing else, that fits this JSON schema:\n{}", output.schema)
    });
    let mut parts: Vec<(Cow<'a, str>, _)> = blocks().map(|block| ((&*block.text).into(), block.cache)).collect();
    parts.extend(note.map(|text| (text.into(), None)));
    let is_marked = chat.dialect.cache_marks && parts.iter().any(|(_, mark)| mark.is_some());
    let content = match parts.len() {
        _ if is_marked => {
            Content::Parts(parts.into_iter().map(|(text, mark)| Part::Text(TextPart::new(text, mark))).collect())
        }
        0 | 1 => Content::Text(parts.pop()?.0),
        _ => Content::Text(parts.iter().map(|(text, _)| &**text).collect::<Vec<_>>().join("\n\n").into()),
    };
    Some(Item::plain(role, content))
}

/// Everything in a body except the conversation.
struct Head<'a> {
    chat: &'a Chat,
    request: &'a ModelRequest,
    extra: Extra<'a>,
    stream: bool,
}

impl Head<'_> {
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

impl Head<'_> {
    /// Returns the encoded fields that most requests share.
    fn shared(&self) -> Result<WrittenFields, ModelError> {
        let tools = || {
            let own = self.request.tools.iter().map(|spec| AnyTool::Own(Tool::new(spec)));
            let of_provider = self.request.provider_tools_for(&self.chat.origin).map(AnyTool::Provider);
            let tools: Vec<AnyTool<'_>> = own.chain(of_provider).collect();
            (!tools.is_empty()).then_some(tools)
        };
        Ok(self.extra.left([("tools", self.chat.written.tools(self.request, tools)?)]))
    }
}

impl Serialize for Head<'_> {
    /// Serialises what changes between calls last, so that bodies share the longest prefix.
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
        fields.map.end()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyTool<'a> {
    Own(Tool<'a>),
    Provider(&'a Value),
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let function = Function { name: &spec.name, description: &spec.description, parameters: &spec.schema };
        Self { r#type: "function", function }
    }
}
