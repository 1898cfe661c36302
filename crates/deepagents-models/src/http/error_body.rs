//! Reads error bodies in their many formats.

use std::collections::BTreeSet;
use std::time::Duration;

use deepagents_core::model::ErrorInfo;
use serde_json::Value;

use crate::json::is_empty;

/// Number of characters quoted from an unreadable response.
const MAX_QUOTED_CHARS: usize = 400;

/// Code for requests rejected by a gateway's own moderation, which it marks only by stating reasons.
pub(super) const MODERATION: &str = "moderation";

/// Where the message of an error may be, the best first.
const MESSAGE_POINTERS: [&str; 13] = [
    "message",
    "Message",
    "detail",
    "msg",
    "error_msg",
    "error_description",
    "error",
    "errors",
    "title",
    "text",
    "reason",
    "fault",
    "faultstring",
];

/// Returns an error's details and its codes, the most specific first. Understands `{error: {message, type, code}}`,
/// `{error: "…"}`, `{message, type, code}`, `{detail: …}`, `{errors: […]}` and arrays of them; quotes other formats as
/// they are.
pub(super) fn read(value: &Value) -> (ErrorInfo, Vec<String>) {
    let top = first(value);
    let error = ["error", "errors"].iter().find_map(|key| top.get(key).filter(|error| !error.is_null()));
    let error = error.map_or(top, first);
    let text = |key: &str| [error, top].iter().find_map(|value| value.get(key)?.as_str()).map(str::to_owned);
    let kind = text("type").filter(|kind| kind != "error");
    let mut codes: Vec<String> = text("code").into_iter().chain(kind).chain(text("status")).collect();
    let number = |key: &str| error.get(key).and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = ["code", "status"].iter().filter_map(|key| number(key)).find(|status| (400..600).contains(status));
    let mut message = match (message_of(error), top.as_object().filter(|_| error.is_string())) {
        // The kind of error only, with the message beside it.
        (Some(kind), Some(top)) => {
            match ["message", "error_description"].iter().find_map(|key| message_of(top.get(*key)?)) {
                Some(more) => format!("{kind}: {more}"),
                None => kind,
            }
        }
        (words, _) => words.or_else(|| message_of(top)).unwrap_or_default(),
    };
    if let Some(raw) = error.pointer("/metadata/raw").filter(|raw| !raw.is_null()) {
        // Gateways put the underlying provider's message here.
        let raw = raw.as_str().map_or_else(|| raw.to_string(), str::to_owned);
        message = format!("{message}: {}", quote(&raw));
    }
    if message.is_empty() && !is_empty(value) {
        message = quote(&value.to_string());
    } else {
        for unsaid in [error, top].into_iter().filter_map(|level| unsaid(level, &message)).collect::<BTreeSet<_>>() {
            message = format!("{message} ({unsaid})");
        }
    }
    if let Some(text) = error.get("failed_generation").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        message = format!("{message} The model said: {}", quote(text));
    }
    let reasons = error.pointer("/metadata/reasons").and_then(Value::as_array);
    if let Some(reasons) = reasons {
        let reasons: Vec<&str> = reasons.iter().filter_map(Value::as_str).collect();
        message = format!("{message} (flagged for: {})", reasons.join(", "));
        codes.push(MODERATION.to_owned());
    }
    codes.extend(quotas(error));
    let info = ErrorInfo {
        message,
        status,
        code: codes.first().cloned(),
        retry_after: retry_delay(error),
        request_id: top.get("request_id").and_then(Value::as_str).map(str::to_owned),
    };
    (info, codes)
}

fn first(value: &Value) -> &Value {
    value.as_array().and_then(|list| list.first()).unwrap_or(value)
}

/// Returns the message of an error, whatever its field is called.
fn message_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(list) => {
            let texts: Vec<String> = list.iter().filter_map(message_of).collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        }
        Value::Object(map) => MESSAGE_POINTERS.iter().find_map(|key| match map.get(*key)? {
            // A list says which part of the request is at fault.
            detail @ (Value::Array(_) | Value::Object(_)) if *key == "detail" => Some(quote(&detail.to_string())),
            words => message_of(words),
        }),
        _ => None,
    }
}

/// Returns what an error says about the request beside its general message, such as which field is at fault.
fn unsaid(level: &Value, message: &str) -> Option<String> {
    let fields = violations(level, "fieldViolations").filter_map(|violation| {
        let text = |key: &str| violation.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some([text("field"), Some(text("description")?)].into_iter().flatten().collect::<Vec<_>>().join(": "))
    });
    let mut parts: Vec<String> = fields.collect();
    for key in ["param", "detail", "details", "errors"] {
        // Google's details are typed: what they say of the request is in the violations above.
        let is_typed = |value: &Value| value.get(0).is_some_and(|first| first.get("@type").is_some());
        match level.get(key).filter(|value| !is_empty(value) && !is_typed(value)) {
            Some(Value::String(text)) => parts.push(text.clone()),
            Some(value @ (Value::Array(_) | Value::Object(_))) => parts.push(value.to_string()),
            _ => {}
        }
    }
    parts.retain(|text| !is_said(text, message));
    (!parts.is_empty()).then(|| quote(&parts.join("; ")))
}

/// Returns whether a message has a text, or the message in it, already.
fn is_said(text: &str, message: &str) -> bool {
    message.contains(text) || text.contains(message)
}

/// Returns the violations of a kind in Google's details.
fn violations<'a>(error: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    details.filter_map(move |detail| detail.get(kind)?.as_array()).flatten()
}

/// Returns the names of Google's exceeded quotas, from the details.
fn quotas(error: &Value) -> impl Iterator<Item = String> {
    violations(error, "violations").filter_map(|violation| violation.get("quotaId")?.as_str().map(str::to_owned))
}

/// Returns the delay that Google requests: `retryDelay` in the details, as in `34.5s`.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error.get("details").and_then(Value::as_array)?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds = delay.strip_suffix('s')?.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Summarises a body that is not JSON. Of a web page, as sent by proxies and other servers, returns the title.
pub(super) fn words(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return quote(body);
    }
    let title = body.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    match title.map(|(title, _)| title.trim()).filter(|title| !title.is_empty()) {
        Some(title) => format!("the server answered with a page that is titled \"{}\"", quote(title)),
        None => "the server answered with a page".to_owned(),
    }
}

/// Returns the start of a text.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
