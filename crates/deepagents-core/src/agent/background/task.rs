//! A single background agent, whichever process runs it.

use std::sync::Arc;
use std::time::Duration;

use super::{BackgroundError, BackgroundTasks};
use crate::agent::watch::POLL;
use crate::env::Timestamp;
use crate::error::Result;
use crate::event::{EventStream, Subscribe};
use crate::ids::{LogPosition, ThreadId};
use crate::interrupt::ActionRequest;
use crate::journal::{Claim, LogEntry, Record, RunStatus, ThreadInfo, load_replay};
use crate::machine::{BudgetState, Machine};
use crate::message::Message;
use crate::run::{AGENT, BudgetUsage, ERROR, Outcome, RunHandle, agent_of};
use crate::state::{Schema, State};
use crate::status::FinishReason;

/// Lease on a task's thread while its end is written.
const LEASE: Duration = Duration::from_secs(60);
/// A snapshot of a background agent, taken when it was looked up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundTask {
    /// Identifies the task within its conversation.
    pub id: String,
    /// The name by which the agent that started it knows its agent.
    pub agent: String,
    /// The task's thread.
    pub thread: ThreadId,
    /// The status of its last run.
    pub status: RunStatus,
    /// The owner that works on it, in this process or another. `None` if that process is known to be gone.
    pub owner: Option<String>,
    /// The end of its log.
    pub end: LogPosition,
    /// When the task was created.
    pub created_at: Timestamp,
    /// Why its last run failed, if known.
    pub error: Option<String>,
    tasks: BackgroundTasks,
}

/// The results of a background agent, read from its log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundReport {
    /// The task's state.
    pub state: State,
    /// How its last run ended, if it has ended. The inner value is `None` if that run failed.
    pub ended: Option<Option<Outcome>>,
    /// The open action requests, except those that have expired and count as rejected.
    pub action_requests: Vec<ActionRequest>,
    /// The total spent by all runs of the task.
    pub spent: BudgetUsage,
}

impl BackgroundTask {
    pub(super) fn new(tasks: &BackgroundTasks, info: ThreadInfo) -> Option<Self> {
        let text = |key: &str| info.metadata.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
        let id = info.id.strip_prefix(&tasks.parent)?.strip_prefix('/')?.to_owned();
        Some(Self {
            id,
            agent: text(AGENT)?,
            error: text(ERROR).filter(|_| info.status == RunStatus::Failed),
            owner: info.owner.clone().filter(|_| !tasks.agent.is_owner_gone(&info)),
            thread: info.id,
            status: info.status,
            end: info.end,
            created_at: info.created_at,
            tasks: tasks.clone(),
        })
    }

    /// Returns the handle of the task's run if it is in progress in this process, on this agent object.
    pub fn handle(&self) -> Option<RunHandle> {
        self.tasks.agent.background.get(&self.thread)
    }

    /// Returns whether the last run has not ended and no process works on it, because its process is gone.
    pub fn is_abandoned(&self) -> bool {
        self.status.is_claimable() && self.owner.is_none() && self.handle().is_none()
    }

    /// Returns the current status of the task.
    ///
    /// # Errors
    /// Returns [`BackgroundError::NotFound`] if the task was deleted.
    pub async fn refresh(&self) -> Result<Self, BackgroundError> {
        let found = self.tasks.get(&self.id).await?;
        found.ok_or_else(|| BackgroundError::NotFound { thread: self.thread.clone() })
    }

    /// Waits until the task's run has ended, which includes stopping to wait for a decision, and returns the outcome. A
    /// run in another process is polled.
    ///
    /// # Errors
    /// Returns [`BackgroundError::Failed`] if the run failed, and [`BackgroundError::NotRunning`] if it has not ended
    /// and no process runs it.
    pub async fn outcome(&self) -> Result<Outcome, BackgroundError> {
        if let Some(handle) = self.handle() {
            // The log says how the run ended, even if the run could not start.
            let _ = handle.outcome().await;
        }
        let now = self.wait_until(|_| false).await?;
        let schema = self.schema().await?;
        let ended = now.report(schema, None).await?.ended.flatten();
        ended.ok_or_else(|| BackgroundError::Failed {
            reason: now.error.clone().unwrap_or_else(|| "its run failed".to_owned()),
        })
    }

    /// Returns the schema of the task's agent, or else of the one that started it.
    async fn schema(&self) -> Result<Arc<Schema>> {
        let above = &self.tasks.agent;
        let agent = match &self.tasks.run {
            // The conversation's own agent and state are at hand.
            Some(cx) => above.stack.iter().find_map(|known| known.background_agent(&self.agent, cx.state())),
            // Threads that were opened without an agent: nothing knows the task's.
            None if above.stack.is_empty() => None,
            None => agent_of(above, &self.thread).await?,
        };
        Ok(agent.map_or_else(|| above.schema.clone(), |agent| agent.schema.clone()))
    }

