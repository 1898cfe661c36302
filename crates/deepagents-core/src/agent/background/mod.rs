//! Agents in the background: runs that nobody waits for, on threads of their own below that of the run that started
//! them. They outlive it, and the process.

mod error;
mod task;

use std::sync::{Arc, atomic::AtomicU32};

use tokio_util::sync::CancellationToken;

use super::{Agent, ThreadAccess};
use crate::context::{AgentDefinition, Context, Emitter, Shared};
use crate::error::Result;
use crate::ids::ThreadId;
use crate::interrupt::forget_asked;
use crate::journal::{Journal, RunStatus, ThreadQuery};
use crate::run::{BudgetUsage, NewThread, Run, RunHandle, RunInput};
use crate::state::State;
use crate::tool::ToolContext;

pub use error::BackgroundError;
pub use task::{BackgroundReport, BackgroundTask};

/// The agents in the background of one conversation. What each does is in the log of a thread of its own, `PARENT/ID`:
/// in the journal of the conversation's thread or, without one, in memory.
///
/// ```no_run
/// # async fn f(
/// #     agent: deepagents_core::agent::Agent,
/// #     cx: deepagents_core::tool::ToolContext,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use deepagents_core::agent::NewTask;
///
/// let state = cx.state().fork(agent.schema().clone())?;
/// let task = NewTask { id: "errand".into(), name: "runner".into(), agent, state, input: "Fetch the news.".into() };
/// println!("{}", cx.background().start(task, 4)?.outcome().await?.text());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct BackgroundTasks {
    /// The agent that has started them.
    agent: Arc<AgentDefinition>,
    journal: Arc<dyn Journal>,
    parent: ThreadId,
    /// The run that attends to them, if one does.
    run: Option<Context>,
}

/// What an agent in the background is to do.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Names it among those of the conversation, and its thread.
    pub id: String,
    /// The name under which the agent that starts it [knows it](crate::middleware::Middleware::background_agent).
    pub name: String,
    /// The agent.
    pub agent: Agent,
    /// What it begins with, such as [`State::fork`] makes.
    pub state: State,
    /// What it is given; a thread and an [observer](crate::run::RunObserver) have no part in it.
    pub input: RunInput,
}

impl Agent {
    /// The agents in the background of a thread, in order of their beginning, whichever process runs them.
    ///
    /// # Errors
    /// When the agent has no journal or it cannot be read.
    pub async fn background(&self, thread: &str) -> Result<Vec<BackgroundTask>> {
        let (agent, journal) = (self.definition.clone(), self.definition.journal()?.clone());
        BackgroundTasks { agent, journal, parent: thread.to_owned(), run: None }.list().await
    }
}

impl ThreadAccess {
    /// The agents in the background of a thread, in order of their beginning, whichever process runs them.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn background(&self, thread: &str) -> Result<Vec<BackgroundTask>> {
        let journal = self.journal.clone();
        let definition = AgentDefinition {
            journal: Some(journal.clone()),
            schema: self.schema.clone(),
            clock: self.clock.clone(),
            ..AgentDefinition::empty()
        };
        let tasks = BackgroundTasks { agent: Arc::new(definition), journal, parent: thread.to_owned(), run: None };
        tasks.list().await
    }
}

impl Context {
    /// The agents in the background of this conversation. What they spend is bound by the budget of the run that starts
    /// or resumes them, and their events are events of that run too while it is under way.
    pub fn background(&self) -> BackgroundTasks {
        let agent = self.shared.agent.clone();
        let (journal, parent) = match (&agent.journal, self.thread()) {
            (Some(journal), Some(thread)) => (journal.clone(), thread.to_owned()),
            _ => (agent.background.private() as Arc<dyn Journal>, self.run_id().to_owned()),
        };
        BackgroundTasks { agent, journal, parent, run: Some(self.clone()) }
    }
}

impl BackgroundTasks {
    /// Whether they are kept in memory, since the conversation has no thread.
    pub fn is_private(&self) -> bool {
        self.run.as_ref().is_some_and(|cx| cx.thread().is_none())
    }

    /// The thread of a task.
    pub fn thread(&self, id: &str) -> ThreadId {
        format!("{}/{id}", self.parent)
    }

