//! What an agent is made of.

use std::sync::Arc;

use super::{LiveThreads, Observers};
use crate::env::{Clock, Ids, RandomIds, SystemClock};
use crate::error::Result;
use crate::journal::Journal;
use crate::machine::Budget;
use crate::middleware::DynMiddleware;
use crate::model::{ChatModel, ModelSettings, NoModel, ProviderTool, SystemBlock, ToolSpec};
use crate::state::{Schema, State};
use crate::store::Store;
use crate::structured::ResponseFormat;
use crate::tool::ToolSet;

/// What an agent is made of.
#[derive(Clone)]
pub struct AgentDefinition {
    pub(crate) name: String,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) stack: Arc<[Arc<dyn DynMiddleware>]>,
    pub(crate) tools: ToolSet,
    pub(crate) provider_tools: Vec<Arc<ProviderTool>>,
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
    pub(crate) observers: Option<Observers>,
    /// The runs of its agents in the background.
    pub(crate) background: Arc<LiveThreads>,
}

impl AgentDefinition {
    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The model.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.model
    }

    /// The middlewares in their final order.
    pub fn middlewares(&self) -> impl Iterator<Item = &Arc<dyn DynMiddleware>> {
        self.stack.iter()
    }

    /// The tools that are always on offer, by name. Middlewares may [offer](crate::middleware::Middleware::offered_tools)
    /// more for a request.
    pub fn tools(&self) -> &[Arc<ToolSpec>] {
        self.tools.specs()
    }

    /// The static part of the system prompt.
    pub fn system(&self) -> &[SystemBlock] {
        &self.system
    }

    /// The channels of the state.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The same with a journal.
    pub(crate) fn on_journal(self: &Arc<Self>, journal: &Arc<dyn Journal>) -> Arc<Self> {
        Arc::new(Self { journal: Some(journal.clone()), ..(**self).clone() })
    }

    /// Nothing but channels of the library, for contexts without a run.
    pub(crate) fn empty() -> Self {
        Self {
            name: "agent".to_owned(),
            model: Arc::new(NoModel),
            stack: Arc::from([]),
            tools: ToolSet::default(),
            provider_tools: Vec::new(),
            system: Vec::new(),
            schema: State::default().schema().clone(),
            settings: ModelSettings::default(),
            format: None,
            max_model_calls: u32::MAX,
            budget: Budget::default(),
            journal: None,
            store: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            observers: None,
            background: Arc::default(),
        }
    }

    pub(crate) fn journal(&self) -> Result<&Arc<dyn Journal>> {
        self.journal.as_ref().ok_or_else(|| {
            crate::error::Error::Input(
                "threads need a journal; give the builder one with `.journal(...)`, such as `MemoryJournal`".to_owned(),
            )
        })
    }
}

impl std::fmt::Debug for AgentDefinition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.name)
            .field("model", &self.model.name())
            .field("middlewares", &self.stack.iter().map(|m| m.name()).collect::<Vec<_>>())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}
