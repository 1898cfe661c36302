//! Parses the arguments of a tool call from the model's text.

use serde_json::{Map, Value};

use crate::http::mended;

/// Returns whether a text is valid JSON.
pub(crate) fn is_json(raw: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok()
}

/// Error for a call that the token limit cut off before its first argument.
pub(crate) const CUT_OFF: &str = "the call was cut off at the token limit before its arguments";

/// Parses arguments; empty text means no arguments.
pub(crate) fn parse(raw: &str) -> Result<Value, String> {
    if raw.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(raw).or_else(|error| serde_json::from_str(&mended(raw)).map_err(|_| error)) {
        Ok(value @ Value::Object(_)) => Ok(value),
        // Some models express "no arguments" this way.
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(_) => Err("the arguments are JSON but not an object".to_owned()),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}
