//! A connection to a server: requests with limits, cancelled where nobody waits for them any more.

mod calls;
mod connect;
mod elicit;
mod fields;
mod handler;
mod list;
mod pending;
mod probe;
mod sampling;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deepagents_core::tool::{ToolContext, ToolError};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ElicitResult, ElicitationAction,
    InputRequest, InputRequiredResult, InputResponses, JsonObject, RequestId, ServerCapabilities, ServerResult,
    SubscriptionFilter,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use calls::Calls;
pub(crate) use connect::{Protocol, Target, connect};
use handler::Handler;
pub(crate) use pending::PendingCalls;
use probe::Seen;
use sampling::NoAnswer;

use crate::error::McpError;
use crate::http;
use crate::stdio::{Ending, StderrTail};
use crate::text;

/// How long a request may take that is no call.
pub(crate) const REQUEST: Duration = Duration::from_secs(30);
/// How long a call may take in all, whatever progress it makes.
const CALL_IN_ALL: Duration = Duration::from_secs(3_600);
/// How often a call is made again with what the server wanted to know.
const ROUNDS: u32 = 10;
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

    /// Listens for changes of lists, as the stateless protocol wants it. A server that does not take it says so and is
    /// asked no more.
    fn listen(&self, filter: SubscriptionFilter) {
        let (peer, seen) = (self.peer.clone(), self.seen.clone());
        tokio::spawn(async move {
            let Ok(mut subscription) = peer.listen(filter).await else { return };
            while let Ok(Some(_)) = subscription.next().await {
                // Every notice on this stream is one of those that were asked for.
                seen.list_changed();
            }
        });
    }

    /// Makes a call, with answers to what the server wants to know meanwhile. A call that has waited for a person goes on
    /// where it was, as far as this process knows of it.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: JsonObject,
        limit: Duration,
        pending: &PendingCalls,
        cx: &ToolContext,
    ) -> Result<Value, CallFailure> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
        let mut wanted = pending.take(&cx.key());
        for round in 0..ROUNDS {
            if let Some(wanted) = wanted.take() {
                let answers = match self.answers(&wanted, cx).await {
                    Ok(answers) => answers,
                    Err(failure) => {
                        pending.put(cx.key(), wanted);
                        return Err(failure);
                    }
                };
                if answers.is_empty() && wanted.request_state.is_none() {
                    return Err(self.unreadable("it wants something and does not say what").into());
                }
                if answers.is_empty() {
                    // It only wants to be asked again, later.
                    tokio::time::sleep(Duration::from_millis(100 << round)).await;
                }
                params.input_responses = (!answers.is_empty()).then_some(answers);
                params.request_state = wanted.request_state;
            }
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            match self.call_once(request, limit, cx).await? {
                ServerResult::InputRequiredResult(more) => wanted = Some(more),
                ServerResult::CreateTaskResult(_) => {
                    return Err(self.unreadable("it made a task of the call, which was not offered").into());
                }
                result => {
                    return serde_json::to_value(result).map_err(|error| self.unreadable(&error.to_string()).into());
                }
            }
        }
        Err(self.unreadable("it wants to know more again and again").into())
    }

    async fn call_once(
        &self,
        request: ClientRequest,
        limit: Duration,
        cx: &ToolContext,
    ) -> Result<ServerResult, CallFailure> {
        let options =
            PeerRequestOptions::with_timeout(limit).reset_timeout_on_progress().with_max_total_timeout(CALL_IN_ALL);
        let handle = self.send(request, options).await?;
        let registered = self.calls.register(handle.progress_token.clone(), cx);
        let id = handle.id.clone();
        tokio::select! {
            biased;
            interrupt = registered.call.interrupted() => {
                self.cancel(id, "a person is asked first");
                Err(CallFailure::Interrupted(interrupt))
            }
            result = self.answered(handle) => Ok(result?),
        }
    }

    /// What the server is told of what it wants to know.
    async fn answers(&self, wanted: &InputRequiredResult, cx: &ToolContext) -> Result<InputResponses, CallFailure> {
        let mut answers = InputResponses::new();
        for (key, request) in wanted.input_requests.iter().flatten() {
            let answer = match request {
                InputRequest::Elicitation(request) if self.handler.elicits() => {
                    let answer = elicit::ask(self.handler.server(), &request.params, cx);
                    serde_json::to_value(answer.map_err(CallFailure::Interrupted)?)
                }
                InputRequest::Elicitation(_) => serde_json::to_value(ElicitResult::new(ElicitationAction::Decline)),
                InputRequest::ListRoots(_) => serde_json::to_value(self.handler.roots()),
                InputRequest::CreateMessage(request) => match self.handler.sampled(&request.params, cx).await {
                    Ok(answer) => serde_json::to_value(answer),
                    Err(NoAnswer::Interrupted(interrupt)) => return Err(CallFailure::Interrupted(interrupt)),
                    Err(NoAnswer::Refused(error)) => {
                        return Err(self.unreadable(&format!("it wants to use the model: {}", error.message)).into());
                    }
                },
                _ => return Err(self.unreadable("it wants something that was not offered").into()),
            };
            answers.insert(key.clone(), answer.map_err(|error| self.unreadable(&error.to_string()))?);
        }
        Ok(answers)
    }

    /// Makes a request and waits for its answer.
    pub(crate) async fn request(&self, request: ClientRequest) -> Result<ServerResult, McpError> {
        let handle = self.send(request, PeerRequestOptions::with_timeout(REQUEST)).await?;
        self.answered(handle).await
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
    async fn answered(&self, handle: RequestHandle<RoleClient>) -> Result<ServerResult, McpError> {
        let mut abandoned = Abandoned { connection: self, id: Some(handle.id.clone()) };
        let answer = handle.await_response().await;
        abandoned.id = None;
        match answer {
            Ok(result) => Ok(result),
            Err(error) => Err(self.failure(error).await),
        }
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
                let message = self.redacted(&text::line(&format!("{}{hint}", data.message), 2_000));
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
            other => McpError::Request { server, reason: self.redacted(&text::line(&other.to_string(), 300)) },
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

    fn unreadable(&self, reason: &str) -> McpError {
        McpError::Request { server: self.server.clone(), reason: reason.to_owned() }
    }

    /// Ends the connection, and the process behind it.
    pub(crate) async fn close(&self) {
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
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.connection.cancel(id, "nobody waits for the answer");
        }
    }
}
