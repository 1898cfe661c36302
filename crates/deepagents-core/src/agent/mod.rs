//! Agents: a model, tools and middlewares, built once and run any number of times.

mod builder;
mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::{Clock, Ids};
use crate::error::Result;
use crate::journal::Journal;
use crate::middleware::DynMiddleware;
use crate::model::{ChatModel, ModelSettings, SystemBlock};
use crate::run::{Budget, Outcome, Run, RunError, RunInput};
use crate::state::Schema;
use crate::store::Store;
use crate::structured::ResponseFormat;
use crate::tool::{DynTool, ToolSpec};

pub use builder::{AgentBuilder, AgentOptions, BuildError};
pub use threads::{Rewinding, Rewound};

/// An agent. Cloning it costs a reference count; any number of runs share one.
///
/// This is the bare loop: see the `deepagents` crate for the one with planning, files and the rest.
#[derive(Clone)]
pub struct Agent {
    pub(crate) parts: Arc<AgentParts>,
}

/// What an agent is made of.
pub(crate) struct AgentParts {
    pub(crate) name: String,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) stack: Arc<[Arc<dyn DynMiddleware>]>,
    pub(crate) tools: BTreeMap<String, Arc<dyn DynTool>>,
    /// By name, so that the prefix sent to a model is the same from run to run.
    pub(crate) specs: Vec<Arc<ToolSpec>>,
    pub(crate) system: Vec<SystemBlock>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) settings: ModelSettings,
    pub(crate) format: Option<ResponseFormat>,
    pub(crate) max_model_calls: u32,
    pub(crate) budget: Budget,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
}

impl Agent {
    /// Begins an agent on a model.
    pub fn builder(model: impl ChatModel) -> AgentBuilder {
        AgentBuilder::new(Arc::new(model))
    }

    /// Starts a run on the current Tokio runtime. Dropping the handle cancels it.
    pub fn run(&self, input: impl Into<RunInput>) -> Run {
        Run::start(self.clone(), input.into())
    }

    /// Runs to the end, without events. Dropping the future stops the run where it is.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub async fn invoke(&self, input: impl Into<RunInput>) -> Result<Outcome, Box<RunError>> {
        Run::drive_silently(self.clone(), input.into()).await
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// The model.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.parts.model
    }

    /// The middlewares in their final order.
    pub fn middlewares(&self) -> impl Iterator<Item = &Arc<dyn DynMiddleware>> {
        self.parts.stack.iter()
    }

    /// The tools on offer, by name.
    pub fn tools(&self) -> &[Arc<ToolSpec>] {
        &self.parts.specs
    }

    /// The static part of the system prompt.
    pub fn system(&self) -> &[SystemBlock] {
        &self.parts.system
    }

    /// The channels of the state.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.parts.schema
    }
}

impl AgentParts {
    pub(crate) fn journal(&self) -> Result<&Arc<dyn Journal>> {
        self.journal.as_ref().ok_or_else(|| {
            crate::error::Error::Input(
                "threads need a journal; give the builder one with `.journal(...)`, such as `MemoryJournal`".to_owned(),
            )
        })
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.parts.name)
            .field("model", &self.parts.model.name())
            .field("middlewares", &self.parts.stack.iter().map(|m| m.name()).collect::<Vec<_>>())
            .field("tools", &self.parts.tools.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
