//! HTTP requests to a server, with lenient parsing of responses.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use reqwest::Response;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::time::timeout;

use super::events::{Streams, event};
use crate::connection::{PROBE, Seen};
use crate::stdio::message;
use crate::text;

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Headers that the transport sets itself.
const RESERVED: [&str; 3] = ["accept", "mcp-session-id", "last-event-id"];
const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// Maximum length of an unparsable response in an error, in characters.
const SHOWN: usize = 200;

/// Sends the requests of a connection. Malformed responses are repaired where possible, as for programs. Where they
/// cannot be, the caller gets an error at once.
#[derive(Clone)]
pub(crate) struct Requests {
    http: reqwest::Client,
    streams: Streams,
    seen: Arc<Seen>,
    /// Whether the server may speak the older protocol, so that `server/discover` is a probe.
    probes: bool,
}

impl Requests {
    /// Sends requests with this client. `probes` is `true` if the server may speak the older protocol.
    pub(crate) fn new(http: reqwest::Client, seen: Arc<Seen>, probes: bool) -> Self {
        Self { http, streams: Streams::default(), seen, probes }
    }

    /// Returns the HTTP client.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Sends the `server/discover` probe. Every other outcome counts as "method not found", except authorization
    /// errors: some servers react badly to the unknown method.
    async fn probe(
        id: RequestId,
        seen: &Seen,
        asked: impl Future<Output = Result<StreamableHttpPostResponse, Failure>>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let answered = async { asked.await?.expect_initialized::<reqwest::Error>().await };
        match timeout(PROBE, answered).await {
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
            return refused(response, asked, limits).await;
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
        let messages = answers(&body, &asked)?;
        Ok(match <[ServerJsonRpcMessage; 1]>::try_from(messages) {
            Ok([answer]) => StreamableHttpPostResponse::Json(answer, given),
            Err(several) => {
                let events = several.into_iter().map(|message| Ok(event(&message)));
                StreamableHttpPostResponse::Sse(stream::iter(events.collect::<Vec<_>>()).boxed(), given)
            }
        })
    }
}

/// Parses the messages of a body. Returns an error unless one of them answers the request.
fn answers(body: &[u8], asked: &RequestId) -> Result<Vec<ServerJsonRpcMessage>, Failure> {
    let mut messages = message::read(body);
    let mut is_answered = false;
    for message in &mut messages {
        match message {
            JsonRpcMessage::Response(response) => is_answered |= response.id == *asked,
            JsonRpcMessage::Error(error) => {
                // A server that could not parse the request does not know its ID.
                is_answered |= error.id.get_or_insert_with(|| asked.clone()) == asked;
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
    }
    if is_answered {
        return Ok(messages);
    }
    Err(unusable(match messages.is_empty() {
        false => "it answered a different request".to_owned(),
        true if body.trim_ascii().is_empty() => "its answer is empty".to_owned(),
        true => format!("its answer is not a message: {}", text::line(&String::from_utf8_lossy(body), SHOWN)),
    }))
}

/// Handles a status other than 2xx: returns the JSON-RPC error in the body if there is one, otherwise the status.
async fn refused(
    response: Response,
    asked: Option<RequestId>,
    limits: StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()).map(str::to_owned);
    let (is_json, is_limit) = (is(&response, JSON), status == StatusCode::TOO_MANY_REQUESTS);
    let said = match is_limit || status.is_server_error() && !is_json {
        true => Vec::new(),
        false => body(response, limits.max_json_response_size).await.unwrap_or_default(),
    };
    if let Some(asked) = asked.filter(|_| is_json) {
        let answer = answers(&said, &asked).unwrap_or_default().into_iter().find(|answer| match answer {
            JsonRpcMessage::Error(error) => error.id.as_ref() == Some(&asked),
            _ => false,
        });
        if let Some(answer) = answer {
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
    }
    if is_limit || status.is_server_error() {
        return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
    }
    let said = text::line(&String::from_utf8_lossy(&said), SHOWN);
    let colon = if said.is_empty() { "" } else { ": " };
    Err(unusable(format!("{} {}{colon}{said}", super::STATUS, status.as_u16())))
}

/// Returns the authorization error that a response stands for, if any.
fn authorization(status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
    let challenge = headers.get(WWW_AUTHENTICATE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, challenge) => {
            Some(Failure::AuthRequired(AuthRequiredError::new(challenge.unwrap_or_default())))
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let scope = scope(&challenge);
            Some(Failure::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        _ => None,
    }
}

/// Returns the scope named in a `WWW-Authenticate` challenge.
fn scope(challenge: &str) -> Option<String> {
    let at = challenge.to_ascii_lowercase().find("scope=")?;
    let value = challenge.get(at..)?.split_once('=')?.1;
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0,
        None => value.split([',', ';', ' ']).next()?,
    };
    Some(scope.to_owned()).filter(|scope| !scope.is_empty())
}

/// Returns the content type of a response.
fn kind(response: &Response) -> Option<&str> {
    response.headers().get(CONTENT_TYPE)?.to_str().ok()
}

fn is(response: &Response, expected: &str) -> bool {
    let kind = kind(response).and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(expected))
}

/// Reads a body of at most `most` bytes.
async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > most {
            return Err(Failure::ResponseBodyTooLarge { max_size: most });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns an error that describes an unusable response to a person.
fn unusable(words: String) -> Failure {
    Failure::Io(io::Error::other(words))
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
            (Ok(stream), asked) => Ok(self.streams.mended(stream, asked)),
            (Err(gone), Some(asked)) if is_gone(&gone) => Ok(self.streams.lost(asked)),
            (Err(error), _) => Err(error),
        }
    }
}

/// Whether the server no longer has a stream, so that resuming it is useless.
fn is_gone(error: &Failure) -> bool {
    match error {
        Failure::Client(error) => error.status().is_some_and(|status| status.is_client_error()),
        Failure::ServerDoesNotSupportSse | Failure::UnexpectedContentType(_) => true,
        _ => false,
    }
}
