//! HTTP requests to a server, with lenient parsing of responses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::header::ACCEPT;
use http::{Method, StatusCode};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::time::timeout;

use super::answers::{
    JSON, authorization, body, is, is_overload, kind, parse_answers, refused, status_error, unusable,
};
use super::events::{Streams, event, is_too_long};
use super::{Failure, Headers};
use crate::auth::{Access, Tokens};
use crate::connection::{Observations, PROBE_TIMEOUT};

/// Headers that the transport sets itself.
const RESERVED: [&str; 3] = ["accept", SESSION, LAST_EVENT];
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";

/// Where a server sends the responses to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswersIn {
    /// In the HTTP response to each message: streamable HTTP.
    Response,
    /// On the event stream: HTTP+SSE. The HTTP response only confirms receipt.
    Stream,
}

/// Sends the requests of a connection, with the tokens of its login. Malformed responses are repaired where possible,
/// as for programs. Where they cannot be, the caller gets an error at once.
#[derive(Clone)]
pub(crate) struct Requests {
    pub(crate) http: reqwest::Client,
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) seen: Arc<Observations>,
    pub(crate) answers_in: AnswersIn,
    /// Whether the server may speak the older protocol, so that `server/discover` is a probe.
    pub(crate) probes: bool,
    pub(crate) streams: Streams,
}

/// The parts that all requests have.
struct Head<'a> {
    uri: &'a str,
    session: Option<&'a str>,
    headers: Headers,
}

impl Requests {
    /// Makes a call with the tokens of the login, or else with the configured token.
    async fn authorized<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        configured: Option<String>,
        call: impl Fn(Option<Access>) -> F,
    ) -> Result<T, Failure> {
        match &self.tokens {
            Some(tokens) => tokens.call(call).await,
            None => call(configured.map(Access::bearer)).await,
        }
    }

    /// Starts a request.
    fn request(&self, method: Method, head: &Head<'_>) -> Result<RequestBuilder, Failure> {
        if let Some(name) = head.headers.keys().find(|name| RESERVED.contains(&name.as_str())) {
            return Err(Failure::ReservedHeaderConflict(name.to_string()));
        }
        let request = self.http.request(method, head.uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        let request = head.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        Ok(head.session.into_iter().fold(request, |request, session| request.header(SESSION, session)))
    }

    /// Sends a request. Returns an error if the server refuses its token or requires one.
    async fn send(&self, request: RequestBuilder, access: Option<Access>) -> Result<Response, Failure> {
        let request = request.build()?;
        let response = match access {
            Some(access) => access.send(&self.http, &request).await?,
            None => self.http.execute(request).await?,
        };
        match authorization(response.status(), response.headers()) {
            Some(wanted) => Err(wanted),
            None => Ok(response),
        }
    }

    /// Sends the `server/discover` probe. Every other outcome counts as "method not found", except authorization
    /// errors: some servers react badly to the unknown method.
    async fn probe(
        &self,
        id: &RequestId,
        asked: impl Future<Output = Result<StreamableHttpPostResponse, Failure>>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let answered = async { asked.await?.expect_initialized::<reqwest::Error>().await };
        match timeout(PROBE_TIMEOUT, answered).await {
            Ok(Ok((answer, session))) => {
                let is_discovery = |result: &ServerResult| matches!(result, ServerResult::DiscoverResult(_));
                match answer {
                    // A response to another request does not count.
                    JsonRpcMessage::Response(response) if response.id != *id || !is_discovery(&response.result) => {}
                    JsonRpcMessage::Error(error) if error.id.as_ref().is_some_and(|other| other != id) => {}
                    answer => return Ok(StreamableHttpPostResponse::Json(answer, session)),
                }
            }
            Ok(Err(wanted @ (Failure::AuthRequired(_) | Failure::InsufficientScope(_)))) => return Err(wanted),
            Ok(Err(_)) => {}
            // The server may speak only the newer protocol and be slow.
            Err(_) => self.seen.late_answer.store(true, Ordering::Release),
        }
        let none = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None);
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(none, Some(id.clone())), None))
    }

    async fn post(
        &self,
        head: &Head<'_>,
        message: &ClientJsonRpcMessage,
        access: Option<Access>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let asked = match message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let response = self.send(self.request(Method::POST, head)?.json(message), access).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && head.session.is_some() {
            // A server that has forgotten the session may have been updated, and its tools may have changed.
            self.seen.list_changed();
            return Err(Failure::SessionExpired);
        }
        if !status.is_success() {
            if is_of_transport_before(status) && is_initialize(message) {
                self.seen.initialize_refused.store(true, Ordering::Release);
            }
            return refused(response, asked, limits).await;
        }
        if self.answers_in == AnswersIn::Stream {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if asked.is_none() && !is(&response, EVENTS) {
            // The response to a notification does not matter.
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let given = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is(&response, EVENTS) {
            let events = self.streams.of_answer(response.bytes_stream(), limits.max_sse_event_size, asked);
            return Ok(StreamableHttpPostResponse::Sse(events, given));
        }
        let Some(asked) = asked else { return Ok(StreamableHttpPostResponse::Accepted) };
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Err(unusable(format!(
                "it accepted the request but gave no answer (HTTP status {})",
                status.as_u16()
            )));
        }
        if !is(&response, JSON) {
            return Err(Failure::UnexpectedContentType(kind(&response).map(str::to_owned)));
        }
        let body = body(response, limits.max_json_response_size).await?;
        let messages = parse_answers(&body, &asked)?;
        Ok(match <[ServerJsonRpcMessage; 1]>::try_from(messages) {
            Ok([answer]) => StreamableHttpPostResponse::Json(answer, given),
            Err(several) => {
                let events = several.into_iter().map(|message| Ok(event(&message)));
                StreamableHttpPostResponse::Sse(stream::iter(events.collect::<Vec<_>>()).boxed(), given)
            }
        })
    }

    async fn get(
        &self,
        head: &Head<'_>,
        last_event: Option<&str>,
        access: Option<Access>,
    ) -> Result<Response, Failure> {
        let request = self.request(Method::GET, head)?;
        let request = last_event.into_iter().fold(request, |request, last| request.header(LAST_EVENT, last));
        let response = self.send(request, access).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Failure::ServerDoesNotSupportSse);
        }
        if is_overload(response.status()) {
            return Err(status_error(&response));
        }
        let response = response.error_for_status()?;
        match is(&response, EVENTS) || is(&response, JSON) {
            true => Ok(response),
            false => Err(Failure::UnexpectedContentType(kind(&response).map(str::to_owned))),
        }
    }

    async fn delete(&self, head: &Head<'_>, access: Option<Access>) -> Result<(), Failure> {
        let response = self.send(self.request(Method::DELETE, head)?, access).await?;
        match response.status() {
            // The server does not end sessions.
            StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            _ => Ok(response.error_for_status().map(drop)?),
        }
    }
}

