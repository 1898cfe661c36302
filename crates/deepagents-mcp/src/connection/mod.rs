//! A connection to a server: requests with limits, cancelled where nobody waits for them any more.

mod call;
mod calls;
mod connect;
mod elicit;
mod fields;
mod handler;
mod list;
mod listen;
mod pending;
mod probe;
mod sampling;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use deepagents_core::tool::ToolError;
use rmcp::model::{CancelledNotificationParam, ClientRequest, RequestId, ServerCapabilities, ServerResult};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use rmcp::{Peer, RoleClient};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use calls::Calls;
pub(crate) use connect::{Protocol, Target, connect};
use handler::Handler;
pub(crate) use pending::PendingCalls;
pub(crate) use probe::{PROBE, Seen};

use crate::error::McpError;
use crate::http;
use crate::stdio::{Ending, StderrTail};
use crate::text;

/// How long a request may take that is no call.
pub(crate) const REQUEST: Duration = Duration::from_secs(30);
/// How long the status of a process that has ended is waited for.
const ENDING: Duration = Duration::from_millis(300);
/// How long cancelled requests may take to be told when the connection is closed.
const CANCELS: Duration = Duration::from_millis(300);
/// How long a connection may take to close.
const CLOSE: Duration = Duration::from_secs(3);

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    server: String,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Arc<Handler>>>>,
    handler: Arc<Handler>,
    calls: Arc<Calls>,
    seen: Arc<Seen>,
    /// The changes of the list that the last listing has seen.
    listed: AtomicU64,
    /// What listens for changes of lists.
    listening: OnceLock<AbortHandle>,
    tail: StderrTail,
    ending: Option<Ending>,
    protocol: Protocol,
    /// What is taken out of errors.
    secrets: Vec<String>,
    /// Notices that requests are cancelled.
    cancels: TaskTracker,
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// It waits for a person.
    Interrupted(ToolError),
    /// It failed.
    Failed(McpError),
}

impl From<McpError> for CallFailure {
    fn from(error: McpError) -> Self {
        Self::Failed(error)
    }
}

impl Connection {
    #[allow(clippy::too_many_arguments, reason = "the parts of a connection, which are put together in one place")]
    fn new(
        server: &str,
        service: RunningService<RoleClient, Arc<Handler>>,
        handler: Arc<Handler>,
        calls: Arc<Calls>,
        seen: Arc<Seen>,
        tail: StderrTail,
        ending: Option<Ending>,
        protocol: Protocol,
        secrets: Vec<String>,
    ) -> Self {
        Self {
            server: server.to_owned(),
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            handler,
            calls,
            seen,
            listed: AtomicU64::new(0),
            listening: OnceLock::new(),
            tail,
            ending,
            protocol,
            secrets,
            cancels: TaskTracker::new(),
        }
    }

