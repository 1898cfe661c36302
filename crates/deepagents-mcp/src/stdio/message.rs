//! Parses messages leniently. If a response cannot be parsed, its caller gets an error at once and does not wait for
//! the timeout.

use deepagents_core::json::{Outline, mend_escapes};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::{Map, Value, json};

use super::shallow::shallow;
use crate::text;

/// Maximum length of a parse error, in characters.
const MAX_ERROR_CHARS: usize = 300;
/// Nesting depth to which a tool list that is too deep is read.
const MAX_DEPTH: usize = 100;
/// Maximum number of positions in a line where a message after other text is looked for.
const MAX_POSITIONS: usize = 8;

/// Parses the messages of a line: usually one, several for a batch, none if the line is anything else.
pub(crate) fn read(line: &[u8]) -> Vec<ServerJsonRpcMessage> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if let Ok(message) = serde_json::from_slice(line) {
        return vec![by_number(message)];
    }
    let line = String::from_utf8_lossy(line);
    match line.chars().next() {
        Some('{' | '[') => values(&line),
        Some(_) => parse_after_text(&line),
        None => Vec::new(),
    }
}

/// Returns an error in place of a response that cannot be parsed.
pub(crate) fn unreadable(id: RequestId, why: &str) -> ServerJsonRpcMessage {
    let words = format!("unreadable answer: {}", text::line(why, MAX_ERROR_CHARS));
    by_number(JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, words, None), Some(id)))
}

/// Parses a request ID.
pub(super) fn request_id(id: Value) -> Option<RequestId> {
    serde_json::from_value(id).ok()
}

/// Parses the messages of a text that starts as JSON.
fn values(line: &str) -> Vec<ServerJsonRpcMessage> {
    let mended = mend_escapes(line);
    let mut messages = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(&mended).into_iter::<Value>();
    loop {
        let begins = stream.byte_offset();
        match stream.next() {
            None => return messages,
            Some(Ok(Value::Array(batch))) => messages.extend(batch.into_iter().filter_map(parse_one)),
            Some(Ok(value)) => messages.extend(parse_one(value)),
            Some(Err(problem)) => {
                if let Some(list) = list_of_tools(mended.get(begins..).unwrap_or_default()) {
                    messages.push(list);
                    return messages;
                }
                let mut outline = Outline::default();
                outline.push(mended.get(begins..).unwrap_or_default().as_bytes());
                messages.extend(outline.answered().and_then(request_id).map(|id| unreadable(id, &problem.to_string())));
                return messages;
            }
        }
    }
}

/// Parses a tool list that is nested too deeply, without the parts that are too deep: one such tool must not hide the
/// others.
fn list_of_tools(text: &str) -> Option<ServerJsonRpcMessage> {
    let read: Value = serde_json::from_str(&shallow(text, MAX_DEPTH)).ok()?;
    read.get("result")?.get("tools")?.as_array()?;
    parse_one(read)
}

/// Parses a response that follows other text on a line, such as log output. A request in such a place is only logged,
/// not sent.
fn parse_after_text(line: &str) -> Vec<ServerJsonRpcMessage> {
    let places = line.match_indices('{').take(MAX_POSITIONS).filter_map(|(at, _)| line.get(at..));
    let mut values = places.filter_map(|rest| serde_json::from_str::<Value>(&mend_escapes(rest)).ok());
    let value = values.next().filter(|value| value.get("jsonrpc").is_some() && value.get("method").is_none());
    value.and_then(parse_one).into_iter().collect()
}

/// Parses one message, and repairs it where the intent is clear.
fn parse_one(value: Value) -> Option<ServerJsonRpcMessage> {
    let Value::Object(mut fields) = value else { return None };
    if fields.contains_key("method") {
        // Invalid parameters must not prevent the request from being refused.
        fields.retain(|name, value| name != "params" || value.is_object());
        return serde_json::from_value(Value::Object(fields)).ok();
    }
    let id: RequestId = serde_json::from_value(fields.get("id")?.clone()).ok()?;
    let is_answer = fields.contains_key("result") || fields.contains_key("error");
    if !is_answer && fields.contains_key("jsonrpc") {
        return Some(unreadable(id, "it has neither a result nor an error"));
    }
    // A log line may have an `id` too.
    let is_bare = || fields.keys().all(|name| ["id", "result", "error"].contains(&name.as_str()));
    if !is_answer || (!fields.contains_key("jsonrpc") && !is_bare()) {
        return None;
    }
    repair_response(&mut fields);
    match serde_json::from_value(Value::Object(fields)) {
        Ok(message) => Some(by_number(message)),
        Err(problem) => Some(unreadable(id, &problem.to_string())),
    }
}

