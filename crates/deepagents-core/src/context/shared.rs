//! What all contexts of an agent's run share.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use tokio_util::sync::CancellationToken;

use super::{AgentDefinition, BudgetTracker, Emitter, Extensions, RunObserver};
use crate::ids::RunId;
use crate::journal::LogWriter;
use crate::message::HistoryVersion;
use crate::panics::lock;
use crate::state::Update;
use crate::tool::ToolSet;

/// Data shared by all contexts of an agent's run.
pub(crate) struct Shared {
    pub(crate) agent: Arc<AgentDefinition>,
    pub(crate) run: RunId,
    pub(crate) thread: Option<String>,
    pub(crate) path: Arc<[String]>,
    pub(crate) events: Emitter,
    pub(crate) cancel: CancellationToken,
    pub(crate) budget: Arc<BudgetTracker>,
    /// Maximum number of model calls of each agent of the run, if its input has one.
    pub(crate) agent_calls: Option<u32>,
    /// The maximum that the input of the run had in an earlier process.
    pub(crate) earlier_agent_calls: OnceLock<u32>,
    pub(crate) extensions: Extensions,
    pub(crate) observer: Option<Arc<dyn RunObserver>>,
    /// The next attempt of the current turn, which distinguishes the pieces of failed attempts.
    pub(crate) attempt: AtomicU32,
    /// The attempts of the current turn of which text was streamed.
    pub(crate) streamed_attempts: Mutex<BTreeSet<u32>>,
    /// The message ids of the current turn's answers.
    pub(crate) answer_id: Mutex<AnswerId>,
    /// Writes to the run's thread, once it is open.
    pub(crate) log: OnceLock<LogWriter>,
    /// The main agent, if this is a sub-agent.
    pub(crate) root: Option<Arc<Shared>>,
    /// The tools of the last request.
    pub(crate) tools: Mutex<ToolSet>,
    /// The last history that passed validation for providers.
    pub(crate) passed: Mutex<Option<HistoryVersion>>,
    /// Updates queued by the wrap hooks of the current model call.
    pub(crate) queued_updates: Mutex<Update>,
}

impl Shared {
    /// Creates the data of a run of the main agent without a thread, which nobody observes.
    pub(crate) fn new(
        agent: Arc<AgentDefinition>,
        run: RunId,
        events: Emitter,
        cancel: CancellationToken,
        budget: Arc<BudgetTracker>,
    ) -> Self {
        Self {
            tools: Mutex::new(agent.tools.clone()),
            agent,
            run,
            thread: None,
            path: Arc::from([]),
            events,
            cancel,
            budget,
            agent_calls: None,
            earlier_agent_calls: OnceLock::new(),
            extensions: Extensions::default(),
            observer: None,
            attempt: AtomicU32::new(0),
            streamed_attempts: Mutex::default(),
            answer_id: Mutex::default(),
            log: OnceLock::new(),
            root: None,
            passed: Mutex::default(),
            queued_updates: Mutex::default(),
        }
    }

    /// Returns the maximum number of model calls of each agent that the run starts.
    pub(crate) fn calls_of_started_agents(&self) -> Option<u32> {
        let main = self.root.as_deref().unwrap_or(self);
        self.agent_calls.or_else(|| main.earlier_agent_calls.get().copied())
    }

    /// Returns the id of the answer in progress, or of the next one.
    pub(crate) fn answer_id(&self) -> String {
        let ids = lock(&self.answer_id);
        ids.of(ids.attempt)
    }

    /// Returns the id of an attempt's answer.
    pub(crate) fn answer_id_of(&self, attempt: u32) -> String {
        lock(&self.answer_id).of(attempt)
    }

    /// Sets the id of the next answer at the start of a turn.
    pub(crate) fn set_answer_id(&self, first: String) {
        *lock(&self.answer_id) = AnswerId { first, attempt: 0 };
    }

    /// Sets the current attempt, and returns the id of its answer.
    pub(crate) fn set_answering(&self, attempt: u32) -> String {
        let mut ids = lock(&self.answer_id);
        ids.attempt = attempt;
        ids.of(attempt)
    }

    /// Takes the updates queued by the wrap hooks of the model call that has ended.
    pub(crate) fn take_queued_updates(&self) -> Update {
        std::mem::take(&mut *lock(&self.queued_updates))
    }
}

/// The message ids of a turn's answers. Each attempt has its own, so that clients that join pieces by message id do not
/// mix attempts.
#[derive(Debug, Default)]
pub(crate) struct AnswerId {
    first: String,
    attempt: u32,
}

impl AnswerId {
    fn of(&self, attempt: u32) -> String {
        match attempt {
            0 => self.first.clone(),
            more => format!("{}-{}", self.first, more.saturating_add(1)),
        }
    }
}
