//! Encodes everything in a request of the Responses API except the conversation.

use deepagents_core::model::{ModelError, OutputSchema, ToolSpec};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::Responses;
use crate::body::{Fields, Head, WrittenFields, filled};
use crate::schema;

impl Head<'_, Responses> {
    /// `text` contains more than the format, such as the verbosity.
    fn text(&self) -> Map<String, Value> {
        let mut text = self.extra.get("text").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(OutputSchema { name, schema }) = &self.request.output_schema {
            let strict = schema::is_strict(schema);
            let format = json!({"type": "json_schema", "name": name, "schema": schema, "strict": strict});
            text.entry("format").or_insert(format);
        }
        text
    }

    /// Returns the encoded fields that most requests share.
    pub(super) fn tools_and_system(&self) -> Result<WrittenFields, ModelError> {
        let declare = |spec: &ToolSpec| {
            // If `strict` is omitted, it defaults to `true`, which rejects most schemas.
            json!({"type": "function", "name": spec.name, "description": spec.description,
                "parameters": spec.schema, "strict": false})
        };
        self.shared(("tools", || filled(self.tools(declare))), ("instructions", || self.system_text()))
    }
}

/// Returns whether a model reasons: others reject a request for encrypted reasoning.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let plain = ["gpt-3.5", "gpt-4", "chatgpt-4o", "gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat"];
    !plain.iter().any(|prefix| name.starts_with(prefix))
}

impl Serialize for Head<'_, Responses> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = &self.request.settings;
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.target.origin.model)?;
        fields.put("store", &false)?;
        if reasons(&self.target.origin.model) {
            fields.put("include", &["reasoning.encrypted_content"])?;
        }
        fields.put_some("max_output_tokens", settings.max_tokens)?;
        fields.put_some("temperature", settings.temperature)?;
        fields.put_some("top_p", settings.top_p)?;
        if self.stream {
            fields.put("stream", &true)?;
        }
        let tool = |name: &str| json!({"type": "function", "name": name});
        fields.put_some("tool_choice", self.tool_choice(Some(json!("none")), json!("required"), tool))?;
        let parallel = self.request.parallel_tool_calls.filter(|_| !self.request.tools.is_empty());
        fields.put_some("parallel_tool_calls", parallel)?;
        fields.put_merged("text", &self.text())?;
        fields.put_extra(&["text"])?;
        fields.map.end()
    }
}
