//! Converts transport and provider failures to typed errors.

mod classes;
mod transport;
mod wait;

use deepagents_core::model::ModelError;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::Value;

pub(super) use self::classes::classify;
pub(super) use self::transport::{authority, from_transport};
use self::wait::retry_after;
use super::error_body::{quote, read, words};
use super::rate_limit;

/// Headers in which providers return a request ID.
const REQUEST_ID: [&str; 7] = [
    "request-id",
    "x-request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "mistral-correlation-id",
    "x-oai-request-id",
    "cf-request-id",
];

/// Returns the text of a header.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// Returns the ID that a provider gave a request.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    REQUEST_ID.iter().find_map(|name| header(headers, name)).map(str::to_owned)
}

/// Converts a response with an error status.
pub(crate) fn from_body(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let (mut info, codes) = match serde_json::from_slice::<Value>(body) {
        Ok(value) => read(&value),
        Err(_) => {
            let message = compressed(headers).unwrap_or_else(|| words(&String::from_utf8_lossy(body)));
            (message.into(), Vec::new())
        }
    };
    if info.message.is_empty() {
        info.message = match header(headers, "location") {
            Some(target) if (300..400).contains(&status) => {
                format!("the server redirects to {target}; set that as the address")
            }
            _ => "the server gave no reason".to_owned(),
        };
    }
    info.status = Some(status);
    info.retry_after = retry_after(headers).or(info.retry_after);
    if status == 429 && info.retry_after.is_none() {
        info.retry_after = rate_limit::resets_after(headers).or_else(|| rate_limit::delay_in_message(&info.message));
    }
    info.request_id = request_id(headers).or(info.request_id);
    // Amazon puts the error class in a header, followed by a URL.
    let amazon = header(headers, "x-amzn-errortype").and_then(|kind| kind.split(':').next().map(str::to_owned));
    info.code = info.code.or_else(|| amazon.clone());
    let codes: Vec<String> = codes.into_iter().chain(amazon).collect();
    classify(Some(status), &codes, info)
}

/// Returns a message if a response is compressed, which was not requested and cannot be read.
pub(super) fn compressed(headers: &HeaderMap) -> Option<String> {
    const KNOWN: [&str; 5] = ["gzip", "x-gzip", "br", "deflate", "zstd"];
    let is_known = |encoding: &&str| KNOWN.iter().any(|known| encoding.eq_ignore_ascii_case(known));
    let encoding = header(headers, "content-encoding").filter(is_known)?;
    Some(format!("the server compresses its answers without being asked (content-encoding: {encoding})"))
}

/// Returns a message if a response is a web page or other text instead of an API response: then the address is wrong,
/// and a retry would not help. Responses labelled as JSON or events are accepted, and so are those that look like them.
pub(super) fn page(headers: &HeaderMap, body: &[u8], url: &Url) -> Option<String> {
    let kind = header(headers, "content-type").unwrap_or_default();
    let is_page = kind.contains("html") || kind.contains("text/plain");
    let text = body.trim_ascii_start();
    let looks_like_api = text.first().is_none_or(|first| matches!(first, b'{' | b'[' | 0))
        || text.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| line.starts_with(b"data:"));
    if looks_like_api || !(is_page || text.starts_with(b"<")) {
        return None;
    }
    let what = if text.starts_with(b"<") { "a web page" } else { "a text" };
    let hint = if url.path().contains("/v1") { "" } else { " Addresses of such APIs often end with `/v1`." };
    let (server, path) = (authority(url), url.path());
    Some(format!("{server}{path} answered with {what} instead of an API response; is the address right?{hint}"))
}

