//! The trait that tools are written with.

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{ToolContext, ToolError, ToolOutput};
use crate::state::ChannelSpec;

/// A tool with typed arguments.
///
/// Arguments that do not fit the type answer the model; they never reach the tool. Where only the writing differs and
/// the schema leaves one meaning, they are read: `"5"` for an integer, `"true"` for a truth value.
///
/// ```
/// use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Args {
///     /// Name of the city.
///     city: String,
/// }
///
/// struct Weather;
/// impl Tool for Weather {
///     type Args = Args;
///     fn name(&self) -> &str { "get_weather" }
///     fn description(&self) -> &str { "Tells the weather of a city." }
///     fn effect(&self, _args: &Args) -> Effect { Effect::Read }
///     async fn call(&self, args: Args, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
///         Ok(format!("It is sunny in {}.", args.city).into())
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// The arguments: a struct, whose fields have doc comments as their descriptions, or `()` where there are none.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// The name, `[A-Za-z0-9_-]{1,64}`.
    fn name(&self) -> &str;

    /// What it does and when to use it, for the model.
    fn description(&self) -> &str;

    /// What a call with these arguments touches.
    fn effect(&self, _args: &Self::Args) -> Effect {
        Effect::External
    }

    /// Whether a call with these arguments may be made again after a crash that left its outcome unknown. The call's
    /// [`key`](ToolContext::key) is the same then, and the sub-agents that it [runs](ToolContext::run_child) go on where
    /// they were.
    fn idempotent(&self, _args: &Self::Args) -> bool {
        false
    }

    /// Whether the run ends with this tool's result as its answer.
    fn return_direct(&self) -> bool {
        false
    }

    /// The channels that its calls read and write. Whoever has the tool has them, sub-agents that inherit it included.
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }

    /// Whether its results stay within a bound of their own whatever it is asked, so that none has to be moved to a file
    /// because of its size. A promise: what is said here is not checked.
    fn bounds_results(&self) -> bool {
        false
    }

    /// Does it.
    fn call(&self, args: Self::Args, cx: ToolContext) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// What a call touches; decides what may overlap within a turn and what a resumed run may repeat.
///
/// ```
/// use deepagents_core::tool::Effect;
/// assert_eq!(Effect::write("/notes.md"), Effect::Write { paths: vec!["/notes.md".to_owned()] });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Changes nothing: overlaps with everything and may be repeated.
    Read,
    /// Changes these paths: calls that touch the same path, or one below it, wait for each other in call order. Without
    /// paths it waits for every other write.
    Write {
        /// Absolute paths.
        paths: Vec<String>,
    },
    /// Changes something else: overlaps with everything and is not repeated.
    External,
}

impl Effect {
    /// Changes one path.
    pub fn write(path: impl Into<String>) -> Self {
        Self::Write { paths: vec![path.into()] }
    }
}
