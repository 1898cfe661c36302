//! Tools made from a closure, with typed arguments.

use std::future::Future;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use crate::state::{Channel, ChannelSpec};

/// A tool made from a closure; see [`tool_fn`] and [`json_tool`](super::json_tool).
pub struct ClosureTool<A, F> {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) effect: Effect,
    pub(super) return_direct: bool,
    pub(super) channels: Vec<ChannelSpec>,
    /// How arguments are read.
    pub(super) args: A,
    pub(super) call: F,
}

/// A tool with arguments of a type; see [`tool_fn`].
pub type FnTool<A, F> = ClosureTool<PhantomData<fn(A)>, F>;

/// Makes a tool from a closure. The arguments are the fields of a struct, or `()` if there are none.
///
/// ```
/// use deepagents_core::tool::{Effect, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let add = tool_fn("add", "Adds two numbers.", |args: Add, _cx| async move { Ok((args.a + args.b).to_string()) })
///     .effect(Effect::Read);
/// let roll = tool_fn("roll", "Rolls a die.", |(): (), _cx| async { Ok("4") });
/// ```
///
/// The closure returns a [`ToolError`], into which `?` converts any error. With `anyhow`, write `Err(anyhow!("…"))?`:
/// `bail!` returns an `anyhow::Error` without converting it.
pub fn tool_fn<A, F, Fut, O>(name: impl Into<String>, description: impl Into<String>, call: F) -> FnTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: Into<ToolOutput> + 'static,
{
    ClosureTool::new(name.into(), description.into(), PhantomData, call)
}

impl<A, F> ClosureTool<A, F> {
    pub(super) fn new(name: String, description: String, args: A, call: F) -> Self {
        let (effect, return_direct, channels) = (Effect::External, false, Vec::new());
        Self { name, description, effect, return_direct, channels, args, call }
    }

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

    /// Declares a channel that its calls read or write; see [`Tool::channels`].
    #[must_use]
    pub fn channel<C: Channel>(mut self) -> Self {
        self.channels.push(ChannelSpec::new::<C>());
        self
    }
}

impl<A, F, Fut, O> Tool for FnTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: Into<ToolOutput> + 'static,
{
    type Args = A;

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn effect(&self, _args: &A) -> Effect {
        self.effect.clone()
    }

    fn return_direct(&self) -> bool {
        self.return_direct
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.channels.clone()
    }

    fn call(&self, args: A, cx: ToolContext) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send {
        let call = (self.call)(args, cx);
        async move { call.await.map(Into::into) }
    }
}

impl<A, F> std::fmt::Debug for ClosureTool<A, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosureTool").field("name", &self.name).field("effect", &self.effect).finish_non_exhaustive()
    }
}