fn repair_response(fields: &mut Map<String, Value>) {
    fields.insert("jsonrpc".to_owned(), "2.0".into());
    for (nothing, beside) in [("error", "result"), ("result", "error")] {
        if fields.get(nothing).is_some_and(Value::is_null) && fields.contains_key(beside) {
            fields.remove(nothing);
        }
    }
    let Some(error) = fields.get_mut("error") else { return };
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let words = error.as_str().or_else(|| error.get("message").and_then(Value::as_str)).map(str::to_owned);
    let words = words.unwrap_or_else(|| text::cut(&error.to_string(), MAX_ERROR_CHARS));
    let data = error.get("data").cloned();
    *error = json!({"code": code.unwrap_or(ErrorCode::INTERNAL_ERROR.0), "message": words, "data": data});
}

/// Converts a numeric request ID in a string back to a number. Some servers convert all IDs to strings.
fn by_number(mut message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    let id = match &mut message {
        JsonRpcMessage::Response(response) => Some(&mut response.id),
        JsonRpcMessage::Error(error) => error.id.as_mut(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    };
    if let Some(id) = id
        && let RequestId::String(text) = &*id
        && let Ok(number) = text.parse()
    {
        *id = RequestId::Number(number);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Vec<Value> {
        read(line.as_bytes()).iter().map(|message| serde_json::to_value(message).unwrap()).collect()
    }

    #[test]
    fn imperfect_but_unambiguous_messages_are_accepted() {
        let result = json!({"jsonrpc": "2.0", "id": 3, "result": {"x": 1}});
        for line in [
            r#"{"id":3,"result":{"x":1}}"#,
            r#"{"jsonrpc":"2.0","id":"3","result":{"x":1},"error":null}"#,
            r#"[{"jsonrpc":"2.0","id":3.0,"result":{"x":1}}]"#,
            r#"DEBUG {sent} {"jsonrpc":"2.0","id":3,"result":{"x":1}}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"x\":1}} trailing",
        ] {
            assert_eq!(shown(line), std::slice::from_ref(&result), "{line}");
        }
        let error = json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "no"}});
        for line in [
            r#"{"jsonrpc":"2.0","id":3,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":null,"error":{"code":"E_NO","message":"no"}}"#,
        ] {
            assert_eq!(shown(line), std::slice::from_ref(&error), "{line}");
        }
        assert_eq!(shown(r#"{"jsonrpc":"2.0","id":3,"error":{"code":4}}"#)[0]["error"]["message"], "{\"code\":4}");
        let refused = shown(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#);
        assert_eq!(refused, [json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})]);
    }

    #[test]
    fn a_response_without_a_result_becomes_an_error() {
        for line in [r#"{"jsonrpc":"2.0","id":3}"#, r#"{"jsonrpc":"2.0","id":3,"results":{}}"#] {
            let told = shown(line);
            assert!(
                told[0]["id"] == 3 && told[0]["error"]["message"].as_str().unwrap().contains("neither"),
                "{told:?}"
            );
        }
    }

    #[test]
    fn lines_that_are_not_messages_are_ignored() {
        for line in [
            "",
            "Welcome!",
            "{not json",
            "[1, null]",
            r#"{"level":"debug","id":3,"error":"x"}"#,
            r#"DEBUG got {"jsonrpc":"2.0","id":3,"method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","method":"window/logMessage","params":"x","id":null}"#,
        ] {
            assert_eq!(shown(line), [Value::Null; 0], "{line}");
        }
    }

    #[test]
    fn no_line_makes_the_parser_panic() {
        let seeds = [
            r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"\ud83d\ude00 é\\"}]}}"#,
            r#"[{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"x"}},{"id":"4","result":null}] {"#,
            r#"DEBUG {x} {"result":{"n":NaN},"jsonrpc":"2.0","id":5}"#,
        ];
        let deep = format!("{{\"id\":6,\"result\":{}", "[".repeat(100_000));
        assert_eq!(shown(&deep).len(), 1);
        // A deterministic pseudo-random sequence.
        let mut state = 1_u64;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below.max(1)
        };
        let bytes = b"{}[]\",:\\ud8cf0-e1. n\xff\xc3\x00tid";
        for _ in 0..20_000 {
            let mut line = seeds[next(seeds.len())].as_bytes().to_vec();
            for _ in 0..=next(6) {
                let (at, byte) = (next(line.len()), bytes[next(bytes.len())]);
                match next(3) {
                    0 => line[at] = byte,
                    1 => line.insert(at, byte),
                    _ => line.truncate(at.max(1)),
                }
            }
            for message in read(&line) {
                serde_json::to_string(&message).unwrap();
            }
        }
    }
}
