//! What all routes share.

use std::fmt;
use std::sync::Arc;

use deepagents::DeepAgent;
use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::{Journal, ThreadInfo};
use deepagents_core::store::Store;
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};
use crate::ids;
use crate::runs::Runs;

/// Under which key of a thread's metadata the server keeps what is its own.
pub(crate) const OWN: &str = "deepagents_server";

/// An agent with the name that clients know it by.
pub(crate) struct ServedAgent {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
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
    pub(crate) agents: Vec<ServedAgent>,
    pub(crate) runs: Runs,
    pub(crate) started: String,
}

impl App {
    pub(crate) fn new(journal: Arc<dyn Journal>, store: Arc<dyn Store>, agents: Vec<ServedAgent>) -> Self {
        let started = ids::now();
        Self { journal, store, agents, runs: Runs::default(), started }
    }

    pub(crate) fn agent(&self, graph: &str) -> Option<&ServedAgent> {
        self.agents.iter().find(|agent| agent.name == graph)
    }

    /// The threads, seen with the channels of the agent that ran on this one last.
    pub(crate) fn threads_of(&self, info: &ThreadInfo) -> Result<&ThreadAccess> {
        let graph = info.metadata.get("graph_id").and_then(Value::as_str);
        let agent = graph.and_then(|graph| self.agent(graph)).or_else(|| self.agents.first());
        agent.map(|agent| &agent.threads).ok_or_else(|| ApiError::bad_request("no agent is served"))
    }

    /// A thread that there is.
    pub(crate) async fn thread(&self, id: &str) -> Result<ThreadInfo> {
        ids::check("thread ID", id)?;
        let found = self.journal.threads().get(id).await?;
        found.ok_or_else(|| ApiError::not_found("Thread", id))
    }

    /// Changes a thread's metadata; what is null goes away. A thread that does not exist begins to.
    pub(crate) async fn set_metadata(&self, thread: &str, metadata: Map<String, Value>) -> Result<()> {
        Ok(self.journal.threads().set_metadata(thread, metadata).await?)
    }
}

/// What a client has put into a thread's metadata.
pub(crate) fn shown_metadata(info: &ThreadInfo) -> Map<String, Value> {
    let mut metadata = info.metadata.clone();
    metadata.remove(OWN);
    metadata
}
