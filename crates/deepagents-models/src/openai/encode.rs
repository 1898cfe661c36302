//! Encodes everything in a request of Chat Completions except the conversation.

use std::borrow::Cow;

use deepagents_core::model::{ModelError, OutputSchema, ToolSpec};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::Chat;
use super::dialect::{Dialect, OutputForm};
use super::items::{Content, Item, Part};
use crate::body::{Fields, Head, TextPart, WrittenFields, filled};
use crate::schema;

impl<'a> Head<'a, Chat> {
    /// Returns the system prompt: a single text, or parts if some carry cache marks that the service supports.
    pub(super) fn system_item(&self, dialect: &Dialect) -> Option<Item<'a>> {
        let schema = self.request.output_schema.as_ref();
        let note = schema.filter(|_| dialect.output == OutputForm::JsonObject);
        let note = note.map(|output| {
            format!("Answer with one JSON object, and nothing else, that fits this JSON schema:\n{}", output.schema)
        });
        let mut parts: Vec<(Cow<'a, str>, _)> =
            self.system().map(|block| ((&*block.text).into(), block.cache)).collect();
        parts.extend(note.map(|text| (text.into(), None)));
        let is_marked = dialect.cache_marks && parts.iter().any(|(_, mark)| mark.is_some());
        let content = match parts.len() {
            _ if is_marked => {
                Content::Parts(parts.into_iter().map(|(text, mark)| Part::Text(TextPart::new(text, mark))).collect())
            }
            0 | 1 => Content::Text(parts.pop()?.0),
            _ => Content::Text(parts.iter().map(|(text, _)| &**text).collect::<Vec<_>>().join("\n\n").into()),
        };
        Some(Item::plain(dialect.system_role, content))
    }

    fn response_format(&self) -> Option<Value> {
        let OutputSchema { name, schema } = self.request.output_schema.as_ref()?;
        Some(match self.target.wire.0.output {
            OutputForm::JsonSchema if schema::is_strict(schema) => {
                json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": true}})
            }
            OutputForm::JsonSchema => json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema}}),
            _ => json!({"type": "json_object"}),
        })
    }

    /// Returns the encoded tools, which most requests share.
    pub(super) fn tools_field(&self) -> Result<WrittenFields, ModelError> {
        let declare = |spec: &ToolSpec| {
            json!({"type": "function", "function":
                {"name": spec.name, "description": spec.description, "parameters": spec.schema}})
        };
        let tools = self.target.written.tools(self.request, || filled(self.tools(declare)))?;
        Ok(self.extra.left([("tools", tools)]))
    }
}

impl Serialize for Head<'_, Chat> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (settings, dialect) = (&self.request.settings, &self.target.wire.0);
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.target.origin.model)?;
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
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        fields.put_some("tool_choice", self.tool_choice(Some(json!("none")), json!(dialect.any_tool), tool))?;
        let parallel = self.request.parallel_tool_calls.filter(|_| dialect.parallel_field);
        fields.put_some("parallel_tool_calls", parallel.filter(|_| !self.request.tools.is_empty()))?;
        fields.put_some("response_format", self.response_format())?;
        fields.put_extra(&[])?;
        fields.map.end()
    }
}