impl StreamableHttpClient for Requests {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let head = Head { uri: &uri, session: session_id.as_deref(), headers };
        let probe = match &message {
            JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)) => {
                Some(&request.id).filter(|_| self.probes)
            }
            _ => None,
        };
        let post = |access| {
            let posted = self.post(&head, &message, access, limits);
            async move {
                match probe {
                    Some(id) => self.probe(id, posted).await,
                    None => posted.await,
                }
            }
        };
        self.authorized(auth_header, post).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let head = Head { uri: &uri, session: Some(&session_id), headers };
        self.authorized(auth_header, |access| self.delete(&head, access)).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let most = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, custom_headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let (head, last_event) =
            (Head { uri: &uri, session: session_id.as_deref(), headers }, last_event_id.as_deref());
        let asked = last_event.and_then(|last| self.streams.request_behind(last));
        match (self.authorized(auth_header, |access| self.get(&head, last_event, access)).await, asked) {
            (Ok(opened), asked) => {
                let may_reopen = asked.is_none() && self.answers_in == AnswersIn::Response;
                let events = self.streams.of_answer(opened.bytes_stream(), max_sse_event_size, asked);
                if !may_reopen {
                    return Ok(events);
                }
                // After this error, the transport would reopen the stream at once, perhaps for the same event.
                let until_too_long = events.then(|event| async move {
                    if event.as_ref().is_err_and(is_too_long) {
                        std::future::pending::<()>().await;
                    }
                    event
                });
                Ok(until_too_long.boxed())
            }
            (Err(gone), Some(asked)) if streams_no_events(&gone) => Ok(self.streams.lost(asked)),
            (Err(error), _) => Err(error),
        }
    }
}

/// Whether a server older than streamable HTTP would answer `initialize` with this status.
fn is_of_transport_before(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::InitializeRequest(_))
}

/// Whether the error means that the server has no such stream, so that a retry is useless.
pub(crate) fn streams_no_events(error: &Failure) -> bool {
    match error {
        Failure::Client(error) => error.status().is_some_and(|status| status.is_client_error()),
        Failure::ServerDoesNotSupportSse | Failure::UnexpectedContentType(_) => true,
        _ => false,
    }
}
