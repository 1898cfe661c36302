//! What may be started in the background.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::run::RunInput;
use deepagents_core::state::State;
use deepagents_core::tool::{ToolContext, ToolError, ToolOutput};
use futures_util::future::BoxFuture;

use crate::roster::Named;

type Begin = dyn Fn(String, &ToolContext) -> Result<(State, RunInput), ToolError> + Send + Sync;
type Call = dyn Fn(String, ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// An agent, or a closure, that may be started in the background.
#[derive(Clone)]
pub struct BackgroundAgent {
    pub(super) name: Arc<str>,
    description: Arc<str>,
    pub(super) work: Way,
}

/// How the work is done.
#[derive(Clone)]
pub(super) enum Way {
    Agent { agent: Agent, begin: Arc<Begin> },
    Call(Arc<Call>),
}

impl BackgroundAgent {
    /// An agent that sees its task alone. It keeps no thread.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>, agent: Agent) -> Self {
        let schema = agent.schema().clone();
        Self::begun(name, description, agent, move |task, cx| {
            Ok((cx.state().fork(schema.clone())?, RunInput::new(task.as_str())))
        })
    }

    /// An agent that begins with what `begin` makes of the task.
    pub(crate) fn begun(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        agent: Agent,
        begin: impl Fn(String, &ToolContext) -> Result<(State, RunInput), ToolError> + Send + Sync + 'static,
    ) -> Self {
        let work = Way::Agent { agent, begin: Arc::new(begin) };
        Self { name: name.into(), description: description.into(), work }
    }

    /// A closure that is given the task. It hears nothing while it works, nobody answers what it asks, and once it has
    /// ended there is nothing to go on with.
    pub fn call<F, Fut>(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>, run: F) -> Self
    where
        F: Fn(String, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let work = Way::Call(Arc::new(move |task, cx| Box::pin(run(task, cx))));
        Self { name: name.into(), description: description.into(), work }
    }
}

impl Named for BackgroundAgent {
    fn name(&self) -> &str {
        &self.name
    }
    fn description(&self) -> &str {
        &self.description
    }
}

impl fmt::Debug for BackgroundAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundAgent").field("name", &self.name).finish_non_exhaustive()
    }
}
