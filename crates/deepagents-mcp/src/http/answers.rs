//! Parses the response to a request: a message, an error status, or an authorization challenge.

use std::io;

use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use reqwest::Response;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};

use super::Failure;
use crate::stdio::message;
use crate::text;

pub(super) const JSON: &str = "application/json";
/// Maximum length of an unparsable response in an error, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// Parses the messages of a body. Returns an error unless one of them answers the request.
pub(super) fn parse_answers(body: &[u8], asked: &RequestId) -> Result<Vec<ServerJsonRpcMessage>, Failure> {
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
        true => format!("its answer is not a message: {}", text::line(&String::from_utf8_lossy(body), MAX_SHOWN_CHARS)),
    }))
}

/// Handles a status other than 2xx: returns the JSON-RPC error in the body if there is one, otherwise the status.
pub(super) async fn refused(
    response: Response,
    asked: Option<RequestId>,
    limits: StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, Failure> {
    let (status, is_json) = (response.status(), is(&response, JSON));
    let overload = is_overload(status).then(|| status_error(&response));
    let said = match status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() && !is_json {
        true => Vec::new(),
        false => body(response, limits.max_json_response_size).await.unwrap_or_default(),
    };
    if let Some(asked) = asked.filter(|_| is_json) {
        let answer = parse_answers(&said, &asked).unwrap_or_default().into_iter().find(|answer| match answer {
            JsonRpcMessage::Error(error) => error.id.as_ref() == Some(&asked),
            _ => false,
        });
        if let Some(answer) = answer {
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
    }
    if let Some(overload) = overload {
        return Err(overload);
    }
    let said = text::line(&String::from_utf8_lossy(&said), MAX_SHOWN_CHARS);
    let colon = if said.is_empty() { "" } else { ": " };
    Err(unusable(format!("{} {}{colon}{said}", super::STATUS, status.as_u16())))
}

/// Whether a request that was answered with this status may succeed later.
pub(super) fn is_overload(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// Returns the error for the status of a response, with the time after which the request may be repeated.
pub(super) fn status_error(response: &Response) -> Failure {
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()).map(str::to_owned);
    HttpStatusError::new(response.status().as_u16(), retry_after).into()
}

/// Returns the authorization error that a response stands for, if any.
pub(super) fn authorization(status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
    match (status, challenges(headers)) {
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

/// Returns the `WWW-Authenticate` challenges of a response, which may be in several headers.
pub(crate) fn challenges(headers: &HeaderMap) -> Option<String> {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let challenges: Vec<_> = challenges.collect();
    (!challenges.is_empty()).then(|| challenges.join(", "))
}

/// Returns the `scope` parameter of challenges. A description that mentions one does not count.
fn scope(challenges: &str) -> Option<String> {
    let mut rest = challenges;
    while let Some((before, value)) = rest.split_once('=') {
        let name = before.trim_end().rsplit([' ', '\t', ',', ';']).next().unwrap_or_default();
        let value = value.trim_start();
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => {
                // A quote behind an odd number of backslashes is part of the value.
                let is_end = |at: &usize| {
                    quoted.get(..*at).is_some_and(|text| (text.len() - text.trim_end_matches('\\').len()) % 2 == 0)
                };
                quoted.split_at(quoted.match_indices('"').map(|(at, _)| at).find(is_end).unwrap_or(quoted.len()))
            }
            None => value.split_at(value.find([',', ';', ' ']).unwrap_or(value.len())),
        };
        if name.eq_ignore_ascii_case("scope") && !value.is_empty() {
            return Some(value.to_owned());
        }
        rest = behind.trim_start_matches('"');
    }
    None
}

/// Returns the content type of a response.
pub(super) fn kind(response: &Response) -> Option<&str> {
    response.headers().get(CONTENT_TYPE)?.to_str().ok()
}

pub(super) fn is(response: &Response, expected: &str) -> bool {
    let kind = kind(response).and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(expected))
}

/// Reads a body of at most `most` bytes.
pub(super) async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
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
pub(super) fn unusable(words: String) -> Failure {
    Failure::Io(io::Error::other(words))
}
