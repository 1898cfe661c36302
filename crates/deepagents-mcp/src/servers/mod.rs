//! The MCP servers of an agent.

mod offered;
mod phase;
mod ready;
mod server;
mod shared;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use deepagents_core::error::Result;
use deepagents_core::middleware::Middleware;
use deepagents_core::run::Context;
use deepagents_core::tool::ToolSet;
use futures_util::future::join_all;
use tokio::sync::OnceCell;

pub(crate) use phase::Phase;
pub(crate) use server::Server;
pub(crate) use shared::{Groups, Shared};
pub use status::{ServerState, ServerStatus};

use crate::config::ServerConfig;
use crate::error::McpError;
use crate::options::McpOptions;
use crate::sync::lock;

/// The MCP servers of an agent, and the middleware that offers their tools. Servers start concurrently before the first
/// model request. A failing server does not affect the others; a server that has ended is restarted by the next call of
/// one of its tools.
///
/// Cloning is cheap: clones share the connections, so several agents can use one set.
///
/// ```
/// use deepagents_mcp::{McpOptions, McpServers, ServerConfig};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let time = ServerConfig::stdio("/no/such/program", ["--quiet"]);
/// let servers = McpServers::new([("time", time)], McpOptions::default());
/// servers.ready().await;
/// assert!(servers.status()[0].problem().unwrap().contains("could not be started"));
/// servers.close().await;
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct McpServers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    servers: Vec<Arc<Server>>,
    shared: Arc<Shared>,
    begun: OnceCell<()>,
    offered: Mutex<Offered>,
}

/// The tools last offered, with the version of each server that they were built from.
#[derive(Debug, Default)]
struct Offered {
    versions: Vec<u64>,
    tools: ToolSet,
}

impl McpServers {
    /// Creates a set of servers by name. The last of several servers with the same name wins. Starts none of them.
    pub fn new<N: Into<String>>(servers: impl IntoIterator<Item = (N, ServerConfig)>, options: McpOptions) -> Self {
        let shared = Arc::new(Shared::new(options));
        let by_name: BTreeMap<String, ServerConfig> =
            servers.into_iter().map(|(name, server)| (name.into(), server)).collect();
        let made = by_name.into_iter().map(|(name, config)| Arc::new(Server::new(name, config, shared.clone())));
        let servers = made.collect();
        Self(Arc::new(Inner { servers, shared, begun: OnceCell::new(), offered: Mutex::default() }))
    }

    /// Whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.0.servers.is_empty()
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.servers.iter().map(|server| server.name.as_str())
    }

    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.0.servers
    }

    pub(crate) fn server(&self, name: &str) -> Result<&Arc<Server>, McpError> {
        let unknown =
            || McpError::Unknown { server: name.to_owned(), known: self.names().map(str::to_owned).collect() };
        self.0.servers.iter().find(|server| server.name == name).ok_or_else(unknown)
    }

    /// Loads the cached tools of servers without starting any. [`status`](Self::status) then reports them.
    pub async fn load_cached(&self) {
        join_all(self.0.servers.iter().map(|server| server.load_cached())).await;
    }

    /// Starts the servers concurrently, except those with a fresh cache entry, which start at the first call. The first
    /// run does this if nothing else has. A concurrent caller waits until the servers are starting.
    pub async fn start(&self) {
        let begin = || async { drop(join_all(self.0.servers.iter().map(Server::load_or_start)).await) };
        self.0.begun.get_or_init(begin).await;
    }

    /// Waits until each server's tools are known or its start has failed. Returns after the longest of their start
    /// timeouts at the latest.
    pub async fn ready(&self) {
        self.start().await;
        join_all(self.0.servers.iter().map(|server| server.wait_until_known())).await;
    }

    /// Connects to every server, even if its tools are known.
    pub async fn connect(&self) {
        self.start().await;
        join_all(self.0.servers.iter().map(|server| async move { drop(server.connection().await) })).await;
    }

    /// Returns the tools that the servers offer now. Returns the same set until something changes.
    pub fn tools(&self) -> ToolSet {
        let versions: Vec<u64> = self.0.servers.iter().map(|server| server.version()).collect();
        let mut offered = lock(&self.0.offered);
        if offered.versions != versions {
            *offered = Offered { versions, tools: self.build_tools() };
        }
        offered.tools.clone()
    }

    /// Reviews the tools again, with [`McpOptions::review`](crate::McpOptions::review). To be called when the review
    /// would decide differently.
    pub fn review_again(&self) {
        self.0.shared.notices.forget_withheld();
        lock(&self.0.offered).versions.clear();
    }

    /// Closes all servers, which takes a few seconds at most. Later calls of their tools fail.
    pub async fn close(&self) {
        join_all(self.0.servers.iter().map(|server| server.close())).await;
    }

    /// Kills the processes of all servers immediately, for a program that must exit now.
    pub fn kill(&self) {
        self.0.shared.groups.kill();
    }
}

impl Middleware for McpServers {
    fn name(&self) -> &str {
        "Mcp"
    }

    async fn offered_tools(&self, cx: &Context) -> Result<Option<ToolSet>> {
        self.wait(cx).await;
        join_all(self.0.servers.iter().map(Server::refresh)).await;
        let tools = self.tools();
        for notice in self.0.shared.notices.take() {
            cx.report(notice);
        }
        Ok(Some(tools))
    }
}
