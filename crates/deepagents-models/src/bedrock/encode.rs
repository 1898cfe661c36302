//! Encodes everything in a request of the Converse API except the conversation.

use std::collections::BTreeSet;

use deepagents_core::model::{ModelError, ModelRequest, ToolChoice};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::Converse;
use super::messages::cache_point;
use crate::anthropic::thinks;
use crate::blocks::as_call;
use crate::body::{Fields, Head, WrittenFields, filled, wire_name, write_value};

impl Head<'_, Converse> {
    /// Returns the encoded fields that most requests share.
    pub(super) fn tools_and_system(&self) -> Result<WrittenFields, ModelError> {
        let written = &self.target.written;
        let chosen = matches!(self.request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_));
        let tools = if chosen || self.request.tools.is_empty() {
            write_value(self.tool_config())?
        } else {
            written.tools(self.request, || self.tool_config())?
        };
        let system = written.system(self.request, || filled(self.system_with_points()))?;
        Ok(self.extra.left([("toolConfig", tools), ("system", system)]))
    }

    fn tool_config(&self) -> Option<Value> {
        let own = self.request.tools.iter().map(|spec| tool(&spec.name, &spec.description, &spec.schema)).collect();
        let mut tools: Vec<Value> = filled(own).or_else(|| {
            // A conversation with calls is rejected without tools, so declare those that were called.
            let names = called(self.request);
            filled(names.iter().map(|name| tool(name, "Not on offer now.", &json!({"type": "object"}))).collect())
        })?;
        if self.target.wire.cache_points
            && let Some(ttl) = self.request.cache.tools
        {
            tools.push(cache_point(ttl));
        }
        let mut config = json!({"tools": tools});
        let thinking = self.extra.get("additionalModelRequestFields").and_then(|fields| fields.get("thinking"));
        // The API has no equivalent of "none".
        let choice = self.tool_choice(None, json!({"any": {}}), |name| json!({"tool": {"name": name}}));
        let choice = choice.filter(|_| !thinks(thinking));
        if let (Some(choice), Value::Object(config)) = (choice, &mut config) {
            config.insert("toolChoice".to_owned(), choice);
        }
        Some(config)
    }

    fn system_with_points(&self) -> Vec<Value> {
        let mut system = Vec::new();
        for block in self.system() {
            system.push(json!({"text": block.text}));
            system.extend(block.cache.filter(|_| self.target.wire.cache_points).map(cache_point));
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
    blocks.filter_map(as_call).map(|(_, name)| wire_name(name).into_owned()).collect()
}

impl Serialize for Head<'_, Converse> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        let config = self.settings("inferenceConfig", ["maxTokens", "temperature", "topP", "stopSequences"], []);
        fields.put_merged("inferenceConfig", &config)?;
        fields.put_extra(&["inferenceConfig"])?;
        fields.map.end()
    }
}
