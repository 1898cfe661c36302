//! The trait that tool authors implement.

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{ToolContext, ToolError, ToolOutput};
use crate::state::ChannelSpec;

/// A tool with typed arguments.
///
/// Arguments that do not match the type never reach the tool: the model receives an error. Values of the wrong JSON
/// type are converted if the schema allows only one meaning: `"5"` for an integer, `"true"` for a boolean, null for an
/// optional argument that is left out.
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
    /// The arguments: a struct whose doc comments describe its fields, or `()` if there are none.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// Returns the tool's name, matching `[A-Za-z0-9_-]{1,64}`.
    fn name(&self) -> &str;

    /// Describes to the model what the tool does and when to use it.
    fn description(&self) -> &str;

    /// Returns what a call with these arguments touches.
    fn effect(&self, _args: &Self::Args) -> Effect {
        Effect::External
    }

    /// Returns whether a call with these arguments may be repeated after a crash that left its outcome unknown. The
    /// repeated call has the same [`key`](ToolContext::key), and the sub-agents that it [runs](ToolContext::run_child)
    /// resume where they stopped.
    fn idempotent(&self, _args: &Self::Args) -> bool {
        false
    }

    /// Returns whether the run ends with this tool's result as its answer.
    fn return_direct(&self) -> bool {
        false
    }

    /// Returns the channels that its calls read and write. Every agent that has the tool gets these channels, including
    /// sub-agents that inherit it.
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }

    /// Returns whether the tool limits the size of its results itself, so that none has to be moved to a file. The
    /// limit is not checked.
    fn bounds_results(&self) -> bool {
        false
    }

    /// Makes the call.
    fn call(&self, args: Self::Args, cx: ToolContext) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// What a call touches. Determines which calls of a turn may overlap and which a resumed run may repeat.
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
    /// Changes these paths. Calls that touch the same path, or one below it, run in call order. A write without paths
    /// waits for every other write.
    Write {
        /// Absolute paths.
        paths: Vec<String>,
    },
    /// Changes something else: overlaps with everything and is not repeated.
    External,
}

impl Effect {
    /// Creates the effect of writing a single path.
    pub fn write(path: impl Into<String>) -> Self {
        Self::Write { paths: vec![path.into()] }
    }
}
