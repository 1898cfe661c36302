//! The arguments of a tool call, from the text a model wrote.

use serde_json::{Map, Value};

use crate::http::mended;

/// Whether a text is JSON as it is.
pub(crate) fn is_json(raw: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok()
}

/// What is wrong with a call that the token limit cut before its first argument.
pub(crate) const CUT_OFF: &str = "the call was cut off at the token limit before its arguments";

/// Reads arguments; no text at all means none.
pub(crate) fn parse(raw: &str) -> Result<Value, String> {
    if raw.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(raw).or_else(|error| serde_json::from_str(&mended(raw)).map_err(|_| error)) {
        Ok(value @ Value::Object(_)) => Ok(value),
        // Some models say "no arguments" this way.
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(_) => Err("the arguments are JSON but not an object".to_owned()),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}
