//! Structured answers.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::model::{ModelProfile, ModelRequest, OutputSchema, ToolChoice, ToolSpec};
use crate::schema::{SchemaCheck, has_alternatives, value_schema_of};

/// A format for the structured answer of a run.
///
/// If the provider can enforce a schema, it does. Otherwise the model is given a tool with the schema as its arguments,
/// and an answer that is text with matching JSON counts too. An answer that does not match is sent back with the
/// problem.
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
    pub(crate) schema: OutputSchema,
    strategy: OutputStrategy,
    pub(crate) retries: u32,
    pub(crate) check: Arc<SchemaCheck>,
    /// Whether the answer is the field [`VALUE`] of the object that the model sends.
    wrapped: bool,
}

/// The field that wraps values which are not objects, because providers require an object.
const VALUE: &str = "value";

/// How a structured answer is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputStrategy {
    /// Through the provider if it supports schemas, otherwise through a tool.
    #[default]
    Auto,
    /// Through the provider.
    Provider,
    /// Through a tool.
    Tool,
}

impl ResponseFormat {
    /// Creates the format of a Rust type. A type that is not a plain object, such as a list or an enum, is requested as
    /// the field `value` of an object, because providers require objects without alternatives. The run returns the
    /// value itself.
    ///
    /// ```
    /// use deepagents_core::structured::ResponseFormat;
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// enum Choice { Yes, No }
    /// let format = ResponseFormat::for_type::<Choice>();
    /// # fn read(outcome: deepagents_core::run::Outcome) -> deepagents_core::error::Result<Choice> {
    /// outcome.structured::<Choice>()
    /// # }
    /// ```
    pub fn for_type<T: JsonSchema + 'static>() -> Self {
        let schema = value_schema_of::<T>();
        if schema.get("type").is_some_and(|kind| kind == "object") && !has_alternatives(&schema) {
            return Self::json(T::schema_name(), schema);
        }
        Self { wrapped: true, ..Self::json(T::schema_name(), wrap((*schema).clone())) }
    }

    /// Creates a format from a JSON schema of type `object`. Characters in the name that providers reject are replaced.
    pub fn json(name: impl AsRef<str>, schema: impl Into<Arc<Value>>) -> Self {
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let name: String = name.as_ref().chars().map(legal).take(64).collect();
        let name = if name.is_empty() { "response".to_owned() } else { name };
        let schema = schema.into();
        let check = Arc::new(SchemaCheck::new(schema.clone()));
        Self {
            schema: OutputSchema { name, schema },
            strategy: OutputStrategy::Auto,
            retries: 2,
            check,
            wrapped: false,
        }
    }

    /// Sets how to request the answer.
    #[must_use]
    pub fn strategy(mut self, strategy: OutputStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets how often an invalid answer is sent back; twice by default.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Returns the name of the format.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    pub(crate) fn by_tool(&self, profile: &ModelProfile) -> bool {
        match self.strategy {
            OutputStrategy::Auto => profile.structured_output != Some(true),
            OutputStrategy::Provider => false,
            OutputStrategy::Tool => true,
        }
    }

    /// Requests the answer through a tool.
    pub(crate) fn offer_tool(&self, request: &mut ModelRequest) {
        let spec = self.tool_spec();
        let at = request.tools.partition_point(|tool| tool.name < spec.name);
        request.tools.insert(at, Arc::new(spec));
        request.tool_choice = match request.tool_choice {
            ToolChoice::None => ToolChoice::Tool(self.schema.name.clone()),
            _ => ToolChoice::Any,
        };
    }

    /// Requests the answer through a tool in place of the provider, if a model cannot be asked for it in that way: a
    /// middleware may call another model than the agent's own.
    pub(crate) fn fit(&self, request: &mut ModelRequest, profile: &ModelProfile) {
        let is_requested = request.output_schema.as_ref() == Some(&self.schema);
        let is_taken = request.tools.iter().any(|tool| tool.name == self.schema.name);
        if is_requested && !is_taken && self.by_tool(profile) {
            request.output_schema = None;
            self.offer_tool(request);
        }
    }

    fn tool_spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.schema.name.clone(),
            description: "Gives your final answer in the shape that was asked for. Call it once, when you are done."
                .to_owned(),
            schema: self.schema.schema.clone(),
        }
    }

    /// Returns the answer from the model's JSON, if it matches.
    pub(crate) fn read(&self, value: &Value) -> Result<Value, String> {
        self.check.check(value)?;
        // In the state, null means no answer, so an answer that is null stays wrapped.
        let inner = value.get(VALUE).filter(|inner| self.wrapped && !inner.is_null());
        Ok(inner.unwrap_or(value).clone())
    }

    /// Parses a text answer, ignoring code fences around the JSON.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(unfenced(text)).map_err(|e| format!("it is not JSON: {e}"))?;
        self.read(&value)
    }
}

/// Deserialises an answer; a wrapped null is an answer too.
pub(crate) fn answer<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    let is_null = value.as_object().is_some_and(|map| map.len() == 1 && map.get(VALUE).is_some_and(Value::is_null));
    T::deserialize(value).or_else(|error| match is_null {
        true => T::deserialize(Value::Null).map_err(|_| error),
        false => Err(error),
    })
}

/// Returns the schema of an object with a single field of this schema.
fn wrap(mut schema: Value) -> Value {
    let definitions = schema.as_object_mut().and_then(|map| map.remove("$defs"));
    refer_below(&mut schema);
    let mut object = Map::new();
    object.insert("type".to_owned(), "object".into());
    object.insert("properties".to_owned(), json!({ VALUE: schema }));
    object.insert("required".to_owned(), json!([VALUE]));
    if let Some(mut definitions) = definitions {
        refer_below(&mut definitions);
        object.insert("$defs".to_owned(), definitions);
    }
    Value::Object(object)
}

/// Adjusts references to the whole schema to its new location.
fn refer_below(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("$ref").is_some_and(|place| place == "#") {
                map.insert("$ref".to_owned(), format!("#/properties/{VALUE}").into());
            }
            map.values_mut().for_each(refer_below);
        }
        Value::Array(items) => items.iter_mut().for_each(refer_below),
        _ => {}
    }
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    // The first line names the language.
    inner.split_once('\n').map_or(inner, |(_, body)| body).trim()
}
