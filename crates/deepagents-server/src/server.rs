//! Building the server.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Method};
use deepagents::DeepAgent;
use deepagents_core::journal::{Claim, Journal};
use deepagents_core::store::Store;
use serde_json::{Map, Value};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::app::{App, ServedAgent};
use crate::auth::{Access, AuditEntry, AuditLog, Authenticate, LimitTable, Limits, authenticate};
use crate::guard::{Guard, guard};
use crate::serve::RunningServer;
use crate::webhooks::{self, WebhookPolicy};
use crate::{a2a, assistants, crons, ids, items, mcp, meta, metrics, openapi, page, protocol, runs, threads};

/// Bytes that a request may have: a message with pictures.
const MAX_BODY: usize = 64 << 20;

/// See [`Server::lease`].
const LEASE: Duration = Duration::from_secs(15);

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
    /// A name that cannot be part of addresses.
    #[error(
        "`{0}` is no name for an agent: it may not be empty, begin or end with a blank, or have a `/` or a control character"
    )]
    Name(String),
    /// An agent keeps its threads elsewhere than the server looks for them.
    #[error(
        "agent `{0}` has another journal than the server: what its runs do would not be found; give `.journal(...)` of its \
         builder the journal that `Server::new` is given"
    )]
    OtherJournal(String),
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
    agents: Vec<Arc<ServedAgent>>,
    guard: Guard,
    webhooks: WebhookPolicy,
    access: Access,
    limits: LimitTable,
    lease: Duration,
}

impl Server {
    /// A server without agents.
    pub fn new(journal: Arc<dyn Journal>, store: Arc<dyn Store>) -> Self {
        Self {
            journal,
            store,
            agents: Vec::new(),
            guard: Guard::default(),
            webhooks: WebhookPolicy::default(),
            access: Access::default(),
            limits: LimitTable::default(),
            lease: LEASE,
        }
    }

    /// Serves an agent under a name.
    ///
    /// # Errors
    /// When the agent has no journal, another one has the name, or it is none.
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
        self.agents.push(Arc::new(ServedAgent { name, description: None, note: Map::new(), agent, threads }));
        Ok(self)
    }

    /// Describes the agent that was added last, for those who choose among them.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        // Nobody else has it yet.
        if let Some(last) = self.agents.last_mut().and_then(Arc::get_mut) {
            last.description = Some(description.into());
        }
        self
    }

    /// Says what threads note of themselves while the agent that was added last works on them, such as their directory, for
    /// other programs on the journal; see [`RunInput::note`](deepagents::RunInput::note). Such a thread is called `title` by
    /// its first message, too, unless a client calls it something. Clients neither see nor set the other keys.
    pub fn note(mut self, metadata: Map<String, Value>) -> Self {
        if let Some(last) = self.agents.last_mut().and_then(Arc::get_mut) {
            last.note = metadata;
        }
        self
    }

    /// Lets the server be called under a host's name, and by pages from there. Without it only this machine's names are
    /// taken.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.guard.hosts.push(host.into());
        self
    }

    /// Lets pages of an origin call the server, such as `https://app.example.com`, or `*` for all of them. That is for a
    /// server that asks who calls: without it any page that somebody opens could do everything.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.guard.origins.push(origin.into());
        self
    }

    /// Where the ends of runs may be told.
    pub fn webhooks(mut self, policy: WebhookPolicy) -> Self {
        self.webhooks = policy;
        self
    }

    /// How long a thread stays the run's whose process was killed, 15 seconds by default: so long the next server waits
    /// before it goes on with it. A run whose storage is away for longer may lose its thread to another process.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Asks who calls. What somebody makes is theirs alone from then on. May be called several times: who the first does not
    /// know, the next one is asked about.
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.access.authenticate.push(Arc::new(authenticate));
        self
    }

    /// Limits everybody whose identity does not say how much they may ask for.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits.everybody = limits;
        self
    }

    /// Limits somebody, in place of what [`limits`](Self::limits) says.
    pub fn limits_of(mut self, id: impl Into<String>, limits: Limits) -> Self {
        self.limits.by_id.insert(id.into(), limits);
        self
    }

    /// Notes each request that changes something or was refused. The function must not wait for anything.
    pub fn audit(mut self, note: impl Fn(&AuditEntry) + Send + Sync + 'static) -> Self {
        self.access.audit = Some(AuditLog(Arc::new(note)));
        self
    }

    /// Its agents, for a server that runs.
    pub(crate) fn into_agents(self) -> Result<Vec<Arc<ServedAgent>>, ServerError> {
        if self.agents.is_empty() { Err(ServerError::NoAgent) } else { Ok(self.agents) }
    }

    /// Refuses agents on other journals. Two handles may be of one database: where the two do not say so themselves, what
    /// tells is whether an agent finds a thread that the server begins.
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
        // What is wrong with the storage is told by those who need it.
        let Ok(fence) = self.journal.claim(&thread, Claim::new("server", LEASE)).await else { return Ok(()) };
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

    /// The routes, with the runs below them: what an earlier process had accepted and not finished is gone on with.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn router(self) -> Result<Router, ServerError> {
        Ok(self.start().await?.router())
    }

    /// The server, with its routes and the runs below them: what an earlier process had accepted and not finished is gone on
    /// with.
    ///
    /// # Errors
    /// When there is no agent, one has another journal, or the store cannot be read.
    pub async fn start(self) -> Result<RunningServer, ServerError> {
        if self.agents.is_empty() {
            return Err(ServerError::NoAgent);
        }
        self.check_journals().await?;
        let limits = Arc::new(self.limits);
        let mut access = self.access;
        access.limits = limits.clone();
        let access = Arc::new(access);
        let mut app = App::new(self.journal, self.store, self.agents, self.webhooks, self.lease);
        app.limits = limits;
        let app = Arc::new(app);
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
        let routes = routes.layer(DefaultBodyLimit::max(MAX_BODY));
        let routes = routes.layer(axum::middleware::from_fn_with_state(app.clone(), metrics::count));
        let guarded = (shared.clone(), access);
        let routes = routes.layer(cors(shared)).layer(axum::middleware::from_fn_with_state(guarded, guard));
        // Around the routes, as they are chosen by the path.
        let routes = Router::new().fallback_service(routes).layer(axum::middleware::from_fn(ids::read_path));
        Ok(RunningServer::new(routes, app))
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
