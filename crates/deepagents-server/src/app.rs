//! State shared by all routes.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use deepagents::DeepAgent;
use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::{Journal, JournalError, ThreadInfo};
use deepagents_core::state::State;
use deepagents_core::store::Store;
use serde_json::{Map, Value};
use tokio::sync::{Notify, broadcast, watch};

use crate::auth::{LimitTable, OWNER, owns_thread};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::metrics::Metrics;
use crate::runs::{Runs, Spending};
use crate::stream::StateUpdate;
use crate::threads::{CheckpointCache, Entries};
use crate::webhooks::{WebhookPolicy, Webhooks};

/// Key in a thread's metadata that holds the server's own data.
pub(crate) const METADATA_KEY: &str = "deepagents_server";

/// Key in a thread's metadata under which its runs record whose note it carries.
const NOTED_BY: &str = "noted_by";

/// Capacity of the state update channel. A receiver that lags behind by more loses the oldest updates.
const STATE_UPDATE_CAPACITY: usize = 256;

/// An agent and the name under which clients address it.
pub(crate) struct ServedAgent {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// Metadata added to the agent's threads. Clients can neither see nor set it.
    pub(crate) note: Map<String, Value>,
    /// Says why the agent must not work on a thread.
    pub(crate) thread_check: Option<Box<ThreadCheck>>,
    pub(crate) agent: DeepAgent,
    pub(crate) threads: ThreadAccess,
}

/// See [`Server::check_threads`](crate::Server::check_threads).
pub(crate) type ThreadCheck = dyn Fn(&ThreadInfo) -> Result<(), String> + Send + Sync;

impl ServedAgent {
    /// Rejects a thread that the agent must not work on.
    pub(crate) fn check_thread(&self, info: &ThreadInfo) -> Result<()> {
        self.thread_check.as_ref().map_or(Ok(()), |check| check(info).map_err(ApiError::conflict))
    }
}

/// The shared parts of the server.
pub(crate) struct App {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) store: Arc<dyn Store>,
    agents: RwLock<Arc<[Arc<ServedAgent>]>>,
    pub(crate) runs: Runs,
    /// Wakes the timer when a cron changes.
    pub(crate) crons_changed: Notify,
    pub(crate) metrics: Metrics,
    pub(crate) checkpoints: CheckpointCache,
    pub(crate) webhooks: Webhooks,
    /// Thread states changed by clients, broadcast to the subscribers of the threads.
    pub(crate) state_updates: broadcast::Sender<Arc<StateUpdate>>,
    pub(crate) limits: Arc<LimitTable>,
    pub(crate) spending: Spending,
    pub(crate) started: String,
    /// The id of this process among the processes that share the storage.
    pub(crate) process: String,
    /// How long the lease on a thread outlives a run whose process was killed.
    pub(crate) lease: Duration,
    /// Whether the server's own sockets use TLS.
    pub(crate) tls: AtomicBool,
    /// Becomes `true` when the server shuts down.
    pub(crate) closing: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        store: Arc<dyn Store>,
        agents: Vec<Arc<ServedAgent>>,
        webhooks: WebhookPolicy,
        limits: Arc<LimitTable>,
        lease: Duration,
    ) -> Self {
        Self {
            journal,
            store,
            agents: RwLock::new(agents.into()),
            runs: Runs::default(),
            crons_changed: Notify::new(),
            metrics: Metrics::default(),
            checkpoints: CheckpointCache::default(),
            webhooks: Webhooks::new(webhooks),
            state_updates: broadcast::Sender::new(STATE_UPDATE_CAPACITY),
            limits,
            spending: Spending::default(),
            started: ids::now(),
            process: ids::fresh(),
            lease,
            tls: AtomicBool::new(false),
            closing: watch::Sender::new(false),
        }
    }

    /// Waits until the server shuts down.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Returns the current agents. A caller that holds an agent keeps using it after the agents are replaced.
    pub(crate) fn agents(&self) -> Arc<[Arc<ServedAgent>]> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the agents.
    pub(crate) fn set_agents(&self, agents: Vec<Arc<ServedAgent>>) {
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = agents.into();
    }

    pub(crate) fn agent(&self, graph: &str) -> Option<Arc<ServedAgent>> {
        self.agents().iter().find(|agent| agent.name == graph).cloned()
    }

    /// Returns an existing agent.
    pub(crate) fn known_agent(&self, graph: &str) -> Result<Arc<ServedAgent>> {
        self.agent(graph).ok_or_else(|| ApiError::not_found("Graph", graph))
    }

    /// Returns access to the threads, using the channels of the agent that last ran on this thread.
    pub(crate) fn threads_of(&self, info: &ThreadInfo) -> Result<ThreadAccess> {
        let graph = info.metadata.get("graph_id").and_then(Value::as_str);
        let agent = graph.and_then(|graph| self.agent(graph)).or_else(|| self.agents().first().cloned());
        agent.map(|agent| agent.threads.clone()).ok_or_else(|| ApiError::bad_request("no agent is served"))
    }

    /// Returns an existing thread.
    pub(crate) async fn thread(&self, id: &str) -> Result<ThreadInfo> {
        let found = self.journal.threads().get(&ids::check("thread ID", id)?).await?;
        // A thread of another owner is reported as missing.
        found.filter(owns_thread).ok_or_else(|| ApiError::not_found("Thread", id))
    }

    /// Returns an existing thread with the state at the end of its log.
    pub(crate) async fn thread_state(&self, id: &str) -> Result<(ThreadInfo, State)> {
        let info = self.thread(id).await?;
        let state = self.threads_of(&info)?.state(&info.id).await?;
        Ok((info, state))
    }

    /// Returns the checkpoints of a thread that clients may see.
    pub(crate) async fn entries(&self, info: &ThreadInfo) -> Result<Entries> {
        self.checkpoints.entries(&self.threads_of(info)?, info).await
    }

    /// Whether the thread has an owner that is not known to be gone.
    pub(crate) fn is_owned(&self, info: &ThreadInfo) -> bool {
        info.owner.is_some() && !self.agents().iter().any(|agent| agent.agent.definition().is_owner_gone(info))
    }

    /// Removes the metadata that clients may neither see nor set. If a client could set the address of a thread's
    /// model, whoever resumes the thread would send an API key there.
    pub(crate) fn take_own(&self, metadata: &mut Map<String, Value>) {
        for key in [METADATA_KEY, OWNER, NOTED_BY] {
            metadata.remove(key);
        }
        for agent in self.agents().iter() {
            let process = agent.agent.definition().process().map(|process| process.metadata()).unwrap_or_default();
            metadata.retain(|key, _| !agent.note.contains_key(key) && !process.contains_key(key));
        }
    }

    /// Returns the part of a thread's metadata that clients may see.
    pub(crate) fn shown_metadata(&self, info: &ThreadInfo) -> Map<String, Value> {
        let mut metadata = info.metadata.clone();
        self.take_own(&mut metadata);
        metadata
    }

    /// Changes the metadata of an existing thread; null removes a key.
    pub(crate) async fn update_metadata(&self, thread: &str, metadata: Map<String, Value>) -> Result<()> {
        match self.journal.threads().update_metadata(thread, metadata).await {
            // The thread was deleted meanwhile.
            Err(JournalError::NotFound { .. }) => Err(ApiError::not_found("Thread", thread)),
            changed => Ok(changed?),
        }
    }
}
