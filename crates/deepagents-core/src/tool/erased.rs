//! The object-safe form of tools.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::coerce::coerced;
use super::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use crate::model::ToolSpec;
use crate::schema::{SchemaCheck, is_unit, schema_of, value_schema_of};
use crate::state::ChannelSpec;

/// A tool behind a pointer. Every [`Tool`] is one; implement it directly where arguments are only known at run time.
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
    /// What the model is told. Asked for once, when the agent or the [`ToolSet`](super::ToolSet) is built.
    fn spec(&self) -> ToolSpec;

    /// What a call with these arguments touches; arguments may be wrong here.
    fn effect(&self, args: &Value) -> Effect;

    /// What a call makes of arguments that are right but for their writing, see [`Tool`]; nothing where it takes them as
    /// they are. Hooks see the call with these arguments, so that what they decide on is what is done.
    fn coerced(&self, args: &Value) -> Option<Value> {
        let _ = args;
        None
    }

    /// Why a call with these arguments would be refused by their shape alone, so that nobody is asked about it; what the model
    /// is shown of their schema may take more.
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
        // Arguments that cannot be read touch nothing: the call will only answer with an error.
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

    fn return_direct(&self) -> bool {
        Tool::return_direct(self)
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        Tool::channels(self)
    }

    fn bounds_results(&self) -> bool {
        Tool::bounds_results(self)
    }

    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args = parse_args::<T::Args>(Tool::name(&*self), &args)?;
            Tool::call(&*self, args, cx).await
        })
    }
}

/// So that a builder takes a tool and a shared one alike.
impl<T: DynTool + ?Sized> DynTool for Arc<T> {
    fn spec(&self) -> ToolSpec {
        (**self).spec()
    }

    fn effect(&self, args: &Value) -> Effect {
        (**self).effect(args)
    }

    fn coerced(&self, args: &Value) -> Option<Value> {
        (**self).coerced(args)
    }

    fn misfit(&self, args: &Value) -> Option<String> {
        (**self).misfit(args)
    }

    fn idempotent(&self, args: &Value) -> bool {
        (**self).idempotent(args)
    }

    fn return_direct(&self) -> bool {
        (**self).return_direct()
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        (**self).channels()
    }

    fn bounds_results(&self) -> bool {
        (**self).bounds_results()
    }

    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        T::call((*self).clone(), args, cx)
    }
}

/// Reads arguments, and where they do not fit, what they mean.
fn read_args<A: DeserializeOwned + JsonSchema + 'static>(
    args: &Value,
) -> Result<A, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(args).or_else(|error| {
        // A model gives an object, also where there is nothing to say.
        if args.is_object() && is_unit(&value_schema_of::<A>()) {
            return A::deserialize(Value::Null).map_err(|_| error);
        }
        let meant = coerced(&schema_of::<A>(), args).and_then(|args| A::deserialize(args).ok());
        meant.ok_or(error)
    })
}

/// Reads arguments, or says everything that is wrong with them.
fn parse_args<A: DeserializeOwned + JsonSchema + 'static>(tool: &str, args: &Value) -> Result<A, ToolError> {
    read_args(args).map_err(|error| {
        // The type stops at its first problem; its schema knows them all.
        if let Err(problems) = SchemaCheck::new(schema_of::<A>()).check(args) {
            return bad_args(tool, &problems);
        }
        let path = error.path().to_string();
        let at = if path == "." { String::new() } else { format!(" at `{path}`") };
        bad_args(tool, &format!("{}{at}", error.inner()))
    })
}

pub(super) fn bad_args(tool: &str, problem: &str) -> ToolError {
    ToolError::model(format!("Error: bad arguments for {tool}: {problem}. Correct them and call it again."))
}