/// Converts an error inside a streamed response with a success status; `value` is the whole event.
pub(crate) fn from_stream(value: &Value) -> ModelError {
    let (mut info, codes) = read(value);
    if info.message.is_empty() {
        info.message = quote(&value.to_string());
    }
    // The status in the event determines the class; the response itself had another.
    let status = info.status.take();
    match classify(status, &codes, info) {
        ModelError::RateLimited(mut info) => {
            info.retry_after = info.retry_after.or_else(|| rate_limit::delay_in_message(&info.message));
            ModelError::RateLimited(info)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> ModelError {
        let map = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect();
        from_body(status, &map, body.as_bytes())
    }

    #[test]
    fn every_form_of_error_body_is_classified() {
        let cases = [
            (429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#, "rate_limited"),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                "auth",
            ),
            (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "overloaded"),
            (503, "<html>busy</html>", "overloaded"),
            (408, "", "overloaded"),
            (409, "{}", "overloaded"),
            (401, r#"{"detail":"Invalid API Key"}"#, "auth"),
            (402, r#"{"error":{"message":"Insufficient Balance"}}"#, "auth"),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                "context_length",
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
                "context_length",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"request (2009 tokens) exceeds the available context size (512 tokens)","type":"exceed_context_size_error"}}"#,
                "context_length",
            ),
            (
                400,
                r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens.","type":"invalid_request_error"}}"#,
                "context_length",
            ),
            (400, r#"{"detail":"litellm.ContextWindowExceededError: too much"}"#, "context_length"),
            (400, r#"{"error":{"message":"upstream: context_length_exceeded","code":400}}"#, "context_length"),
            (
                413,
                r#"{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                "context_length",
            ),
            (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", "context_length"),
            (413, "", "context_length"),
            (
                413,
                r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens."}}"#,
                "context_length",
            ),
            (
                400,
                r#"{"error":{"status":"INVALID_ARGUMENT","message":"Request payload size exceeds the limit: 20971520 bytes."}}"#,
                "context_length",
            ),
            (400, r#"{"code":"1500","message":"Invalid model: x","type":"invalid_model"}"#, "invalid_request"),
            (404, r#"{"error":"model 'x' not found"}"#, "invalid_request"),
            (400, r#"{"error":{"message":"Your credit balance is too low","type":"invalid_request_error"}}"#, "auth"),
        ];
        for (status, body, kind) in cases {
            assert_eq!(answer(status, &[], body).kind(), kind, "{status} {body}");
        }
    }

    #[test]
    fn only_the_title_of_an_html_error_page_is_quoted() {
        let message = |body| answer(502, &[], body).info().message.clone();
        let page = "<html>\n<head><title>502 Bad Gateway</title></head><body>many words</body></html>";
        assert_eq!(message(page), "the server answered with a page that is titled \"502 Bad Gateway\"");
        assert_eq!(message("<html>busy</html>"), "the server answered with a page");
    }

    #[test]
    fn retry_after_is_parsed_as_milliseconds_seconds_or_a_date() {
        let after = |headers: &[(&'static str, &str)]| answer(429, headers, "{}").info().retry_after;
        assert_eq!(after(&[("retry-after-ms", "250"), ("retry-after", "9")]), Some(Duration::from_millis(250)));
        assert_eq!(after(&[("retry-after", "0")]), Some(Duration::ZERO));
        assert_eq!(
            after(&[("date", "Sat, 21 Nov 2026 07:00:00 GMT"), ("retry-after", "Sat, 21 Nov 2026 07:00:30 GMT")]),
            Some(Duration::from_secs(30))
        );
        assert_eq!(after(&[("retry-after", "-3")]), None);
        // If the server's clock is unknown, ours is used.
        assert_eq!(after(&[("retry-after", "Sat, 21 Nov 1998 07:00:30 GMT")]), Some(Duration::ZERO));
        assert!(after(&[("retry-after", "Wed, 21 Nov 2598 07:00:30 GMT")]) > Some(Duration::from_secs(1_000_000_000)));
    }

    #[test]
    fn an_errors_message_code_and_request_id_are_kept() {
        let error = answer(
            404,
            &[("request-id", "req_1")],
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
        );
        assert_eq!(
            error.to_string(),
            "the provider refused the request: model: x (HTTP 404, not_found_error, request req_1)"
        );
        assert_eq!(from_stream(&serde_json::json!({"error": {"code": 429, "message": "m"}})).kind(), "rate_limited");
        assert_eq!(
            from_stream(&serde_json::json!({"type": "error", "error": {"type": "overloaded_error"}})).kind(),
            "overloaded"
        );
    }
}
