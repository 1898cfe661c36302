//! The object-safe form of tools.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::coerce::coerced;
use super::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use crate::forward::forward;
use crate::model::ToolSpec;
use crate::schema::{SchemaCheck, is_unit, schema_of, value_schema_of};
use crate::state::ChannelSpec;

/// The object-safe form of [`Tool`], implemented for every tool. Implement it directly if the arguments are only known
/// at run time.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::tool::{DynTool, json_tool};
/// use serde_json::json;
/// let now = json_tool("now", "Tells the time.", json!({"type": "object"}), |_args, _cx| async { Ok("noon") });
/// let tools: Vec<Arc<dyn DynTool>> = vec![Arc::new(now)];
/// assert_eq!(tools[0].spec().name, "now");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    note = "`tool_fn(name, description, |args: Args, cx| async move {{ … }})` makes a tool of a closure, or of an `async fn` with these \
            arguments"
)]
pub trait DynTool: Send + Sync + 'static {
    /// Returns what the model sees of the tool. Called once, when the agent or the [`ToolSet`](super::ToolSet) is
    /// built.
    fn spec(&self) -> ToolSpec;

    /// Returns what a call with these arguments touches. The arguments may be invalid here.
    fn effect(&self, args: &Value) -> Effect;

    /// Returns the arguments converted to the types of the schema, as described at [`Tool`], or `None` if the call
    /// accepts them unchanged. Hooks see the call with these arguments, so they decide on what is actually done.
    fn coerced(&self, args: &Value) -> Option<Value> {
        let _ = args;
        None
    }

    /// Returns why a call with these arguments would be rejected because of their shape, so that nobody is asked about
    /// it. This may be stricter than the schema that the model is shown.
    fn misfit(&self, args: &Value) -> Option<String> {
        SchemaCheck::new(self.spec().schema).check(args).err()
    }

    /// See [`Tool::idempotent`].
    fn idempotent(&self, args: &Value) -> bool {
        let _ = args;
        false
    }

    /// See [`Tool::return_direct`].
    fn return_direct(&self) -> bool {
        false
    }

    /// See [`Tool::channels`].
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }

    /// See [`Tool::bounds_results`].
    fn bounds_results(&self) -> bool {
        false
    }

    /// Checks the arguments and makes the call.
    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}

impl<T: Tool> DynTool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: Tool::name(self).to_owned(),
            description: Tool::description(self).to_owned(),
            schema: schema_of::<T::Args>(),
        }
    }

    fn effect(&self, args: &Value) -> Effect {
        // Unreadable arguments touch nothing: the call only returns an error.
        read_args::<T::Args>(args).map_or(Effect::Read, |args| Tool::effect(self, &args))
    }

    fn coerced(&self, args: &Value) -> Option<Value> {
        if T::Args::deserialize(args).is_ok() {
            return None;
        }
        coerced(&schema_of::<T::Args>(), args).filter(|args| T::Args::deserialize(args).is_ok())
    }

    fn misfit(&self, args: &Value) -> Option<String> {
        let values = value_schema_of::<T::Args>();
        let schema = if is_unit(&values) { schema_of::<T::Args>() } else { values };
        SchemaCheck::new(schema).check(args).err()
    }

    fn idempotent(&self, args: &Value) -> bool {
        read_args::<T::Args>(args).is_ok_and(|args| Tool::idempotent(self, &args))
    }

    forward! { as Tool;
        fn return_direct(&self) -> bool;
        fn channels(&self) -> Vec<ChannelSpec>;
        fn bounds_results(&self) -> bool;
    }

    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args = parse_args::<T::Args>(Tool::name(&*self), &args)?;
            Tool::call(&*self, args, cx).await
        })
    }
}

/// Lets a builder accept both a tool and a shared one.
impl<T: DynTool + ?Sized> DynTool for Arc<T> {
    forward! { (**self);
        fn spec(&self) -> ToolSpec;
        fn effect(&self, args: &Value) -> Effect;
        fn coerced(&self, args: &Value) -> Option<Value>;
        fn misfit(&self, args: &Value) -> Option<String>;
        fn idempotent(&self, args: &Value) -> bool;
        fn return_direct(&self) -> bool;
        fn channels(&self) -> Vec<ChannelSpec>;
        fn bounds_results(&self) -> bool;
    }

    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        T::call((*self).clone(), args, cx)
    }
}

/// Deserialises arguments, coercing them if they do not fit.
fn read_args<A: DeserializeOwned + JsonSchema + 'static>(
    args: &Value,
) -> Result<A, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(args).or_else(|error| {
        // Models send an object even if the tool takes no arguments.
        if args.is_object() && is_unit(&value_schema_of::<A>()) {
            return A::deserialize(Value::Null).map_err(|_| error);
        }
        let meant = coerced(&schema_of::<A>(), args).and_then(|args| A::deserialize(args).ok());
        meant.ok_or(error)
    })
}

/// Deserialises arguments, or returns an error with everything that is wrong with them.
fn parse_args<A: DeserializeOwned + JsonSchema + 'static>(tool: &str, args: &Value) -> Result<A, ToolError> {
    read_args(args).map_err(|error| {
        // Deserialisation stops at the first problem; the schema check finds all of them.
        if let Err(problems) = SchemaCheck::new(schema_of::<A>()).check(args) {
            return bad_args(tool, &problems);
        }
        let path = error.path().to_string();
        let at = if path == "." { String::new() } else { format!(" at `{path}`") };
        bad_args(tool, &format!("{}{at}", error.inner()))
    })
}

/// The source of the error for arguments that a tool does not take.
#[derive(Debug, thiserror::Error)]
#[error("the arguments are invalid")]
pub(crate) struct InvalidArguments;

pub(super) fn bad_args(tool: &str, problem: &str) -> ToolError {
    let text = format!("Error: bad arguments for {tool}: {problem}. Correct them and call it again.");
    ToolError::Model { text, source: Some(Box::new(InvalidArguments)) }
}
