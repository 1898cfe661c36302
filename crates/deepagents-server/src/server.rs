//! Building the server.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Method};
use deepagents::DeepAgent;
use deepagents_core::journal::{Claim, Journal, ThreadInfo};
use deepagents_core::store::Store;
use serde_json::{Map, Value};
use tower_http::cors::{AllowHeaders, AllowOrigin, AllowPrivateNetwork, CorsLayer};

use crate::app::{App, ServedAgent};
use crate::auth::{Access, AuditEntry, Authenticate, LimitTable, Limits, authenticate};
use crate::body::MAX_BODY_BYTES;
use crate::drain::drain;
use crate::guard::{Guard, guard};
use crate::serve::RunningServer;
use crate::webhooks::{self, WebhookPolicy};
use crate::{a2a, assistants, crons, ids, items, mcp, meta, metrics, openapi, page, protocol, runs, threads};

/// Default of [`Server::lease`].
const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// Why a server could not be built or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Two agents have the same name.
    #[error("two agents are named `{0}`; give each a name of its own")]
    AgentTwice(String),
    /// An agent cannot be served.
    #[error("agent `{name}` cannot be served: {reason}; build it with the journal that the server is given")]
    Agent {
        /// Its name.
        name: String,
        /// Why it cannot be served.
        reason: String,
    },
    /// The name cannot be used in a URL.
    #[error(
        "`{0}` is not a valid name for an agent: it may not be empty, begin or end with a space, or contain a `/` or a control character"
    )]
    Name(String),
    /// An agent uses a different journal from the server.
    #[error(
        "agent `{0}` has a different journal from the server, which would not find its runs; give `.journal(...)` of its \
         builder the journal that `Server::new` is given"
    )]
    OtherJournal(String),
    /// The server has no agents.
    #[error("a server needs an agent")]
    NoAgent,
    /// The runs and deliveries accepted earlier could not be read.
    #[error("previously accepted runs cannot be read: {0}")]
    Store(#[source] deepagents_core::store::StoreError),
}

/// A server under construction. All its agents work on the threads of one journal. A store holds the runs, the
/// assistants and the items of clients.
///
/// See the [crate](crate) for an example.
#[must_use]
pub struct Server {
    journal: Arc<dyn Journal>,
    store: Arc<dyn Store>,
    agents: Vec<Arc<ServedAgent>>,
    guard: Guard,
    webhooks: WebhookPolicy,
    access: Access,
    limits: LimitTable,
    lease: Duration,
}

impl Server {
    /// Creates a server without agents.
    pub fn new(journal: Arc<dyn Journal>, store: Arc<dyn Store>) -> Self {
        Self {
            journal,
            store,
            agents: Vec::new(),
            guard: Guard::default(),
            webhooks: WebhookPolicy::default(),
            access: Access::default(),
            limits: LimitTable::default(),
            lease: DEFAULT_LEASE,
        }
    }

    /// Serves an agent under a name.
    ///
    /// # Errors
    /// Returns an error if the agent has no journal, or if the name is invalid or already used.
    pub fn agent(mut self, name: impl Into<String>, agent: DeepAgent) -> Result<Self, ServerError> {
        let name = name.into();
        if name.is_empty() || name.trim() != name || name.chars().any(|c| c == '/' || c.is_control()) {
            return Err(ServerError::Name(name));
        }
        if self.agents.iter().any(|other| other.name == name) {
            return Err(ServerError::AgentTwice(name));
        }
        let threads = match agent.threads() {
            Ok(threads) => threads,
            Err(error) => return Err(ServerError::Agent { name, reason: error.to_string() }),
        };
        self.agents.push(Arc::new(ServedAgent {
            name,
            description: None,
            note: Map::new(),
            thread_check: None,
            agent,
            threads,
        }));
        Ok(self)
    }

