//! Answers in a shape that was asked for.

use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::Value;

use crate::model::{ModelProfile, OutputSchema, ToolSpec};
use crate::schema::{SchemaCheck, schema_of};

/// Asks for the answer of a run in a shape.
///
/// Where the provider can hold the answer to a schema it is asked to; elsewhere the model is given a tool with the
/// shape as its arguments, and text that is the JSON counts too. An answer that does not fit is sent back with what is wrong.
///
/// ```
/// use deepagents_core::structured::ResponseFormat;
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Person { name: String, age: u32 }
/// let format = ResponseFormat::for_type::<Person>();
/// assert_eq!(format.name(), "Person");
/// ```
#[derive(Clone, Debug)]
pub struct ResponseFormat {
    schema: OutputSchema,
    way: OutputStrategy,
    retries: u32,
    check: Arc<SchemaCheck>,
}

/// How a shape is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputStrategy {
    /// Through the provider where it can, through a tool elsewhere.
    #[default]
    Auto,
    /// Through the provider.
    Provider,
    /// Through a tool.
    Tool,
}

impl ResponseFormat {
    /// The shape of a Rust type.
    pub fn for_type<T: JsonSchema + 'static>() -> Self {
        Self::json(T::schema_name(), schema_of::<T>())
    }

    /// A shape given as a JSON schema of type `object`. Characters a provider would refuse in the name are replaced.
    pub fn json(name: impl AsRef<str>, schema: impl Into<Arc<Value>>) -> Self {
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let name: String = name.as_ref().chars().map(legal).take(64).collect();
        let name = if name.is_empty() { "response".to_owned() } else { name };
        let schema = schema.into();
        let check = Arc::new(SchemaCheck::new(schema.clone()));
        Self { schema: OutputSchema { name, schema }, way: OutputStrategy::Auto, retries: 2, check }
    }

    /// Says how to ask.
    #[must_use]
    pub fn way(mut self, way: OutputStrategy) -> Self {
        self.way = way;
        self
    }

    /// Says how often a wrong answer is sent back; twice by default.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The name of the shape.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    pub(crate) fn by_tool(&self, profile: &ModelProfile) -> bool {
        match self.way {
            OutputStrategy::Auto => profile.structured_output != Some(true),
            OutputStrategy::Provider => false,
            OutputStrategy::Tool => true,
        }
    }

    pub(crate) fn max_retries(&self) -> u32 {
        self.retries
    }

    pub(crate) fn output_schema(&self) -> OutputSchema {
        self.schema.clone()
    }

    pub(crate) fn tool_spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.schema.name.clone(),
            description: "Gives your final answer in the shape that was asked for. Call it once, when you are done."
                .to_owned(),
            schema: self.schema.schema.clone(),
        }
    }

    /// Looks whether values can be checked against it, so that a wrong schema is not found out by asking a model.
    pub(crate) fn check_schema(&self) -> Result<(), String> {
        self.check.compile()
    }

    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        self.check.check(value)
    }

    /// Reads a text answer; code fences around the JSON are passed over.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(unfenced(text)).map_err(|e| format!("it is not JSON: {e}"))?;
        self.check(&value)?;
        Ok(value)
    }
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    // The first line names the language.
    inner.split_once('\n').map_or(inner, |(_, body)| body).trim()
}