    /// Which protocol it speaks.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// What the server says that it can do.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        self.peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default()
    }

    /// Whether the list of tools may change.
    fn lists_change(&self) -> bool {
        self.capabilities().tools.is_some_and(|tools| tools.list_changed == Some(true))
    }

    /// Whether nothing can be asked any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Whether the list of tools has changed since it was fetched.
    pub(crate) fn is_stale(&self) -> bool {
        self.seen.list_changes() > self.listed.load(Ordering::Acquire)
    }

    /// How often the list of tools was said to have changed.
    pub(crate) fn list_changes(&self) -> u64 {
        self.seen.list_changes()
    }

    /// Goes on with the tools of before these changes.
    pub(crate) fn pass_over(&self, changes: u64) {
        self.listed.fetch_max(changes, Ordering::AcqRel);
    }

    /// Whether calls are made one after the other: it could not be seen what a question of the server was about.
    pub(crate) fn takes_turns(&self) -> bool {
        self.calls.is_unclear()
    }

    /// Makes a request and waits for its answer.
    pub(crate) async fn request(&self, request: ClientRequest) -> Result<ServerResult, McpError> {
        let handle = self.send(request, PeerRequestOptions::with_timeout(REQUEST)).await?;
        match self.awaited(handle).await {
            Ok(result) => Ok(result),
            Err(error) => Err(self.failure(error).await),
        }
    }

    async fn send(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
    ) -> Result<RequestHandle<RoleClient>, McpError> {
        match self.peer.send_request_with_option(request, options).await {
            Ok(handle) => Ok(handle),
            Err(error) => Err(self.failure(error).await),
        }
    }

    /// Waits for the answer; the server is told where nobody does so any more.
    async fn awaited(&self, handle: RequestHandle<RoleClient>) -> Result<ServerResult, ServiceError> {
        let mut abandoned = self.abandoned(handle.id.clone());
        let answer = handle.await_response().await;
        abandoned.id = None;
        answer
    }

    /// Tells the server once this is dropped, unless the request was answered.
    fn abandoned(&self, id: RequestId) -> Abandoned<'_> {
        Abandoned { connection: self, id: Some(id), reason: "nobody is waiting for the answer" }
    }

    fn cancel(&self, id: RequestId, reason: &str) {
        let mut params = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
        params.meta = None;
        if tokio::runtime::Handle::try_current().is_ok() {
            let peer = self.peer.clone();
            // Whether it can be told is no concern of whoever has stopped waiting.
            self.cancels.spawn(async move { drop(peer.notify_cancelled(params).await) });
        }
    }

    /// An error of a request, in words.
    async fn failure(&self, error: ServiceError) -> McpError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(data) => {
                let hint = data.data.filter(|hint| !hint.is_null()).map(|hint| format!(" {hint}")).unwrap_or_default();
                let message = text::line(&self.redacted(&format!("{}{hint}", data.message)), 2_000);
                McpError::Refused { server, code: data.code.0, message }
            }
            ServiceError::TransportSend(error) => {
                let error = error.error.as_ref();
                let wanted = http::authorization(&server, error);
                wanted.unwrap_or_else(|| McpError::Request { server, reason: self.redacted(&http::reason(error)) })
            }
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                McpError::Ended { server, reason: self.ended().await }
            }
            ServiceError::Timeout { timeout } => McpError::Timeout { server, after: timeout },
            other => McpError::Request { server, reason: text::line(&self.redacted(&other.to_string()), 300) },
        }
    }

    /// How the process has ended, if it has.
    async fn ended(&self) -> String {
        let Some(mut ending) = self.ending.clone() else { return "the connection was closed".to_owned() };
        let waited = timeout(ENDING, ending.wait_for(Option::is_some)).await;
        let status = waited.ok().and_then(Result::ok).and_then(|status| *status);
        let said = self.redacted(&self.tail.last_line());
        let said = if said.is_empty() { said } else { format!("; it said last: {said}") };
        status.map_or_else(|| format!("the connection was closed{said}"), |status| format!("{status}{said}"))
    }

    fn redacted(&self, text: &str) -> String {
        text::redact(text, &self.secrets)
    }

    /// What is wrong with an answer.
    pub(crate) fn unreadable(&self, reason: &str) -> McpError {
        McpError::Request { server: self.server.clone(), reason: reason.to_owned() }
    }

    /// Ends the connection, and the process behind it.
    pub(crate) async fn close(&self) {
        if let Some(listening) = self.listening.get() {
            listening.abort();
        }
        self.cancels.close();
        // Those who wait for answers have gone; the server is told before its pipe ends.
        let _ = timeout(CANCELS, self.cancels.wait()).await;
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            // A connection that does not close in time is dropped, which kills its process.
            let _ = service.close_with_timeout(CLOSE).await;
        }
    }
}

/// Tells the server that nobody waits for a request, unless it was answered.
struct Abandoned<'a> {
    connection: &'a Connection,
    id: Option<RequestId>,
    reason: &'static str,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.connection.cancel(id, self.reason);
        }
    }
}