    /// Waits until the task is as wanted or its run has ended, and returns its status then.
    async fn wait_until(&self, wanted: impl Fn(&Self) -> bool) -> Result<Self, BackgroundError> {
        let mut pause = POLL.0;
        loop {
            let now = self.refresh().await?;
            if wanted(&now) || !now.status.is_claimable() {
                return Ok(now);
            }
            if now.is_abandoned() {
                return Err(BackgroundError::NotRunning { thread: self.thread.clone() });
            }
            match self.handle() {
                Some(handle) => drop(tokio::time::timeout(pause, handle.outcome()).await),
                None => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// Waits for records from a position of the log onwards, and returns them. Returns an empty list if the run ended
    /// without adding any.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub async fn records(&self, from: LogPosition) -> Result<Vec<LogEntry>, BackgroundError> {
        let now = self.wait_until(|now| now.end > from).await?;
        Ok(self.tasks.journal.read(&self.thread, from..now.end.max(from)).await?)
    }

    /// Sends the task's model a message, as [`RunHandle::steer`] does.
    ///
    /// # Errors
    /// Returns an error if the task does not run in this process.
    pub fn steer(&self, message: impl Into<Message>) -> Result<(), BackgroundError> {
        let received = self.local_run()?.steer(message);
        received.then_some(()).ok_or_else(|| BackgroundError::NotRunning { thread: self.thread.clone() })
    }

    /// Subscribes to the events of the task's run.
    ///
    /// # Errors
    /// Returns an error if the task does not run in this process. Use [`records`](Self::records) to follow its log
    /// instead.
    pub fn subscribe(&self, from: Subscribe) -> Result<EventStream, BackgroundError> {
        Ok(self.local_run()?.subscribe(from))
    }

    fn local_run(&self) -> Result<RunHandle, BackgroundError> {
        let thread = || self.thread.clone();
        self.handle().ok_or_else(|| match &self.owner {
            Some(owner) => BackgroundError::Elsewhere { thread: thread(), owner: owner.clone() },
            None => BackgroundError::NotRunning { thread: thread() },
        })
    }

    /// Cancels the task and waits until its end is written. If no process runs the task, this writes its end. A no-op
    /// if the task has ended.
    ///
    /// # Errors
    /// Returns [`BackgroundError::Elsewhere`] if another process runs the task.
    pub async fn cancel(&self) -> Result<(), BackgroundError> {
        if let Some(handle) = self.handle() {
            handle.cancel();
            let _ = handle.outcome().await;
        }
        let now = self.refresh().await?;
        if matches!(now.status, RunStatus::Ended | RunStatus::Failed) {
            return Ok(());
        }
        let (journal, run) = (self.tasks.journal.clone(), self.tasks.agent.ids.next("run"));
        let lease = self.tasks.agent.claim(journal.clone(), &self.thread, Claim::new(run.as_str(), LEASE)).await?;
        let now = self.refresh().await?;
        let mut written = Ok(());
        if !matches!(now.status, RunStatus::Ended | RunStatus::Failed) {
            let end = Record::RunFinished { run, stop: Some(FinishReason::Cancelled) };
            written = journal.append(&self.thread, lease.fence(), now.end, vec![end]).await.map(drop);
        }
        // A lease that cannot be released expires.
        let _ = lease.release().await;
        Ok(written?)
    }

    /// Returns the task's results at a position of its log, by default the end, seen with the given channels.
    ///
    /// # Errors
    /// Returns [`NoState`](crate::journal::JournalError::NoState) if that position was pruned, and an error if the log
    /// cannot be read.
    pub async fn report(&self, schema: Arc<Schema>, at: Option<LogPosition>) -> Result<BackgroundReport> {
        let replay = load_replay(&*self.tasks.journal, &self.thread, schema, at).await?.replay;
        let budget_state = replay.machine.as_ref().and_then(Machine::budget_state);
        let spent = budget_state.map(BudgetState::total).unwrap_or_default();
        let (run, calls) = (replay.run.clone(), replay.machine.as_ref().map_or(0, Machine::calls));
        let state = replay.settled(&self.thread)?.state;
        let ended = run.and_then(|last| {
            let outcome = |stop| Outcome {
                stop,
                state: state.clone(),
                usage: spent.usage,
                usage_by_agent: [(self.agent.clone(), spent.usage)].into_iter().collect(),
                model_calls: calls,
                spent,
                thread: Some(self.thread.clone()),
                run: last.run.clone(),
            };
            last.ended.map(|stop| stop.map(outcome))
        });
        let now = self.tasks.agent.clock.now();
        let mut action_requests = state.action_requests();
        action_requests.retain(|open| !open.is_expired(now));
        Ok(BackgroundReport { state, ended, action_requests, spent })
    }
}
