//! What all routes share.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use deepagents::DeepAgent;
use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::{Journal, ThreadInfo};
use deepagents_core::store::Store;
use serde_json::{Map, Value};
use tokio::sync::{broadcast, watch};

use crate::auth::{LimitTable, OWNER, owns_thread};
use crate::crons::Timer;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::metrics::Metrics;
use crate::runs::{Runs, Spending};
use crate::stream::{RunIdentity, StateUpdate};
use crate::threads::CheckpointCache;
use crate::webhooks::{WebhookPolicy, Webhooks};

/// Under which key of a thread's metadata the server keeps what is its own.
pub(crate) const OWN: &str = "deepagents_server";

/// Under which key of a thread's metadata its runs keep whose note it has.
const NOTED_BY: &str = "noted_by";

/// States that clients have changed and that a slow reader has not read; of more the oldest are passed over.
const STATE_UPDATES: usize = 256;

/// An agent with the name that clients know it by.
pub(crate) struct ServedAgent {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// What its threads note of themselves; clients neither see nor set that.
    pub(crate) note: Map<String, Value>,
    pub(crate) agent: DeepAgent,
    pub(crate) threads: ThreadAccess,
}

impl fmt::Debug for ServedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedAgent").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The server's parts.
pub(crate) struct App {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) store: Arc<dyn Store>,
    agents: RwLock<Arc<[Arc<ServedAgent>]>>,
    pub(crate) runs: Runs,
    pub(crate) timer: Timer,
    pub(crate) metrics: Metrics,
    pub(crate) checkpoints: CheckpointCache,
    pub(crate) webhooks: Webhooks,
    /// States that clients have changed, for those who read the threads.
    pub(crate) state_updates: broadcast::Sender<Arc<StateUpdate>>,
    pub(crate) limits: Arc<LimitTable>,
    pub(crate) spending: Spending,
    pub(crate) started: String,
    /// The id of this process among those on the storage.
    pub(crate) process: String,
    /// How long a thread stays a run's whose process was killed.
    pub(crate) lease: Duration,
    /// Whether its own sockets speak TLS.
    pub(crate) tls: AtomicBool,
    /// Whether the server is to end.
    pub(crate) closing: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        store: Arc<dyn Store>,
        agents: Vec<Arc<ServedAgent>>,
        webhooks: WebhookPolicy,
        lease: Duration,
    ) -> Self {
        let started = ids::now();
        let (runs, timer, webhooks) = (Runs::default(), Timer::default(), Webhooks::new(webhooks));
        Self {
            journal,
            store,
            agents: RwLock::new(agents.into()),
            runs,
            timer,
            metrics: Metrics::default(),
            checkpoints: CheckpointCache::default(),
            webhooks,
            state_updates: broadcast::Sender::new(STATE_UPDATES),
            limits: Arc::default(),
            spending: Spending::default(),
            started,
            process: ids::fresh(),
            lease,
            tls: AtomicBool::new(false),
            closing: watch::Sender::new(false),
        }
    }

    /// Waits until the server is to end.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as this does.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// The agents as they are now. Who works with one goes on with it where others take its place.
    pub(crate) fn agents(&self) -> Arc<[Arc<ServedAgent>]> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other agents in their place.
    pub(crate) fn set_agents(&self, agents: Vec<Arc<ServedAgent>>) {
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = agents.into();
    }

    pub(crate) fn agent(&self, graph: &str) -> Option<Arc<ServedAgent>> {
        self.agents().iter().find(|agent| agent.name == graph).cloned()
    }

    /// The threads, seen with the channels of the agent that ran on this one last.
    pub(crate) fn threads_of(&self, info: &ThreadInfo) -> Result<ThreadAccess> {
        let graph = info.metadata.get("graph_id").and_then(Value::as_str);
        let agent = graph.and_then(|graph| self.agent(graph)).or_else(|| self.agents().first().cloned());
        agent.map(|agent| agent.threads.clone()).ok_or_else(|| ApiError::bad_request("no agent is served"))
    }

    /// How clients know the agents of a thread.
    pub(crate) fn identity_of(&self, thread: &str) -> RunIdentity {
        RunIdentity { thread: thread.to_owned(), ..RunIdentity::default() }
    }

    /// A thread that there is.
    pub(crate) async fn thread(&self, id: &str) -> Result<ThreadInfo> {
        let found = self.journal.threads().get(&ids::check("thread ID", id)?).await?;
        // That of a stranger is as one that there is not.
        found.filter(owns_thread).ok_or_else(|| ApiError::not_found("Thread", id))
    }

    /// Whether somebody works on a thread who is not known to be gone.
    pub(crate) fn is_owned(&self, info: &ThreadInfo) -> bool {
        info.owner.is_some() && !self.agents().iter().any(|agent| agent.agent.definition().is_owner_gone(info))
    }

    /// Takes out of metadata what clients neither see nor set: a client that could name the address of a thread's model would
    /// have whoever goes on with the thread send a key there.
    pub(crate) fn take_own(&self, metadata: &mut Map<String, Value>) {
        for key in [OWN, OWNER, NOTED_BY] {
            metadata.remove(key);
        }
        for agent in self.agents().iter() {
            let process = agent.agent.definition().process().map(|process| process.metadata()).unwrap_or_default();
            metadata.retain(|key, _| !agent.note.contains_key(key) && !process.contains_key(key));
        }
    }

    /// What a client has put into a thread's metadata.
    pub(crate) fn shown_metadata(&self, info: &ThreadInfo) -> Map<String, Value> {
        let mut metadata = info.metadata.clone();
        self.take_own(&mut metadata);
        metadata
    }

    /// Changes a thread's metadata; what is null goes away. A thread that does not exist begins to.
    pub(crate) async fn set_metadata(&self, thread: &str, metadata: Map<String, Value>) -> Result<()> {
        Ok(self.journal.threads().set_metadata(thread, metadata).await?)
    }
}