    /// All there are, in order of their beginning.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn list(&self) -> Result<Vec<BackgroundTask>> {
        let query = ThreadQuery::default().parent(self.parent.as_str());
        let infos = self.journal.threads().list(&query).await?;
        let mut tasks: Vec<_> = infos.into_iter().filter_map(|info| BackgroundTask::new(self, info)).collect();
        tasks.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(tasks)
    }

    /// One of them, if there is one.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn get(&self, id: &str) -> Result<Option<BackgroundTask>> {
        let info = self.journal.threads().get(&self.thread(id)).await?;
        Ok(info.and_then(|info| BackgroundTask::new(self, info)))
    }

    /// Those that run in this process.
    pub fn running(&self) -> Vec<String> {
        let prefix = self.parent.len() + 1;
        let threads = self.agent.background.below(&self.parent);
        threads.iter().filter_map(|thread| thread.get(prefix..)).map(str::to_owned).collect()
    }

    /// Starts a task on a thread of its own, unless it has one and runs already. It belongs to the agent object: it stops
    /// where it is when that is dropped, and goes on where it is resumed.
    ///
    /// # Errors
    /// [`BackgroundError::TooMany`] when not fewer than `limit` run here.
    pub fn start(&self, task: NewTask, limit: usize) -> Result<RunHandle, BackgroundError> {
        let NewTask { id, name, agent, mut state, input } = task;
        forget_asked(&mut state).map_err(crate::error::Error::from)?;
        let above = self.run.as_ref().map(|cx| cx.path()).unwrap_or_default();
        let path = above.iter().cloned().chain([id.clone()]).collect();
        let new = NewThread { parent: self.parent.clone(), agent: name, label: id.clone(), path, state };
        self.launch(&id, &agent, input, Some(new), limit)
    }

    /// Runs a task that has a thread again: with more to do, or [resumed](RunInput::resume) with what is `input`'s.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn run(&self, id: &str, agent: &Agent, input: RunInput, limit: usize) -> Result<RunHandle, BackgroundError> {
        self.launch(id, agent, input, None, limit)
    }

    fn launch(
        &self,
        id: &str,
        agent: &Agent,
        mut input: RunInput,
        new: Option<NewThread>,
        limit: usize,
    ) -> Result<RunHandle, BackgroundError> {
        let thread = self.thread(id);
        let definition = agent.definition.below(&self.agent, &self.journal);
        (input.thread, input.observer) = (Some(thread.clone()), None);
        if let Some(cx) = &self.run {
            input = input.with_extensions_of(cx);
        }
        let (live, ended) = (Arc::downgrade(&self.agent.background), thread.clone());
        let forget = move || {
            if let Some(live) = live.upgrade() {
                live.forget_finished(&ended);
            }
        };
        let start = || Run::start_beside(definition, input, self.run.as_ref(), new, forget).detach();
        let started = self.agent.background.start(&self.parent, &thread, limit, start);
        started.map_err(|running| BackgroundError::TooMany { running })
    }

    /// Makes the events of tasks that run here events of the run that attends to them.
    pub fn follow(&self) {
        let Some(cx) = &self.run else { return };
        for thread in self.agent.background.below(&self.parent) {
            if let Some(handle) = self.agent.background.get::<RunHandle>(&thread) {
                handle.forward_to(cx);
            }
        }
    }

    /// Counts as spent by the run that attends to them what a task has spent and no run has counted.
    pub fn count(&self, task: &BackgroundTask, spent: &BudgetUsage) {
        if let Some(cx) = &self.run {
            cx.shared.budget.take_over(&task.thread, &task.agent, spent);
        }
    }

    /// Deletes the thread of a task, of this conversation or another, with all it has.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn delete(&self, thread: &str) -> Result<()> {
        if !self.agent.background.private().threads().delete(thread).await? {
            self.journal.threads().delete(thread).await?;
        }
        Ok(())
    }

    /// Whether the last run of a task has ended, of this conversation or another.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn has_ended(&self, thread: &str) -> Result<bool> {
        let info = match self.agent.background.private().threads().get(thread).await? {
            Some(info) => Some(info),
            None => self.journal.threads().get(thread).await?,
        };
        Ok(info.is_none_or(|info| matches!(info.status, RunStatus::Ended | RunStatus::Failed)))
    }
}

impl std::fmt::Debug for BackgroundTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundTasks").field("parent", &self.parent).finish_non_exhaustive()
    }
}

impl ToolContext {
    /// The same for work that goes on when the run has ended: it emits no events, and only `cancel` cancels it. Nobody
    /// answers what it asks.
    #[must_use]
    pub fn beside(&self, cancel: CancellationToken) -> Self {
        let shared = &self.context().shared;
        let mut cx = self.context().clone();
        cx.shared = Arc::new(Shared {
            agent: shared.agent.clone(),
            run: shared.run.clone(),
            thread: shared.thread.clone(),
            path: shared.path.clone(),
            events: Emitter::silent(shared.run.clone()),
            cancel,
            budget: shared.budget.clone(),
            extensions: shared.extensions.clone(),
            observer: None,
            attempt: AtomicU32::new(0),
            streamed_attempts: std::sync::Mutex::default(),
            answer_id: std::sync::Mutex::default(),
            tools: std::sync::Mutex::new(cx.tools.clone()),
            passed: std::sync::Mutex::new(None),
            kept: std::sync::Mutex::default(),
            log: std::sync::OnceLock::new(),
            root: None,
        });
        self.in_context(cx)
    }
}
