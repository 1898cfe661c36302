//! A connection to a server. Requests have timeouts, and are cancelled when their caller stops waiting.

mod address;
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
use std::sync::{Arc, Mutex, OnceLock};
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
pub(crate) use probe::{Observations, PROBE_TIMEOUT};

use crate::error::McpError;
use crate::http;
use crate::stdio::{Ending, StderrTail};
use crate::sync::lock;
use crate::text;

/// Timeout of requests other than tool calls.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the exit status of a process that has ended.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_millis(300);
/// How long to wait for cancellation notifications to be sent when the connection closes.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a connection may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    server: String,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Arc<Handler>>>>,
    handler: Arc<Handler>,
    calls: Arc<Calls>,
    seen: Arc<Observations>,
    /// The value of [`list_changes`](Self::list_changes) before the last listing.
    listed: AtomicU64,
    /// The task that listens for list changes.
    listening: OnceLock<AbortHandle>,
    tail: StderrTail,
    ending: Option<Ending>,
    pub(crate) protocol: Protocol,
    /// Values to redact from errors.
    secrets: Vec<String>,
    /// Tasks that send cancellation notifications.
    cancels: TaskTracker,
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The call waits for a person.
    Interrupted(ToolError),
    /// The call failed.
    Failed(McpError),
}

impl From<McpError> for CallFailure {
    fn from(error: McpError) -> Self {
        Self::Failed(error)
    }
}

impl Connection {
    /// Returns the capabilities that the server declares.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        self.peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default()
    }

    /// Whether the server declares that its tool list may change.
    fn lists_change(&self) -> bool {
        self.capabilities().tools.is_some_and(|tools| tools.list_changed == Some(true))
    }

    /// Whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Whether the tool list has changed since it was fetched.
    pub(crate) fn is_stale(&self) -> bool {
        self.seen.list_changes() > self.listed.load(Ordering::Acquire)
    }

    /// Returns how many changes of the tool list the server has announced.
    pub(crate) fn list_changes(&self) -> u64 {
        self.seen.list_changes()
    }

    /// Ignores the first `changes` changes of the tool list.
    pub(crate) fn ignore_changes(&self, changes: u64) {
        self.listed.fetch_max(changes, Ordering::AcqRel);
    }

    /// Whether calls must be made one at a time, because a server request could not be assigned to one of several
    /// calls.
    pub(crate) fn takes_turns(&self) -> bool {
        self.calls.is_unclear()
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn request(&self, request: ClientRequest) -> Result<ServerResult, McpError> {
        let handle = self.send(request, PeerRequestOptions::with_timeout(REQUEST_TIMEOUT)).await?;
        match self.await_response(handle).await {
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

    /// Waits for the response. If dropped before, notifies the server that the request is cancelled.
    async fn await_response(&self, handle: RequestHandle<RoleClient>) -> Result<ServerResult, ServiceError> {
        let mut abandoned = self.abandoned(handle.id.clone());
        let answer = handle.await_response().await;
        abandoned.id = None;
        answer
    }

    /// Returns a guard that cancels the request on drop, unless its `id` was cleared.
    fn abandoned(&self, id: RequestId) -> Abandoned<'_> {
        Abandoned { connection: self, id: Some(id), reason: "nobody is waiting for the answer" }
    }

    fn cancel(&self, id: RequestId, reason: &str) {
        let mut params = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
        params.meta = None;
        if tokio::runtime::Handle::try_current().is_ok() {
            let peer = self.peer.clone();
            // The caller has stopped waiting, so a failure does not matter.
            self.cancels.spawn(async move { drop(peer.notify_cancelled(params).await) });
        }
    }

    /// Converts the error of a request.
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

    /// Returns the error for a request that was not sent, as the server ended before it could be.
    pub(crate) async fn ended_at_start(&self) -> McpError {
        let reason = format!("it ended as soon as it had started: {}", self.ended().await);
        McpError::Connect { server: self.server.clone(), reason, stderr: String::new() }
    }

    /// Describes how the process has ended, if it has.
    async fn ended(&self) -> String {
        let Some(mut ending) = self.ending.clone() else {
            let broken = self.seen.broken().map(|reason| format!(": {}", self.redacted(reason)));
            return format!("the connection was closed{}", broken.unwrap_or_default());
        };
        let waited = timeout(EXIT_STATUS_TIMEOUT, ending.wait_for(Option::is_some)).await;
        let status = waited.ok().and_then(Result::ok).and_then(|status| *status);
        let said = self.redacted(&self.tail.last_line());
        let said = if said.is_empty() { said } else { format!("; it said last: {said}") };
        status.map_or_else(|| format!("the connection was closed{said}"), |status| format!("{status}{said}"))
    }

    fn redacted(&self, text: &str) -> String {
        text::redact(text, &self.secrets)
    }

    /// Returns an error about a malformed response.
    pub(crate) fn unreadable(&self, reason: &str) -> McpError {
        McpError::Request { server: self.server.clone(), reason: reason.to_owned() }
    }

    /// Closes the connection and ends the process behind it.
    pub(crate) async fn close(&self) {
        if let Some(listening) = self.listening.get() {
            listening.abort();
        }
        self.cancels.close();
        // Sends the pending cancellations before the pipe closes.
        let _ = timeout(CANCEL_TIMEOUT, self.cancels.wait()).await;
        let service = lock(&self.service).take();
        if let Some(mut service) = service {
            // A connection that does not close in time is dropped, which kills its process.
            let _ = service.close_with_timeout(CLOSE_TIMEOUT).await;
        }
    }
}

/// Cancels a request on drop, unless it was answered.
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
