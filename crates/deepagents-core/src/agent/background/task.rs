//! One agent in the background, whichever process runs it.

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

/// How long the thread of a task may be owned while its end is written.
const LEASE: Duration = Duration::from_secs(60);
/// An agent in the background as it was when its conversation was asked for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundTask {
    /// Names it among those of the conversation.
    pub id: String,
    /// The name by which the agent that started it knows the agent.
    pub agent: String,
    /// Its thread.
    pub thread: ThreadId,
    /// How its last run stands.
    pub status: RunStatus,
    /// Who works on it, in this process or another; none where the process is known to be gone.
    pub owner: Option<String>,
    /// Where its log ends.
    pub end: LogPosition,
    /// When it began.
    pub created_at: Timestamp,
    /// Why its last run failed, if that is known.
    pub error: Option<String>,
    tasks: BackgroundTasks,
}

/// What an agent in the background has come to, as its log says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundReport {
    /// Its state.
    pub state: State,
    /// How its last run ended, if it did; none within where it failed.
    pub ended: Option<Option<Outcome>>,
    /// What it waits for, without what counts as rejected by now.
    pub action_requests: Vec<ActionRequest>,
    /// What all its runs have spent.
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

    /// Its run, if that is under way in this process, on this agent object.
    pub fn handle(&self) -> Option<RunHandle> {
        self.tasks.agent.background.get(&self.thread)
    }

    /// Whether its last run has not ended and nobody works on it: its process is gone.
    pub fn is_abandoned(&self) -> bool {
        self.status.is_claimable() && self.owner.is_none() && self.handle().is_none()
    }

    /// How it stands now.
    ///
    /// # Errors
    /// [`BackgroundError::NotFound`] when it was deleted.
    pub async fn refresh(&self) -> Result<Self, BackgroundError> {
        let found = self.tasks.get(&self.id).await?;
        found.ok_or_else(|| BackgroundError::NotFound { thread: self.thread.clone() })
    }

    /// Waits until its run has ended, also if that waits for a decision then, and says how. That of another process is
    /// looked at now and then.
    ///
    /// # Errors
    /// [`BackgroundError::Failed`] when its run failed, [`BackgroundError::NotRunning`] when it has not ended and nobody
    /// runs it.
    pub async fn outcome(&self) -> Result<Outcome, BackgroundError> {
        let mut pause = POLL.0;
        loop {
            if let Some(handle) = self.handle() {
                // How it ended is in its log, also where this run could not begin.
                let _ = handle.outcome().await;
            }
            let now = self.refresh().await?;
            if !now.status.is_claimable() {
                let agent = agent_of(&self.tasks.agent, &self.thread).await?;
                let schema = agent.map_or_else(|| self.tasks.agent.schema.clone(), |agent| agent.schema.clone());
                let failed = || now.error.clone().unwrap_or_else(|| "its run failed".to_owned());
                let ended = now.report(schema, None).await?.ended.flatten();
                return ended.ok_or_else(|| BackgroundError::Failed { reason: failed() });
            }
            if now.is_abandoned() {
                return Err(BackgroundError::NotRunning { thread: self.thread.clone() });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// Waits for records of its log from a position on, and gives them; none when its run has ended without any.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub async fn records(&self, from: LogPosition) -> Result<Vec<LogEntry>, BackgroundError> {
        let mut pause = POLL.0;
        loop {
            let now = self.refresh().await?;
            if now.end > from {
                return Ok(self.tasks.journal.read(&self.thread, from..now.end).await?);
            }
            if !now.status.is_claimable() {
                return Ok(Vec::new());
            }
            if now.is_abandoned() {
                return Err(BackgroundError::NotRunning { thread: self.thread.clone() });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// Says something to its model, as [`RunHandle::steer`] does.
    ///
    /// # Errors
    /// When it does not run in this process.
    pub fn steer(&self, message: impl Into<Message>) -> Result<(), BackgroundError> {
        let received = self.here()?.steer(message);
        received.then_some(()).ok_or_else(|| BackgroundError::NotRunning { thread: self.thread.clone() })
    }

    /// Follows the events of its run.
    ///
    /// # Errors
    /// When it does not run in this process; [`records`](Self::records) follows its log.
    pub fn subscribe(&self, from: Subscribe) -> Result<EventStream, BackgroundError> {
        Ok(self.here()?.subscribe(from))
    }

    fn here(&self) -> Result<RunHandle, BackgroundError> {
        let thread = || self.thread.clone();
        self.handle().ok_or_else(|| match &self.owner {
            Some(owner) => BackgroundError::Elsewhere { thread: thread(), owner: owner.clone() },
            None => BackgroundError::NotRunning { thread: thread() },
        })
    }

    /// Ends it, and waits until that is written. Of one that nobody runs the end is written; nothing happens to one that
    /// has ended.
    ///
    /// # Errors
    /// [`BackgroundError::Elsewhere`] when it is run elsewhere.
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
        // A lease that cannot be given up runs out.
        let _ = lease.release().await;
        Ok(written?)
    }

    /// What it had come to at a position of its log, by default at the end, seen with these channels.
    ///
    /// # Errors
    /// [`NoState`](crate::journal::JournalError::NoState) when that was pruned; when the log cannot be read.
    pub async fn report(&self, schema: Arc<Schema>, at: Option<LogPosition>) -> Result<BackgroundReport> {
        let fold = load_replay(&*self.tasks.journal, &self.thread, schema, at).await?.fold;
        let ledger = fold.machine.as_ref().and_then(Machine::ledger);
        let spent = ledger.map(BudgetState::total).unwrap_or_default();
        let (run, calls) = (fold.run.clone(), fold.machine.as_ref().map_or(0, Machine::calls));
        let state = fold.settled(&self.thread)?.state;
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
