//! One server: started when it is needed, and again where it has ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deepagents_core::tool::ToolContext;
use rmcp::model::{JsonObject, Tool};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::phase::{DOUBLED, Failure, Known, Phase};
use super::shared::Shared;
use crate::cache::{self, CacheFile, Cached};
use crate::config::ServerConfig;
use crate::connection::{CallFailure, Connection, PendingCalls, Target, connect};
use crate::error::McpError;
use crate::options::ToolReview;
use crate::tool::McpTool;

/// How long a changed list of tools is waited for before a request of the model, at most.
const RELIST: Duration = Duration::from_secs(10);

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    known: Mutex<Option<Arc<Known>>>,
    /// Counts changes of what is known.
    version: AtomicU64,
    /// Whether requests go on without it while it starts.
    passed_over: AtomicBool,
    /// A server that has asked something without saying which of several calls it is about is called once at a time.
    turns: Semaphore,
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
            turns: Semaphore::new(1),
            pending: PendingCalls::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(crate) fn known(&self) -> Option<Arc<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn learn(&self, known: Option<Known>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known.map(Arc::new);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    fn cache_file(&self) -> Option<CacheFile> {
        let options = &self.shared.options;
        let folder = options.cache_dir.as_ref()?;
        Some(CacheFile::new(folder, &self.name, &self.config, options.root.as_deref()))
    }

    /// Learns what an earlier process knew; says whether that is young enough not to look again.
    pub(super) async fn recall(&self) -> bool {
        let cached = match self.cache_file() {
            Some(file) => file.read().await,
            None => None,
        };
        let Some(cached) = cached else { return false };
        let is_fresh = cached.is_fresh(cache::now());
        let Cached { protocol, resources, tools, .. } = cached;
        self.learn(Some(Known::new(tools, resources, true, protocol)));
        is_fresh
    }

    /// Begins: with what an earlier process has learnt, and where that is not enough by starting it.
    pub(super) async fn begin(self: &Arc<Self>) {
        if !self.recall().await {
            self.start();
        }
    }

    /// Starts it beside whatever goes on, unless it runs or is being started.
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
            // A task of its own, so that a panic in it does not leave the server in the middle of a start.
            let establishing = server.clone();
            let mut task = tokio::spawn(async move { establishing.establish().await });
            let result = tokio::select! {
                () = server.closing.cancelled() => {
                    task.abort();
                    // Dropping what it has begun kills its process.
                    let _ = task.await;
                    Err(McpError::Closed { server: server.name.clone() })
                }
                result = &mut task => result.unwrap_or_else(|error| Err(McpError::Connect {
                    server: server.name.clone(),
                    reason: error.to_string(),
                    stderr: String::new(),
                })),
            };
            server.settle(result, times).await;
        });
    }

    /// Takes the end of a start in.
    async fn settle(&self, result: Result<(Connection, Known), McpError>, times: u32) {
        match result {
            Ok((connection, known)) => {
                self.shared.notices.connected(&self.name, known.tools.len());
                if let Some(file) = self.cache_file() {
                    let tools = known.tools.iter().map(|tool| Tool::clone(tool)).collect();
                    let cached = Cached::new(cache::now(), known.protocol, known.resources, tools);
                    file.write(&cached).await;
                }
                self.learn(Some(known));
                self.phase.send_replace(Phase::Ready(Arc::new(connection)));
            }
            Err(error) => {
                if !matches!(error, McpError::Closed { .. }) {
                    self.shared.notices.failed(&error);
                }
                if self.known().is_some_and(|known| known.cached) {
                    if let Some(file) = self.cache_file() {
                        file.remove().await;
                    }
                    self.learn(None);
                }
                self.phase.send_replace(Phase::Failed(Failure { error, at: Instant::now(), times: times + 1 }));
            }
        }
    }

    /// Connects and lists, within the limit.
    async fn establish(&self) -> Result<(Connection, Known), McpError> {
        let limit = self.config.start_timeout;
        let protocol = self.known().map(|known| known.protocol);
        let target = Target { name: &self.name, config: &self.config, shared: &self.shared };
        let begun = async {
            let connection = match connect(&target, protocol).await {
                // It may speak another protocol than it did.
                Err(McpError::Connect { .. }) if protocol.is_some() => connect(&target, None).await?,
                connected => connected?,
            };
            let tools = match connection.tools().await {
                // Listing changes nothing, so it may be tried again.
                Err(McpError::Refused { .. }) => connection.tools().await?,
                tools => tools?,
            };
            let resources = connection.capabilities().resources.is_some();
            let known = Known::new(tools, resources, false, connection.protocol());
            Ok((connection, known))
        };
        let expired = || McpError::StartTimeout { server: self.name.clone(), after: limit, stderr: String::new() };
        timeout(limit, begun).await.unwrap_or_else(|_| Err(expired()))
    }

    /// Waits until something is known, or it could not be started.
    pub(super) async fn settled(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is ours, so it is not gone.
        let _ = phase.wait_for(|phase| !self.is_awaited_in(phase)).await;
    }

    /// Whether requests wait for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited_in(&self.phase())
    }

    fn is_awaited_in(&self, phase: &Phase) -> bool {
        match phase {
            // One that failed before is not waited for again.
            Phase::Starting(times) => {
                *times == 0 && self.known().is_none() && !self.passed_over.load(Ordering::Relaxed)
            }
            _ => false,
        }
    }

    /// Requests go on without it from now on, until it answers.
    pub(super) fn pass_over(&self) {
        self.passed_over.store(true, Ordering::Relaxed);
    }

    /// The connection, made where there is none.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, McpError> {
        loop {
            if self.closing.is_cancelled() {
                return Err(McpError::Closed { server: self.name.clone() });
            }
            let mut phase = self.phase.subscribe();
            let now = phase.borrow_and_update().clone();
            match now {
                Phase::Ready(connection) if !connection.is_closed() => return Ok(connection),
                Phase::Failed(failure) if failure.is_recent() => return Err(failure.error),
                Phase::Starting(_) => {
                    // The sender is ours, so it is not gone.
                    let _ = phase.changed().await;
                    if let Phase::Failed(failure) = self.phase() {
                        return Err(failure.error);
                    }
                }
                Phase::Idle | Phase::Ready(_) | Phase::Failed(_) => self.start(),
            }
        }
    }

    /// Fetches the list of tools again where it has changed, and starts what has ended badly a while ago.
    pub(super) async fn refresh(self: &Arc<Self>) {
        match self.phase() {
            Phase::Ready(connection) if connection.is_stale() && !connection.is_closed() => {
                let (limit, changes) = (RELIST.min(self.config.start_timeout), connection.list_changes());
                match timeout(limit, connection.tools()).await {
                    Err(_) => {
                        // It is not waited for again until it says that something else has changed.
                        connection.pass_over(changes);
                        self.shared.notices.failed(&McpError::Timeout { server: self.name.clone(), after: limit });
                    }
                    Ok(Ok(tools)) => {
                        self.shared.notices.connected(&self.name, tools.len());
                        let resources = connection.capabilities().resources.is_some();
                        let protocol = connection.protocol();
                        self.learn(Some(Known::new(tools, resources, false, protocol)));
                    }
                    Ok(Err(error)) => self.shared.notices.failed(&error),
                }
            }
            Phase::Failed(failure) if !failure.is_recent() && failure.times > DOUBLED => {}
            Phase::Failed(failure) if !failure.is_recent() => self.start(),
            _ => {}
        }
    }

    /// Looks at a tool as the server lists it now, where somebody looks at those that are offered.
    fn looked_at(self: &Arc<Self>, tool: &str) -> Result<(), McpError> {
        let Some(known) = self.known().filter(|_| self.review().is_some()) else { return Ok(()) };
        let Some(listed) = known.tools.iter().find(|listed| listed.name == tool) else { return Ok(()) };
        let looked_at = match (&listed.arguments, McpTool::new(self, listed)) {
            (_, Some(listed)) => self.reviewed(&listed),
            // Nobody can look at what is not offered any more.
            (Err(why), None) => Err(format!("the tool {tool} has changed: {why}")),
            (Ok(_), None) => Ok(()),
        };
        looked_at.map_err(|reason| McpError::Withheld { server: self.name.clone(), reason })
    }

    /// Whether a tool may be offered, as far as somebody looks.
    pub(super) fn reviewed(&self, tool: &McpTool) -> Result<(), String> {
        self.review().map_or(Ok(()), |review| review.check(&self.name, &tool.said()))
    }

    fn review(&self) -> Option<&ToolReview> {
        self.shared.options.review.as_ref()
    }

    /// Makes a call.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &str,
        args: JsonObject,
        cx: &ToolContext,
    ) -> Result<Value, CallFailure> {
        let mut connection = self.connection().await?;
        let mut _turn = None;
        if connection.takes_turns() {
            // A semaphore that is never closed gives its permits.
            _turn = self.turns.acquire().await.ok();
            connection = self.connection().await?;
        }
        // What was offered may stem from an earlier process, or from before the server was started again.
        self.looked_at(tool)?;
        connection.call(tool, args, self.config.call_timeout, &self.pending, cx).await
    }

    /// Ends it.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Phase::Ready(connection) = self.phase() {
            connection.close().await;
        }
    }
}
