//! Error responses: the provider's message must reach the reader of the error, under the right class.

use deepagents_core::model::ModelError;
use serde_json::Value;

use crate::recording::Answer;
use crate::said;

/// Compares an error with the response that it was made from.
pub(crate) fn check(error: &ModelError, answer: &Answer) -> Result<(), String> {
    let expected = class(answer);
    if error.kind() != expected {
        return Err(format!("it is {expected}, and the error says {}: {error}", error.kind()));
    }
    let info = error.info();
    if info.status != Some(answer.status) {
        return Err(format!("the status was {}, and the error says {:?}", answer.status, info.status));
    }
    if let Some(words) = provider_message(&answer.body).filter(|words| !error.to_string().contains(words)) {
        return Err(format!("the provider said {words:?}, and the error says {error}"));
    }
    match request_id(answer) {
        Some(id) if info.request_id.as_deref() != Some(id) => {
            Err(format!("the request is {id}, and the error says {:?}", info.request_id))
        }
        _ => Ok(()),
    }
}

/// Returns the error event of a response with a success status: an event of its stream, or the whole body.
pub(crate) fn stream_error(answer: &Answer) -> Option<Value> {
    let is_error = |event: &Value| {
        event.get("type").is_some_and(|kind| kind == "error")
            || event.get("error").is_some_and(|error| error.is_object() || error.is_string())
    };
    said::events(&answer.body).into_iter().find(is_error)
}

/// Compares an error with the event that it was made from. The class is compared only if the event contains a status.
pub(crate) fn check_told(error: &ModelError, event: &Value) -> Result<(), String> {
    let body = event.to_string().into_bytes();
    if let Some(words) = provider_message(&body).filter(|words| !error.to_string().contains(words)) {
        return Err(format!("the provider said {words:?}, and the error says {error}"));
    }
    let status = ["/error/code", "/error/status", "/code"].iter().find_map(|at| event.pointer(at)?.as_u64());
    let status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status));
    let Some(status) = status else { return Ok(()) };
    let expected = class(&Answer { path: String::new(), status, headers: Vec::new(), body });
    if error.kind() == expected {
        Ok(())
    } else {
        Err(format!("it is {expected}, and the error says {}", error.kind()))
    }
}

/// Returns the class that an application should see, judging by the recording.
fn class(answer: &Answer) -> &'static str {
    let body = String::from_utf8_lossy(&answer.body).to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| body.contains(word));
    match answer.status {
        403 if says(&["\"reasons\""]) => "invalid_request",
        401..=403 => "auth",
        400 if says(&["api_key_invalid", "incorrect api key", "credit balance is too low"]) => "auth",
        429 if says(&["insufficient_quota"]) => "auth",
        429 if says(&["exceeded your current quota"]) && !says(&["resource_exhausted", "retrydelay"]) => "auth",
        400 | 413 if says(&["exceed_context_size", "context_length_exceeded", "prompt is too long"]) => {
            "context_length"
        }
        429 if says(&["perday"]) => "auth",
        429 if says(&["request too large for", "extra usage is required for long context"]) => "context_length",
        400 if says(&["tool_use_failed"]) => "overloaded",
        429 => "rate_limited",
        408 | 409 | 425 => "overloaded",
        501 | 505 => "invalid_request",
        500.. => "overloaded",
        _ => "invalid_request",
    }
}

/// Returns the provider's message, wherever it is in the body.
fn provider_message(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let first = value.get(0).unwrap_or(&value);
    let error = first.get("error").unwrap_or(first);
    let known = ["message", "detail"].iter().find_map(|key| error.get(key)?.as_str());
    known.or(error.as_str()).map(str::to_owned)
}

fn request_id(answer: &Answer) -> Option<&str> {
    let is_id = |name: &str| {
        let name = name.to_lowercase();
        ["request-id", "requestid", "correlation-id"].iter().any(|end| name.ends_with(end))
    };
    answer.headers.iter().find(|(name, _)| is_id(name)).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            path: "/v1/messages".into(),
            status,
            headers: vec![("X-Request-Id".into(), "r1".into())],
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn an_error_inside_a_stream_is_checked_as_an_error() {
        let stream = "data: {\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"slow\",\"code\":429}}\n\n";
        let event = stream_error(&answer(200, stream)).unwrap();
        assert_eq!(check_told(&ModelError::RateLimited("slow".into()), &event), Ok(()));
        assert!(check_told(&ModelError::Overloaded("slow".into()), &event).unwrap_err().contains("it is rate_limited"));
        assert!(check_told(&ModelError::RateLimited("no".into()), &event).unwrap_err().contains("the provider said"));
        assert!(stream_error(&answer(200, "data: {\"choices\":[],\"error\":null}\n\ndata: [DONE]\n\n")).is_none());
    }

    #[test]
    fn an_error_with_the_wrong_class_message_or_request_id_fails() {
        let refused = answer(401, r#"{"error":{"message":"API key is invalid."}}"#);
        let mut info = deepagents_core::model::ErrorInfo::from("API key is invalid.");
        (info.status, info.request_id) = (Some(401), Some("r1".to_owned()));
        assert_eq!(check(&ModelError::Auth(info.clone()), &refused), Ok(()));
        assert!(check(&ModelError::Invalid(info.clone()), &refused).unwrap_err().contains("it is auth"));
        let other = deepagents_core::model::ErrorInfo { message: "no".to_owned(), ..info.clone() };
        assert!(check(&ModelError::Auth(other), &refused).unwrap_err().contains("the provider said"));
        info.request_id = None;
        assert!(check(&ModelError::Auth(info), &refused).unwrap_err().contains("the request is r1"));
    }
}
