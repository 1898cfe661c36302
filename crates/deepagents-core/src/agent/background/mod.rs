//! Background agents: runs that nothing waits for. Each has its own thread, a child of the thread of the run that
//! started it. They outlive that run and the process.

mod error;
mod task;

use std::sync::{Arc, Mutex};

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

/// The background agents of one conversation. Each logs to its own thread, `PARENT/ID`, in the journal of the
/// conversation's thread, or in memory if the conversation has no thread.
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
    /// The agent that started them.
    agent: Arc<AgentDefinition>,
    journal: Arc<dyn Journal>,
    parent: ThreadId,
    /// The run that supervises them, if any.
    run: Option<Context>,
}

/// A task for a background agent.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Identifies the task within its conversation, and its thread.
    pub id: String,
    /// The name by which the starting agent [looks it up](crate::middleware::Middleware::background_agent).
    pub name: String,
    /// The agent that runs the task.
    pub agent: Agent,
    /// The initial state, for example from [`State::fork`].
    pub state: State,
    /// The input. Its thread and its [observer](crate::run::RunObserver) are ignored.
    pub input: RunInput,
}

impl Agent {
    /// Lists the background agents of a thread in order of creation, whichever process runs them.
    ///
    /// # Errors
    /// Returns an error if the agent has no journal or the journal cannot be read.
    pub async fn background(&self, thread: &str) -> Result<Vec<BackgroundTask>> {
        let (agent, journal) = (self.definition.clone(), self.definition.journal()?.clone());
        BackgroundTasks { agent, journal, parent: thread.to_owned(), run: None }.list().await
    }
}

impl ThreadAccess {
    /// Lists the background agents of a thread in order of creation, whichever process runs them. The state of an
    /// [outcome](BackgroundTask::outcome) is seen with the channels of the task's agent if these are the threads of an
    /// [agent](Agent::threads), and otherwise with those that were [given](Self::new).
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub async fn background(&self, thread: &str) -> Result<Vec<BackgroundTask>> {
        let journal = self.journal.clone();
        let definition = AgentDefinition {
            journal: Some(journal.clone()),
            schema: self.schema.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            process: self.process.clone(),
            stack: self.stack.clone(),
            ..AgentDefinition::default()
        };
        let tasks = BackgroundTasks { agent: Arc::new(definition), journal, parent: thread.to_owned(), run: None };
        tasks.list().await
    }
}

impl Context {
    /// Returns the background agents of this conversation. The budget of the run that starts or resumes them limits
    /// what they spend. While that run is in progress, it forwards their events.
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
    /// Returns whether the tasks are held in memory only, because the conversation has no thread.
    pub fn is_private(&self) -> bool {
        self.run.as_ref().is_some_and(|cx| cx.thread().is_none())
    }

    /// Returns the thread of a task.
    pub fn thread(&self, id: &str) -> ThreadId {
        format!("{}/{id}", self.parent)
    }

    /// Lists all tasks in order of creation.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub async fn list(&self) -> Result<Vec<BackgroundTask>> {
        let query = ThreadQuery::default().parent(self.parent.as_str());
        let infos = self.journal.threads().list(&query).await?;
        let mut tasks: Vec<_> = infos.into_iter().filter_map(|info| BackgroundTask::new(self, info)).collect();
        tasks.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(tasks)
    }

    /// Returns the task with this id, if there is one.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub async fn get(&self, id: &str) -> Result<Option<BackgroundTask>> {
        let info = self.journal.threads().get(&self.thread(id)).await?;
        Ok(info.and_then(|info| BackgroundTask::new(self, info)))
    }

    /// Returns the ids of the tasks that run in this process.
    pub fn running(&self) -> Vec<String> {
        let prefix = self.parent.len() + 1;
        let threads = self.agent.background.below(&self.parent);
        threads.iter().filter_map(|thread| thread.get(prefix..)).map(str::to_owned).collect()
    }

    /// Starts a task on its own new thread, or returns the handle of the task if it is already running. The task
    /// belongs to the agent object: it is aborted when the agent is dropped, and can be resumed later.
    ///
    /// # Errors
    /// Returns [`BackgroundError::TooMany`] if `limit` or more tasks run in this process.
    pub fn start(&self, task: NewTask, limit: usize) -> Result<RunHandle, BackgroundError> {
        let NewTask { id, name, agent, mut state, input } = task;
        forget_asked(&mut state).map_err(crate::error::Error::from)?;
        let above = self.run.as_ref().map(|cx| cx.path()).unwrap_or_default();
        let path = above.iter().cloned().chain([id.clone()]).collect();
        let new = NewThread { parent: self.parent.clone(), agent: name, label: id.clone(), path, state };
        self.launch(&id, &agent, input, Some(new), limit)
    }

    /// Runs a task that already has a thread: with further messages, or [resumed](RunInput::resume), as `input` says.
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
        let forget = self.agent.background.forget_finished(&thread);
        let make = || {
            let (run, task) = Run::prepare_with_parent(definition, input, self.run.as_ref(), new, forget);
            (run.detach(), || task.spawn())
        };
        let started = self.agent.background.start(&self.parent, &thread, limit, make);
        started.map_err(|running| BackgroundError::TooMany { running })
    }

    /// Forwards the events of the tasks running in this process to the supervising run.
    pub fn follow(&self) {
        let Some(cx) = &self.run else { return };
        for thread in self.agent.background.below(&self.parent) {
            if let Some(handle) = self.agent.background.get::<RunHandle>(&thread) {
                handle.forward_to(cx);
            }
        }
    }

    /// Charges the supervising run with what a task has spent and no run has counted yet.
    pub fn count(&self, task: &BackgroundTask, spent: &BudgetUsage) {
        if let Some(cx) = &self.run {
            cx.shared.budget.take_over(&task.thread, &task.agent, spent);
        }
    }

    /// Deletes the thread of a task, of this conversation or another, with all its data.
    ///
    /// # Errors
    /// Returns an error if the journal fails.
    pub async fn delete(&self, thread: &str) -> Result<()> {
        if !self.agent.background.private().threads().delete(thread).await? {
            self.journal.threads().delete(thread).await?;
        }
        Ok(())
    }

    /// Returns whether the last run of a task has ended. The task may belong to another conversation.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
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
    /// Returns a copy of this context for work that outlives the run: it emits no events, and only `cancel` cancels it.
    /// Its interrupts are never answered.
    #[must_use]
    pub fn detached(&self, cancel: CancellationToken) -> Self {
        let shared = &self.context().shared;
        let mut cx = self.context().clone();
        let (run, events) = (shared.run.clone(), Emitter::silent(shared.run.clone()));
        cx.shared = Arc::new(Shared {
            thread: shared.thread.clone(),
            path: shared.path.clone(),
            extensions: shared.extensions.clone(),
            tools: Mutex::new(cx.tools.clone()),
            ..Shared::new(shared.agent.clone(), run, events, cancel, shared.budget.clone())
        });
        self.in_context(cx)
    }
}
