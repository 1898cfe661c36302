//! Reads JSON of providers, as far as it can be understood.

use deepagents_core::model::ModelError;
use serde_json::{Map, Value};

use crate::exact;
use crate::http::{from_stream, mended};

/// Parses JSON sent by a provider; `what` names it in the error.
pub(crate) fn parse(what: &str, bytes: &[u8]) -> Result<Value, ModelError> {
    read(bytes).map_err(|error| ModelError::protocol(format!("{what} is not valid JSON: {error}")))
}

/// Parses a complete response, with the call arguments at `path` [kept](exact::keep). A response that ends early was
/// truncated in transit.
pub(crate) fn parse_answer(body: &[u8], path: &[&str]) -> Result<Value, ModelError> {
    let mut answer = read(body).map_err(|error| {
        let message = format!("the answer is not valid JSON: {error}");
        if error.is_eof() { ModelError::truncated(message) } else { ModelError::protocol(message) }
    })?;
    exact::keep(&mut answer, body, path);
    Ok(answer)
}

/// Parses a complete response that must be an object.
pub(crate) fn parse_object(body: &[u8], path: &[&str]) -> Result<Map<String, Value>, ModelError> {
    match parse_answer(body, path)? {
        Value::Object(answer) => Ok(answer),
        _ => Err(ModelError::protocol("the answer is not an object")),
    }
}

/// Parses an event of a stream, with the call arguments at `path` [kept](exact::keep). Returns `None` if there is
/// nothing in it.
///
/// # Errors
/// Returns an error if it cannot be parsed, or if it reports that the call failed.
pub(crate) fn parse_event(data: &str, path: &[&str]) -> Result<Option<Map<String, Value>>, ModelError> {
    // Some gateways end the stream with `[DONE]`, as in another wire.
    if data.is_empty() || data == "[DONE]" {
        return Ok(None);
    }
    let mut event = parse("an event of the answer", data.as_bytes())?;
    // Some servers always send the field.
    if event.get("error").is_some_and(|error| !is_empty(error) && error != false) {
        return Err(from_stream(&event));
    }
    exact::keep(&mut event, data.as_bytes(), path);
    Ok(if let Value::Object(event) = event { Some(event) } else { None })
}

fn read(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        let text = std::str::from_utf8(bytes).map_err(|_| error)?;
        serde_json::from_str(&mended(text))
    })
}

/// Merges a delta into a field: strings, arrays and objects are extended, everything else is replaced. This is correct
/// for known fields and the best guess for new ones.
pub(crate) fn merge_delta(target: &mut Value, delta: Value) {
    match (target, delta) {
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (Value::Array(list), Value::Array(more)) => list.extend(more),
        (Value::Object(object), Value::Object(more)) => object.extend(more),
        (_, Value::Null) => {}
        (target, delta) => *target = delta,
    }
}

/// Merges the fields of a delta into an object, each as [`merge_delta`] does.
pub(crate) fn merge_fields(object: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (key, value) in delta {
        merge_delta(object.entry(key).or_insert(Value::Null), value);
    }
}

/// Returns the text of a field, or an empty one.
pub(crate) fn text(field: Option<&Value>) -> &str {
    field.and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number in a field, or zero.
pub(crate) fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Reads a count or an index, also if written as `5.0` or as a string.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let exact = || number.as_f64().filter(|n| n.fract() == 0.0).and_then(|n| format!("{n}").parse().ok());
            number.as_u64().or_else(exact)
        }
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns whether a field has a value.
pub(crate) fn is_given(field: Option<&Value>) -> bool {
    field.is_some_and(|value| !value.is_null())
}

/// Returns whether a value contains nothing.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

/// Returns the objects of a list.
pub(crate) fn objects(list: Vec<Value>) -> impl Iterator<Item = Map<String, Value>> {
    list.into_iter().filter_map(|item| if let Value::Object(item) = item { Some(item) } else { None })
}
