//! Tools whose schema is only known at run time.

use std::future::Future;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::coerce::coerced;
use super::erased::bad_args;
use super::{DynTool, Effect, ToolContext, ToolError, ToolOutput};
use crate::model::ToolSpec;
use crate::schema::{SchemaCheck, as_args, has_alternatives};
use crate::state::{Channel, ChannelSpec};

/// A tool with a JSON schema; see [`json_tool`].
pub struct JsonTool<F> {
    name: String,
    description: String,
    check: SchemaCheck,
    /// The schema as shown to the model.
    shown: Arc<Value>,
    effect: Effect,
    return_direct: bool,
    channels: Vec<ChannelSpec>,
    call: F,
}

/// Makes a tool from a JSON schema and a closure. If arguments do not match the schema, the model receives an error;
/// [`Tool`](super::Tool) says which values are converted first. A schema with alternatives at its root is shown to the
/// model as one object, as [`schema_of`](super::schema_of) does, but is checked in its original form.
///
/// ```
/// use deepagents_core::tool::json_tool;
/// use serde_json::json;
/// let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
/// let weather = json_tool("get_weather", "Tells the weather.", schema, |args, _cx| async move {
///     Ok(format!("It is sunny in {}.", args["city"].as_str().unwrap_or("town")))
/// });
/// ```
pub fn json_tool<F, Fut, O>(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: Value,
    call: F,
) -> JsonTool<F>
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: Into<ToolOutput> + 'static,
{
    let schema = Arc::new(schema);
    JsonTool {
        name: name.into(),
        description: description.into(),
        shown: if has_alternatives(&schema) { as_args(&schema) } else { schema.clone() },
        check: SchemaCheck::new(schema),
        effect: Effect::External,
        return_direct: false,
        channels: Vec::new(),
        call,
    }
}

impl<F> JsonTool<F> {
    /// Sets what its calls touch.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Makes its result the answer of the run.
    #[must_use]
    pub fn return_direct(mut self) -> Self {
        self.return_direct = true;
        self
    }

    /// Declares a channel that its calls read or write; see [`Tool::channels`](super::Tool::channels).
    #[must_use]
    pub fn channel<C: Channel>(mut self) -> Self {
        self.channels.push(ChannelSpec::new::<C>());
        self
    }

    /// Returns the arguments if they match the schema, coerced if necessary.
    fn checked(&self, args: Value) -> Result<Value, ToolError> {
        let Err(problem) = self.check.check(&args) else { return Ok(args) };
        self.meant(&args).ok_or_else(|| bad_args(&self.name, &problem))
    }

    /// Coerces arguments that do not match the schema.
    fn meant(&self, args: &Value) -> Option<Value> {
        coerced(self.check.schema(), args).filter(|args| self.check.check(args).is_ok())
    }
}

impl<F, Fut, O> DynTool for JsonTool<F>
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: Into<ToolOutput> + 'static,
{
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: self.name.clone(), description: self.description.clone(), schema: self.shown.clone() }
    }

    fn effect(&self, _args: &Value) -> Effect {
        self.effect.clone()
    }

    fn coerced(&self, args: &Value) -> Option<Value> {
        if self.check.check(args).is_ok() { None } else { self.meant(args) }
    }

    fn misfit(&self, args: &Value) -> Option<String> {
        self.check.check(args).err()
    }

    fn return_direct(&self) -> bool {
        self.return_direct
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.channels.clone()
    }

    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args = self.checked(args)?;
            (self.call)(args, cx).await.map(Into::into)
        })
    }
}

impl<F> std::fmt::Debug for JsonTool<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonTool").field("name", &self.name).field("effect", &self.effect).finish_non_exhaustive()
    }
}
