//! A placeholder model.

use futures_core::stream::BoxStream;
use futures_util::stream;

use super::{ChatModel, ModelError, ModelEvent, ModelRequest};

/// A placeholder for agents that make no model calls: such an agent can read threads, call tools directly and be
/// explained. A run of it fails at its first request.
///
/// ```
/// use deepagents_core::agent::Agent;
/// use deepagents_core::model::NoModel;
/// let agent = Agent::builder(NoModel).build()?;
/// assert_eq!(agent.model().name(), "none");
/// # Ok::<(), deepagents_core::agent::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModel;

impl ChatModel for NoModel {
    fn name(&self) -> &str {
        "none"
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let what = "the agent was built without a model; build it with one to run it";
        Box::pin(stream::iter([Err(ModelError::invalid(what))]))
    }
}
