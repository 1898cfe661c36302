//! HTTP requests to a server, with lenient parsing of responses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::StatusCode;
use http::header::ACCEPT;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::time::timeout;

use super::answers::{JSON, authorization, body, is, kind, parse_answers, refused, unusable};
use super::events::{Streams, event};
use super::{Failure, Headers};
use crate::connection::{Observations, PROBE_TIMEOUT};

/// Headers that the transport sets itself.
const RESERVED: [&str; 3] = ["accept", "mcp-session-id", "last-event-id"];
const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";

/// Where a server sends the responses to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswersIn {
    /// In the HTTP response to each message: streamable HTTP.
    Response,
    /// On the event stream: HTTP+SSE. The HTTP response only confirms receipt.
    Stream,
}

/// Sends the requests of a connection. Malformed responses are repaired where possible, as for programs. Where they
/// cannot be, the caller gets an error at once.
#[derive(Clone)]
pub(crate) struct Requests {
    http: reqwest::Client,
    streams: Streams,
    seen: Arc<Observations>,
    answers_in: AnswersIn,
    /// Whether the server may speak the older protocol, so that `server/discover` is a probe.
    probes: bool,
}

impl Requests {
    /// Sends requests with this client. `probes` is `true` if the server may speak the older protocol.
    pub(crate) fn new(http: reqwest::Client, seen: Arc<Observations>, answers_in: AnswersIn, probes: bool) -> Self {
        Self { http, streams: Streams::default(), seen, answers_in, probes }
    }

    /// Returns the HTTP client.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Sends the `server/discover` probe. Every other outcome counts as "method not found", except authorization
    /// errors: some servers react badly to the unknown method.
    async fn probe(
        id: RequestId,
        seen: &Observations,
        asked: impl Future<Output = Result<StreamableHttpPostResponse, Failure>>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let answered = async { asked.await?.expect_initialized::<reqwest::Error>().await };
        match timeout(PROBE_TIMEOUT, answered).await {
            Ok(Ok((answer, session))) => {
                let is_discovery = |result: &ServerResult| matches!(result, ServerResult::DiscoverResult(_));
                match answer {
                    // A response to another request does not count.
                    JsonRpcMessage::Response(response) if response.id != id || !is_discovery(&response.result) => {}
                    JsonRpcMessage::Error(error) if error.id.as_ref().is_some_and(|other| *other != id) => {}
                    answer => return Ok(StreamableHttpPostResponse::Json(answer, session)),
                }
            }
            Ok(Err(wanted @ (Failure::AuthRequired(_) | Failure::InsufficientScope(_)))) => return Err(wanted),
            Ok(Err(_)) => {}
            // The server may speak only the newer protocol and be slow.
            Err(_) => seen.late_answer.store(true, Ordering::Release),
        }
        let none = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None);
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(none, Some(id)), None))
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        if let Some(name) = headers.keys().find(|name| RESERVED.contains(&name.as_str())) {
            return Err(Failure::ReservedHeaderConflict(name.to_string()));
        }
        let mut request = self.http.post(&*uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request = request.headers(headers.into_iter().collect());
        if let Some(session) = &session {
            request = request.header(SESSION, &**session);
        }
        let response = request.json(&message).send().await?;
        let status = response.status();
        if let Some(wanted) = authorization(status, response.headers()) {
            return Err(wanted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            // A server that has forgotten the session may have been updated, and its tools may have changed.
            self.seen.list_changed();
            return Err(Failure::SessionExpired);
        }
        if !status.is_success() {
            if is_of_transport_before(status) && is_initialize(&message) {
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
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let probe = match &message {
            JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)) => {
                self.probes.then(|| (request.id.clone(), &*self.seen))
            }
            _ => None,
        };
        let posted = self.post(uri, message, session_id, auth_header, custom_headers, limits);
        match probe {
            Some((id, seen)) => Self::probe(id, seen, posted).await,
            None => posted.await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        self.http.delete_session(uri, session_id, auth_header, custom_headers).await
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
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let asked = last_event_id.as_deref().and_then(|last| self.streams.request_behind(last));
        let (http, most) = (&self.http, max_sse_event_size);
        let opened =
            http.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, custom_headers, most);
        match (opened.await, asked) {
            (Ok(stream), asked) => Ok(self.streams.repaired(stream, asked)),
            (Err(gone), Some(asked)) if streams_no_events(&gone) => Ok(self.streams.lost(asked)),
            // A 401 without a challenge is handled like one with a challenge, as for messages.
            (Err(Failure::Client(error)), _) if error.status() == Some(StatusCode::UNAUTHORIZED) => {
                Err(Failure::AuthRequired(AuthRequiredError::new(String::new())))
            }
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
