//! Building the server.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Method};
use deepagents::DeepAgent;
use deepagents_core::journal::Journal;
use deepagents_core::store::Store;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::app::{App, ServedAgent};
use crate::guard::{Guard, guard};
use crate::{assistants, items, meta, page, runs, threads};

/// Bytes that a request may have: a message with pictures.
const MAX_BODY: usize = 64 << 20;

/// Why a server cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Two agents have one name.
    #[error("two agents are named `{0}`; give each a name of its own")]
    AgentTwice(String),
    /// An agent has no journal.
    #[error("agent `{name}` cannot be served: {reason}; build it with the journal that the server is given")]
    Agent {
        /// Its name.
        name: String,
        /// What it lacks.
        reason: String,
    },
    /// There is no agent.
    #[error("a server needs an agent")]
    NoAgent,
    /// What was accepted before cannot be read.
    #[error("runs that were accepted before cannot be read: {0}")]
    Store(#[source] deepagents_core::store::StoreError),
}

/// A server to be. All its agents work on the threads of one journal; runs, assistants and what clients store are kept in
/// a store.
///
/// See the [crate](crate) for an example.
#[must_use]
pub struct Server {
    journal: Arc<dyn Journal>,
    store: Arc<dyn Store>,
    agents: Vec<ServedAgent>,
    guard: Guard,
}

impl Server {
    /// A server without agents.
    pub fn new(journal: Arc<dyn Journal>, store: Arc<dyn Store>) -> Self {
        Self { journal, store, agents: Vec::new(), guard: Guard::default() }
    }

    /// Serves an agent under a name.
    ///
    /// # Errors
    /// When the agent has no journal, or another one has the name.
    pub fn agent(mut self, name: impl Into<String>, agent: DeepAgent) -> Result<Self, ServerError> {
        let name = name.into();
        if self.agents.iter().any(|other| other.name == name) {
            return Err(ServerError::AgentTwice(name));
        }
        let threads = match agent.threads() {
            Ok(threads) => threads,
            Err(error) => return Err(ServerError::Agent { name, reason: error.to_string() }),
        };
        self.agents.push(ServedAgent { name, description: None, agent, threads });
        Ok(self)
    }

    /// Describes the agent that was added last, for those who choose among them.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        if let Some(last) = self.agents.last_mut() {
            last.description = Some(description.into());
        }
        self
    }

    /// Lets the server be called under a host's name, and by pages from there. Without it only this machine's names are
    /// taken. There is no authentication: put the server behind something that has one.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.guard.hosts.push(host.into());
        self
    }

    /// The routes, with the runs below them: what an earlier process had accepted and not finished is gone on with.
    ///
    /// # Errors
    /// When there is no agent, or the store cannot be read.
    pub async fn router(self) -> Result<Router, ServerError> {
        if self.agents.is_empty() {
            return Err(ServerError::NoAgent);
        }
        let app = Arc::new(App::new(self.journal, self.store, self.agents));
        runs::recover(&app).await.map_err(ServerError::Store)?;
        let routes = meta::routes()
            .merge(assistants::routes())
            .merge(threads::routes())
            .merge(runs::routes())
            .merge(items::routes())
            .merge(page::routes());
        let shared = Arc::new(self.guard);
        let routes = routes.fallback(meta::unknown).with_state(app);
        let routes = routes.layer(DefaultBodyLimit::max(MAX_BODY));
        Ok(routes.layer(cors(shared.clone())).layer(axum::middleware::from_fn_with_state(shared, guard)))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("agents", &self.agents).finish_non_exhaustive()
    }
}

/// What pages may send and read.
fn cors(guard: Arc<Guard>) -> CorsLayer {
    let exposed = ["content-location", "location", "x-pagination-total", "x-pagination-next"];
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin: &HeaderValue, _| {
            origin.to_str().is_ok_and(|origin| guard.takes_origin(origin))
        }))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed.map(HeaderName::from_static))
}