    /// Sets the description of the agent that was added last, for those who choose between agents.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        // No other handle to it exists yet.
        if let Some(last) = self.agents.last_mut().and_then(Arc::get_mut) {
            last.description = Some(description.into());
        }
        self
    }

    /// Sets metadata for the threads of the agent that was added last, such as their directory, for other programs on
    /// the journal; see [`RunInput::note`](deepagents::RunInput::note). Such a thread also gets a `title` from its
    /// first message, unless a client sets one. Clients can neither see nor set the other keys.
    pub fn note(mut self, metadata: Map<String, Value>) -> Self {
        if let Some(last) = self.agents.last_mut().and_then(Arc::get_mut) {
            last.note = metadata;
        }
        self
    }

    /// Sets a check for the threads of the agent that was added last. If it returns an error, runs of the agent on the
    /// thread are refused with this text and the status 409, however they are started, and an accepted run that has not
    /// begun fails. The check sees the metadata that other agents and programs have [noted](Self::note). It must not
    /// block.
    pub fn check_threads(mut self, check: impl Fn(&ThreadInfo) -> Result<(), String> + Send + Sync + 'static) -> Self {
        if let Some(last) = self.agents.last_mut().and_then(Arc::get_mut) {
            last.thread_check = Some(Box::new(check));
        }
        self
    }

    /// Allows requests to this host name. By default only the names of this machine are allowed.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.guard.hosts.push(host.into());
        self
    }

    /// Allows pages of an origin, such as `https://app.example.com`, to call the server. `*` allows all origins. Use
    /// this only with authentication: without it, any page that somebody opens has full access.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.guard.origins.push(origin.into());
        self
    }

    /// Sets where webhooks may be sent when runs end.
    pub fn webhooks(mut self, policy: WebhookPolicy) -> Self {
        self.webhooks = policy;
        self
    }

    /// Sets how long a killed process's run keeps its thread, 15 seconds by default. The next server waits that long
    /// before it resumes the run. If the storage is unavailable for longer, a run may lose its thread to another
    /// process.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Authenticates callers. What a caller creates then belongs to them alone. If called several times, the
    /// authenticators are asked in order until one knows the caller.
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.access.authenticate.push(Arc::new(authenticate));
        self
    }

    /// Sets the limits of callers whose identity has none.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits.everybody = limits;
        self
    }

    /// Sets the limits of one caller, in place of those of [`limits`](Self::limits).
    pub fn limits_of(mut self, id: impl Into<String>, limits: Limits) -> Self {
        self.limits.by_id.insert(id.into(), limits);
        self
    }

    /// Records each request that changes something or was rejected. The function must not block.
    pub fn audit(mut self, note: impl Fn(&AuditEntry) + Send + Sync + 'static) -> Self {
        self.access.audit = Some(Box::new(note));
        self
    }

    /// Returns the agents, to replace those of a running server.
    pub(crate) fn into_agents(self) -> Result<Vec<Arc<ServedAgent>>, ServerError> {
        if self.agents.is_empty() { Err(ServerError::NoAgent) } else { Ok(self.agents) }
    }

    /// Rejects agents on other journals. Two handles may point to one database. If the journals do not identify their
    /// storage, the server creates a thread and checks that each agent finds it.
    async fn check_journals(&self) -> Result<(), ServerError> {
        let here = self.journal.storage().await.unwrap_or_default();
        let mut unknown = Vec::new();
        for agent in &self.agents {
            let there = agent.threads.journal().storage().await.unwrap_or_default();
            if here.is_none() || here != there {
                unknown.push(agent);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let thread = format!("server_starts_{}", ids::fresh());
        // Storage errors are reported by the operations that need the storage.
        let Ok(fence) = self.journal.claim(&thread, Claim::new("server", DEFAULT_LEASE)).await else { return Ok(()) };
        let mut other = None;
        for agent in unknown {
            if matches!(agent.threads.journal().threads().get(&thread).await, Ok(None)) {
                other = Some(agent.name.clone());
                break;
            }
        }
        let _ = self.journal.release(&thread, fence).await;
        let _ = self.journal.threads().delete(&thread).await;
        other.map_or(Ok(()), |name| Err(ServerError::OtherJournal(name)))
    }

    /// Starts the server and returns its routes. Unfinished runs accepted by an earlier process are resumed. The server
    /// then cannot be shut down; for that, keep the [`RunningServer`] that [`start`](Self::start) returns.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub async fn router(self) -> Result<Router, ServerError> {
        Ok(self.start().await?.router())
    }

    /// Starts the server. Unfinished runs accepted by an earlier process are resumed.
    ///
    /// # Errors
    /// Returns an error if there are no agents, an agent uses another journal, or the store cannot be read.
    pub async fn start(self) -> Result<RunningServer, ServerError> {
        if self.agents.is_empty() {
            return Err(ServerError::NoAgent);
        }
        self.check_journals().await?;
        let limits = Arc::new(self.limits);
        let mut access = self.access;
        access.limits = limits.clone();
        let access = Arc::new(access);
        let app = App::new(self.journal, self.store, self.agents, self.webhooks, limits, self.lease);
        let app = Arc::new(app);
        runs::announce(&app).await.map_err(ServerError::Store)?;
        runs::recover(&app).await.map_err(ServerError::Store)?;
        webhooks::recover(&app).await.map_err(ServerError::Store)?;
        tokio::spawn(crons::run(Arc::downgrade(&app)));
        tokio::spawn(runs::watch(Arc::downgrade(&app)));
        let routes = assistants::routes()
            .merge(threads::routes())
            .merge(runs::routes())
            .merge(protocol::routes())
            .merge(crons::routes())
            .merge(items::routes());
        let routes = routes
            .merge(meta::routes())
            .merge(metrics::routes())
            .merge(mcp::routes())
            .merge(a2a::routes())
            .merge(page::routes())
            .layer(axum::middleware::from_fn_with_state(access.clone(), authenticate));
        let routes = routes.merge(meta::open_routes()).merge(openapi::routes()).merge(page::files());
        let shared = Arc::new(self.guard);
        let routes = routes.method_not_allowed_fallback(meta::not_allowed).fallback(meta::unknown);
        let routes = routes.with_state(app.clone());
        let routes = routes.layer(DefaultBodyLimit::max(MAX_BODY_BYTES));
        let routes = routes.layer(axum::middleware::from_fn_with_state(app.clone(), metrics::count));
        let guarded = (shared.clone(), access);
        let routes = routes.layer(cors(shared)).layer(axum::middleware::from_fn_with_state(guarded, guard));
        // This wraps the router because the path must be rewritten before routing.
        let routes = Router::new().fallback_service(routes).layer(axum::middleware::from_fn(ids::read_path));
        let routes = routes.layer(axum::middleware::from_fn(drain));
        Ok(RunningServer::new(routes, app))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let agents: Vec<&str> = self.agents.iter().map(|agent| &*agent.name).collect();
        f.debug_struct("Server").field("agents", &agents).finish_non_exhaustive()
    }
}

/// The CORS layer: what pages may send and read.
fn cors(guard: Arc<Guard>) -> CorsLayer {
    let exposed = ["content-location", "location", "x-pagination-total", "x-pagination-next"];
    let takes = move |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| guard.takes_origin(origin));
    let takes_private = takes.clone();
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin: &HeaderValue, _| takes(origin)))
        // Browsers ask before a public page may call a server on this machine or network.
        .allow_private_network(AllowPrivateNetwork::predicate(move |origin: &HeaderValue, _| takes_private(origin)))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed.map(HeaderName::from_static))
}
