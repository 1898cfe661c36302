//! The definition of an agent.

use std::sync::Arc;

use super::{LiveThreads, Observers};
use crate::env::{Clock, Ids, RandomIds, SystemClock};
use crate::error::{Error, Result};
use crate::interrupt::{Decision, DecisionRecord};
use crate::journal::{Claim, Journal, JournalError, Lease, ProcessIdentity, TakeOver, ThreadInfo};
use crate::machine::Budget;
use crate::message::Message;
use crate::middleware::DynMiddleware;
use crate::model::{ChatModel, ModelSettings, NoModel, ProviderTool, SystemBlock, ToolSpec};
use crate::panics::caught;
use crate::state::{Schema, State};
use crate::store::Store;
use crate::structured::ResponseFormat;
use crate::tool::ToolSet;

/// Default limit of model calls per run.
pub(crate) const MAX_MODEL_CALLS: u32 = 9_999;

/// The components and options of an agent.
#[derive(Clone)]
pub struct AgentDefinition {
    pub(crate) name: String,
    /// The name with which answers are marked; `None` if nobody gave one.
    pub(crate) given_name: Option<String>,
    pub(crate) description: Option<Arc<str>>,
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
    /// Identifies the process that works on its threads.
    pub(crate) process: Option<Arc<dyn ProcessIdentity>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) observers: Option<Observers>,
    /// The runs of its background agents.
    pub(crate) background: Arc<LiveThreads>,
}

impl AgentDefinition {
    /// Passes a message from outside through the middlewares.
    pub(crate) fn received(&self, message: Message) -> Result<Message> {
        self.through("receive_message", message, |middleware, message| middleware.receive_message(message))
    }

    /// Passes a text from outside through the middlewares.
    pub(crate) fn received_text(&self, text: String) -> Result<String> {
        self.through("receive_text", text, |middleware, text| middleware.receive_text(text))
    }

    /// Passes the text of a decision through the middlewares. A person's edit of a call is not changed.
    pub(crate) fn received_decision(&self, mut decided: DecisionRecord) -> Result<DecisionRecord> {
        if let Decision::Reject { message: Some(said) } | Decision::Respond { message: said } = &mut decided.decision {
            *said = self.received_text(std::mem::take(said))?;
        }
        Ok(decided)
    }

    fn through<T>(
        &self,
        hook: &'static str,
        given: T,
        receive: impl Fn(&dyn DynMiddleware, T) -> Result<T>,
    ) -> Result<T> {
        self.stack.iter().try_fold(given, |given, middleware| {
            let received =
                caught(|| receive(&**middleware, given)).unwrap_or_else(|panic| Err(Error::panicked(&panic)));
            received.map_err(|error| error.in_hook(middleware.name(), hook))
        })
    }

    /// Returns the agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the agent's purpose, if set.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the model.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.model
    }

    /// Returns the middlewares in their final order.
    pub fn middlewares(&self) -> impl Iterator<Item = &Arc<dyn DynMiddleware>> {
        self.stack.iter()
    }

    /// Returns the tools that are always offered, sorted by name. Middlewares may
    /// [offer](crate::middleware::Middleware::offered_tools) more per request.
    pub fn tools(&self) -> &[Arc<ToolSpec>] {
        self.tools.specs()
    }

    /// Returns the name of the tool through which the model gives a structured answer, if it is requested in that way.
    /// This tool is never actually called.
    pub fn answer_tool(&self) -> Option<&str> {
        self.format.as_ref().filter(|format| format.by_tool(&self.model.profile())).map(ResponseFormat::name)
    }

    /// Returns the static part of the system prompt.
    pub fn system(&self) -> &[SystemBlock] {
        &self.system
    }

    /// Returns the channels of the state.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the identity of the process that works on the agent's threads.
    pub fn process(&self) -> Option<&Arc<dyn ProcessIdentity>> {
        self.process.as_ref()
    }

    /// Returns a copy with a journal, for threads below those of another agent.
    pub(crate) fn below(self: &Arc<Self>, other: &Self, journal: &Arc<dyn Journal>) -> Arc<Self> {
        let process = other.process.clone().or_else(|| self.process.clone());
        Arc::new(Self { journal: Some(journal.clone()), process, ..(**self).clone() })
    }

    /// Returns whether the owner of a thread is known to be gone, according to the agent's [process
    /// identity](crate::journal::ProcessIdentity). A run may then take over the thread although the lease is still
    /// valid.
    pub fn is_owner_gone(&self, thread: &ThreadInfo) -> bool {
        thread.is_noted_by_owner() && self.process.as_ref().is_some_and(|process| process.is_gone(thread))
    }

    /// Claims a thread, taking it over if its owner is known to be gone.
    pub(crate) async fn claim(
        &self,
        journal: Arc<dyn Journal>,
        thread: &str,
        claim: Claim,
    ) -> Result<Lease, JournalError> {
        let busy = match Lease::claim(journal.clone(), thread, claim.clone()).await {
            Err(busy @ JournalError::Busy { .. }) if self.process.is_some() => busy,
            claimed => return claimed,
        };
        let found = journal.threads().get(thread).await?.filter(|info| self.is_owner_gone(info));
        match found.and_then(|info| info.owner) {
            // Do not take it from an owner that has come in between.
            Some(owner) => Lease::claim(journal, thread, claim.take_over_from(TakeOver::From(owner))).await,
            None => Err(busy),
        }
    }

    pub(crate) fn journal(&self) -> Result<&Arc<dyn Journal>> {
        self.journal.as_ref().ok_or_else(|| {
            Error::Input(
                "threads need a journal; give the builder one with `.journal(...)`, such as `MemoryJournal`".to_owned(),
            )
        })
    }
}

impl Default for AgentDefinition {
    /// Creates the definition of an agent without a model, with only the conversation as its state.
    fn default() -> Self {
        Self {
            name: "agent".to_owned(),
            given_name: None,
            description: None,
            model: Arc::new(NoModel),
            stack: Arc::from([]),
            tools: ToolSet::default(),
            provider_tools: Vec::new(),
            system: Vec::new(),
            schema: State::default().schema().clone(),
            settings: ModelSettings::default(),
            format: None,
            max_model_calls: MAX_MODEL_CALLS,
            budget: Budget::default(),
            journal: None,
            process: None,
            store: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            observers: None,
            background: Arc::default(),
        }
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
