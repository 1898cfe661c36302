//! Encodes everything in a request of Gemini's API except the conversation.

use std::sync::Arc;

use deepagents_core::model::{ModelError, ToolSpec};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::GenerateContent;
use crate::body::{Fields, Head, WrittenFields, filled};
use crate::schema;

impl Head<'_, GenerateContent> {
    /// Sampling settings and the like; configured values are merged into those of the request.
    fn generation_config(&self) -> Map<String, Value> {
        let schema = self.request.output_schema.as_ref().map(|output| schema::gemini(&output.schema));
        let output =
            [("responseMimeType", schema.as_ref().map(|_| json!("application/json"))), ("responseJsonSchema", schema)];
        self.settings("generationConfig", ["maxOutputTokens", "temperature", "topP", "stopSequences"], output)
    }

    fn tool_config(&self) -> Option<Value> {
        let tool = |name: &str| json!({"mode": "ANY", "allowedFunctionNames": [name]});
        let mode = self.tool_choice(Some(json!({"mode": "NONE"})), json!({"mode": "ANY"}), tool)?;
        Some(json!({"functionCallingConfig": mode}))
    }

    /// Returns the encoded fields that most requests share.
    pub(super) fn tools_and_system(&self) -> Result<WrittenFields, ModelError> {
        // A cached prompt contains these, and the API rejects them beside it.
        if self.extra.get("cachedContent").is_some() {
            return Ok(WrittenFields::new());
        }
        let system = || {
            let parts = self.system().map(|block| json!({"text": block.text})).collect();
            filled(parts).map(|parts: Vec<Value>| json!({"parts": parts}))
        };
        self.shared(("tools", || filled(self.declarations())), ("systemInstruction", system))
    }

    fn declarations(&self) -> Vec<Value> {
        let declare = |spec: &Arc<ToolSpec>| {
            json!({"name": spec.name, "description": spec.description,
                "parametersJsonSchema": schema::gemini(&spec.schema)})
        };
        let declared = filled(self.request.tools.iter().map(declare).collect());
        let own = declared.map(|declared: Vec<Value>| json!({"functionDeclarations": declared}));
        own.into_iter().chain(self.request.provider_tools_for(&self.target.origin).cloned()).collect()
    }
}

impl Serialize for Head<'_, GenerateContent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put_merged("generationConfig", &self.generation_config())?;
        fields.put_extra(&["generationConfig"])?;
        // A cached prompt contains these, and the API rejects them beside it.
        if self.extra.get("cachedContent").is_none() {
            fields.put_some("toolConfig", self.tool_config())?;
        }
        fields.map.end()
    }
}
