//! Parses the arguments of a tool call from the model's text.

use serde_json::{Map, Value};

use crate::exact;
use crate::http::mended;

/// Arguments that cannot be used: as received, and what is wrong with them.
pub(crate) struct InvalidArgs {
    pub(crate) raw: String,
    pub(crate) error: String,
}

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
        // Collected, so that it takes no more memory than it needs: it lives as long as the conversation.
        Ok(Value::Object(fields)) => Ok(Value::Object(fields.into_iter().collect())),
        // Some models express "no arguments" this way.
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(_) => Err("the arguments are JSON but not an object".to_owned()),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}

/// Reads arguments that arrived as text; `was_cut` says that more was to come.
pub(crate) fn from_text(raw: &str, was_cut: bool) -> Result<Value, InvalidArgs> {
    let read = if was_cut { parse(raw).and_then(|_| Err(CUT_OFF.to_owned())) } else { parse(raw) };
    read.map_err(|error| InvalidArgs { raw: raw.to_owned(), error })
}

/// Reads arguments that arrived as an object, or as the [exact](crate::exact) text of one.
pub(crate) fn from_field(field: Option<&Value>) -> Result<Value, InvalidArgs> {
    match field {
        None => Ok(Value::Object(Map::new())),
        Some(args @ Value::Object(_)) => Ok(args.clone()),
        Some(other) => exact::read(other)
            .ok_or_else(|| InvalidArgs { raw: other.to_string(), error: "the arguments are not an object".to_owned() }),
    }
}
