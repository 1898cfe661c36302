//! A server, started when needed and restarted after it has ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::tool::ToolContext;
use rmcp::model::JsonObject;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::phase::{Failure, MAX_DOUBLINGS, Phase, ServerOffer};
use super::shared::Shared;
use crate::cache::{self, CacheFile, Cached};
use crate::config::ServerConfig;
use crate::connection::{CallFailure, Connection, PendingCalls, Target, connect};
use crate::error::McpError;
use crate::sync::lock;
use crate::tool::McpTool;

/// How long a model request waits for a changed tool list.
const RELIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A server of the set.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    known: Mutex<Option<Arc<ServerOffer>>>,
    /// Counts the changes of `known`.
    version: AtomicU64,
    /// Whether requests proceed without it while it starts.
    passed_over: AtomicBool,
    /// Serialises calls, once the server has sent a request that could not be assigned to one of several calls.
    turns: tokio::sync::Mutex<()>,
    pending: PendingCalls,
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    pub(super) fn new(name: String, config: ServerConfig, shared: Arc<Shared>) -> Self {
        Self {
            name,
            config,
            shared,
            phase: watch::Sender::new(Phase::Idle),
            known: Mutex::default(),
            version: AtomicU64::new(0),
            passed_over: AtomicBool::new(false),
            turns: tokio::sync::Mutex::default(),
            pending: PendingCalls::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(crate) fn known(&self) -> Option<Arc<ServerOffer>> {
        lock(&self.known).clone()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn set_known(&self, known: Option<ServerOffer>) {
        *lock(&self.known) = known.map(Arc::new);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    fn cache_file(&self) -> Option<CacheFile> {
        let options = &self.shared.options;
        let folder = options.cache_dir.as_ref()?;
        Some(CacheFile::new(folder, &self.name, &self.config, options.root.as_deref()))
    }

    /// Loads the cached tools. Returns whether they are fresh.
    pub(super) async fn load_cached(&self) -> bool {
        let Some(file) = self.cache_file() else { return false };
        let Some(cached) = file.read().await else { return false };
        let is_fresh = cached.is_fresh(cache::now());
        self.set_known(Some(ServerOffer::cached(cached)));
        is_fresh
    }

    /// Loads the cached tools, and starts the server unless they are fresh.
    pub(super) async fn load_or_start(self: &Arc<Self>) {
        if !self.load_cached().await {
            self.start();
        }
    }

    /// Starts the server in the background, unless it is running or starting.
    pub(super) fn start(self: &Arc<Self>) {
        let mut times = 0;
        let starts = self.phase.send_if_modified(|phase| {
            times = match phase {
                Phase::Starting(_) => return false,
                Phase::Ready(connection) if !connection.is_closed() => return false,
                Phase::Failed(failure) if failure.is_recent() => return false,
                Phase::Failed(failure) => failure.times,
                Phase::Idle | Phase::Ready(_) => 0,
            };
            *phase = Phase::Starting(times);
            true
        });
        if !starts {
            return;
        }
        let server = self.clone();
        self.tasks.spawn(async move {
            // A separate task, so that a panic does not leave the server in `Starting`.
            let establishing = server.clone();
            let mut task = tokio::spawn(async move { establishing.establish().await });
            let result = tokio::select! {
                () = server.closing.cancelled() => {
                    task.abort();
                    // Waits until the task has dropped the connection, which kills the process.
                    let _ = task.await;
                    Err(McpError::Closed { server: server.name.clone() })
                }
                result = &mut task => result.unwrap_or_else(|error| Err(McpError::Connect {
                    server: server.name.clone(),
                    reason: error.to_string(),
                    stderr: String::new(),
                })),
            };
            server.record_start(result, times).await;
        });
    }

    /// Records the result of a start.
    async fn record_start(&self, result: Result<(Connection, ServerOffer), McpError>, times: u32) {
        match result {
            Ok((connection, known)) => {
                self.shared.notices.connected(&self.name, known.tools.len());
                if let Some(file) = self.cache_file() {
                    let tools = known.tools.iter().map(|listed| listed.tool.clone()).collect();
                    let cached = Cached::new(cache::now(), known.protocol, known.resources, tools);
                    file.write(&cached).await;
                }
                self.set_known(Some(known));
                self.phase.send_replace(Phase::Ready(Arc::new(connection)));
            }
            Err(error) => {
                if !matches!(error, McpError::Closed { .. }) {
                    self.shared.notices.failed(&self.name, &error);
                    self.forget_cached().await;
                }
                self.phase.send_replace(Phase::Failed(Failure { error, at: Instant::now(), times: times + 1 }));
            }
        }
    }

    /// Forgets the tools that were read from the cache, as the server that offered them cannot be used.
    async fn forget_cached(&self) {
        if self.known().is_some_and(|known| known.cached) {
            if let Some(file) = self.cache_file() {
                file.remove().await;
            }
            self.set_known(None);
        }
    }

    /// Connects and lists the tools, within the start timeout.
    async fn establish(&self) -> Result<(Connection, ServerOffer), McpError> {
        let limit = self.config.start_timeout;
        let protocol = self.known().map(|known| known.protocol);
        let target = Target { name: &self.name, config: &self.config, shared: &self.shared };
        let begun = async {
            let connection = match connect(&target, protocol).await {
                // The server may have changed its protocol since it was cached.
                Err(McpError::Connect { .. }) if protocol.is_some() => connect(&target, None).await?,
                connected => connected?,
            };
            let tools = match connection.tools().await {
                // Listing has no side effects, so it is retried once.
                Err(McpError::Refused { .. }) => connection.tools().await?,
                tools => tools?,
            };
            let known = ServerOffer::current(&connection, tools);
            Ok((connection, known))
        };
        let expired = || McpError::StartTimeout { server: self.name.clone(), after: limit, stderr: String::new() };
        timeout(limit, begun).await.unwrap_or_else(|_| Err(expired()))
    }

    /// Waits until the tools are known or the start has failed.
    pub(super) async fn wait_until_known(&self) {
        let mut phase = self.phase.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = phase.wait_for(|phase| !self.is_awaited_in(phase)).await;
    }

    /// Whether requests wait for the server.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited_in(&self.phase())
    }

    fn is_awaited_in(&self, phase: &Phase) -> bool {
        match phase {
            // Requests do not wait for a server that has failed before.
            Phase::Starting(times) => {
                *times == 0 && self.known().is_none() && !self.passed_over.load(Ordering::Relaxed)
            }
            _ => false,
        }
    }

    /// Lets requests proceed without the server until it responds.
    pub(super) fn stop_waiting(&self) {
        self.passed_over.store(true, Ordering::Relaxed);
    }

    /// Returns the connection. Connects if there is none. A server that ends as soon as it has started is an error, and
    /// is not started again before the next call.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, McpError> {
        let mut has_awaited_start = false;
        loop {
            if self.closing.is_cancelled() {
                return Err(McpError::Closed { server: self.name.clone() });
            }
            let mut phase = self.phase.subscribe();
            let now = phase.borrow_and_update().clone();
            match now {
                Phase::Ready(connection) if !connection.is_closed() => return Ok(connection),
                Phase::Ready(connection) if has_awaited_start => return Err(connection.ended_at_start().await),
                Phase::Failed(failure) if failure.is_recent() => return Err(failure.error),
                Phase::Starting(_) => {
                    has_awaited_start = true;
                    // Cannot fail: `self` owns the sender.
                    let _ = phase.changed().await;
                    if let Phase::Failed(failure) = self.phase() {
                        return Err(failure.error);
                    }
                }
                Phase::Idle | Phase::Ready(_) | Phase::Failed(_) => self.start(),
            }
        }
    }

    /// Fetches a changed tool list again, and restarts a failed server after its delay.
    pub(super) async fn refresh(self: &Arc<Self>) {
        match self.phase() {
            Phase::Ready(connection) if connection.is_stale() && !connection.is_closed() => {
                let (limit, changes) = (RELIST_TIMEOUT.min(self.config.start_timeout), connection.list_changes());
                match timeout(limit, connection.tools()).await {
                    Err(_) => {
                        // Requests wait for it again only after the next change.
                        connection.ignore_changes(changes);
                        self.shared
                            .notices
                            .failed(&self.name, &McpError::Timeout { server: self.name.clone(), after: limit });
                    }
                    Ok(Ok(tools)) => {
                        self.shared.notices.connected(&self.name, tools.len());
                        self.set_known(Some(ServerOffer::current(&connection, tools)));
                    }
                    Ok(Err(error)) => self.shared.notices.failed(&self.name, &error),
                }
            }
            Phase::Failed(failure) if !failure.is_recent() && failure.times > MAX_DOUBLINGS => {}
            Phase::Failed(failure) if !failure.is_recent() => self.start(),
            _ => {}
        }
    }

    /// Calls a tool.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &str,
        args: JsonObject,
        cx: &ToolContext,
    ) -> Result<Value, CallFailure> {
        let mut connection = self.connection().await?;
        let mut _turn = None;
        if connection.takes_turns() {
            _turn = Some(self.turns.lock().await);
            connection = self.connection().await?;
        }
        // The offered tool may come from the cache, or from before a restart.
        self.review_tool(tool)?;
        connection.call(tool, args, self.config.call_timeout, &self.pending, cx).await
    }

    /// Reviews a tool as the server lists it now, if there is a review: the tool must be the one that was agreed to.
    fn review_tool(self: &Arc<Self>, tool: &str) -> Result<(), McpError> {
        let Some(known) = self.known().filter(|_| self.shared.options.review.is_some()) else { return Ok(()) };
        let Some(listed) = known.tools.iter().find(|listed| listed.tool.name == tool) else { return Ok(()) };
        let reviewed = match McpTool::new(self, listed) {
            Ok(listed) => self.reviewed(&listed),
            // A tool that cannot be offered any more cannot be reviewed.
            Err(why) => Err(format!("the tool {tool} has changed: {why}")),
        };
        reviewed.map_err(|reason| McpError::Withheld { server: self.name.clone(), reason })
    }

    /// Whether the review, if there is one, lets a tool be offered.
    pub(super) fn reviewed(&self, tool: &McpTool) -> Result<(), String> {
        let review = self.shared.options.review.as_ref();
        review.map_or(Ok(()), |review| review.check(&self.name, &tool.annotated_spec()))
    }

    /// Closes the server.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Phase::Ready(connection) = self.phase() {
            connection.close().await;
        }
    }
}
