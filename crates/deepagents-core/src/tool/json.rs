//! Tools whose schema is only known at run time.

use std::future::Future;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::coerce::coerced;
use super::erased::bad_args;
use super::{ClosureTool, DynTool, Effect, ToolContext, ToolError, ToolOutput};
use crate::model::ToolSpec;
use crate::schema::{SchemaCheck, as_args, has_alternatives};
use crate::state::ChannelSpec;

/// A tool with a JSON schema; see [`json_tool`].
pub type JsonTool<F> = ClosureTool<JsonArgs, F>;

/// Arguments that match a JSON schema.
#[derive(Debug)]
pub struct JsonArgs {
    check: SchemaCheck,
    /// The schema as shown to the model.
    shown: Arc<Value>,
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
    let shown = if has_alternatives(&schema) { as_args(&schema) } else { schema.clone() };
    ClosureTool::new(name.into(), description.into(), JsonArgs { check: SchemaCheck::new(schema), shown }, call)
}

impl JsonArgs {
    /// Returns the arguments if they match the schema, coerced if necessary.
    ///
    /// # Errors
    /// Returns the problem.
    fn checked(&self, args: Value) -> Result<Value, String> {
        let Err(problem) = self.check.check(&args) else { return Ok(args) };
        self.meant(&args).ok_or(problem)
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
        ToolSpec { name: self.name.clone(), description: self.description.clone(), schema: self.args.shown.clone() }
    }

    fn effect(&self, _args: &Value) -> Effect {
        self.effect.clone()
    }

    fn coerced(&self, args: &Value) -> Option<Value> {
        if self.args.check.check(args).is_ok() { None } else { self.args.meant(args) }
    }

    fn misfit(&self, args: &Value) -> Option<String> {
        self.args.check.check(args).err()
    }

    fn return_direct(&self) -> bool {
        self.return_direct
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.channels.clone()
    }

    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args = self.args.checked(args).map_err(|problem| bad_args(&self.name, &problem))?;
            (self.call)(args, cx).await.map(Into::into)
        })
    }
}
