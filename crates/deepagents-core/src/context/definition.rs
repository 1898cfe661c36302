//! What an agent is made of.

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
use crate::state::{Schema, State};
use crate::store::Store;
use crate::structured::ResponseFormat;
use crate::tool::ToolSet;

/// What an agent is made of.
#[derive(Clone)]
pub struct AgentDefinition {
    pub(crate) name: String,
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
    /// The process that works on its threads.
    pub(crate) process: Option<Arc<dyn ProcessIdentity>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) observers: Option<Observers>,
    /// The runs of its agents in the background.
    pub(crate) background: Arc<LiveThreads>,
}

impl AgentDefinition {
    /// A message from outside as the middlewares let it in.
    pub(crate) fn received(&self, message: Message) -> Result<Message> {
        self.through("receive_message", message, |middleware, message| middleware.receive_message(message))
    }

    /// A text from outside as the middlewares let it in.
    pub(crate) fn received_text(&self, text: String) -> Result<String> {
        self.through("receive_text", text, |middleware, text| middleware.receive_text(text))
    }

    /// A decision whose words are as the middlewares let them in. What a person has made of a call is made as they say.
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
            receive(&**middleware, given).map_err(|source| Error::Hook {
                middleware: middleware.name().to_owned(),
                hook,
                source: Box::new(source),
            })
        })
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the agent is for, where that was said.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
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

    /// The tool by which the model gives an answer in a shape, where it is asked for one so. It is no tool that is called.
    pub fn answer_tool(&self) -> Option<&str> {
        self.format.as_ref().filter(|format| format.by_tool(&self.model.profile())).map(ResponseFormat::name)
    }

    /// The static part of the system prompt.
    pub fn system(&self) -> &[SystemBlock] {
        &self.system
    }

    /// The channels of the state.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The process that works on the agent's threads, as others know it.
    pub fn process(&self) -> Option<&Arc<dyn ProcessIdentity>> {
        self.process.as_ref()
    }

    /// The same with a journal, for threads below those of another agent.
    pub(crate) fn below(self: &Arc<Self>, other: &Self, journal: &Arc<dyn Journal>) -> Arc<Self> {
        let process = other.process.clone().or_else(|| self.process.clone());
        Arc::new(Self { journal: Some(journal.clone()), process, ..(**self).clone() })
    }

    /// Whether the owner of a thread is known to be gone, by the [process](crate::journal::ProcessIdentity) of the agent: a run
    /// takes the thread from it though its lease lasts.
    pub fn is_owner_gone(&self, thread: &ThreadInfo) -> bool {
        thread.is_noted_by_owner() && self.process.as_ref().is_some_and(|process| process.is_gone(thread))
    }

    /// Claims a thread, also from an owner that is known to be gone.
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
            // Not from somebody who has come in between.
            Some(owner) => Lease::claim(journal, thread, claim.take_over_from(TakeOver::From(owner))).await,
            None => Err(busy),
        }
    }

    /// Nothing but channels of the library, for contexts without a run.
    pub(crate) fn empty() -> Self {
        Self {
            name: "agent".to_owned(),
            description: None,
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
            process: None,
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
