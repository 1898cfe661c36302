//! The configuration of a run, under the names that clients use.

use serde_json::{Map, Value};

use crate::error::{ApiError, Result};

/// Configuration keys that locate the thread rather than configure the run.
const PLACE: [&str; 7] =
    ["thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id", "graph_id", "assistant_id"];

/// Whether a configuration key locates the thread, or is one of LangGraph's own.
pub(super) fn is_of_place(key: &str) -> bool {
    PLACE.contains(&key) || key.starts_with("__")
}

/// Copies `configurable` to the context and the context to `configurable`: `context` is the newer name of the same
/// values.
pub(crate) fn mirror_context(
    config: &mut Option<Map<String, Value>>,
    context: &mut Option<Map<String, Value>>,
) -> Result<()> {
    if let Some(config) = config {
        check_config(config)?;
    }
    let configured = config.as_ref().and_then(|config| config.get("configurable")).and_then(Value::as_object);
    let mut configured = configured.cloned().unwrap_or_default();
    let own: Map<String, Value> = configured.clone().into_iter().filter(|(key, _)| !is_of_place(key)).collect();
    match context {
        Some(given) if !given.is_empty() => {
            if !own.is_empty() && own != *given {
                return Err(ApiError::bad_request(
                    "both `config.configurable` and `context` are given; give only `context`, its newer name",
                ));
            }
            configured.extend(given.clone());
            config.get_or_insert_default().insert("configurable".to_owned(), Value::Object(configured));
        }
        _ if own.is_empty() => {}
        _ => *context = Some(own),
    }
    Ok(())
}

/// Rejects a configuration with values of the wrong type.
fn check_config(config: &Map<String, Value>) -> Result<()> {
    let is_texts = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let wrong = |key: &str, fits: &dyn Fn(&Value) -> bool| config.get(key).is_some_and(|value| !fits(value));
    if wrong("recursion_limit", &|value| value.as_u64().is_some_and(|limit| limit > 0)) {
        return Err(ApiError::invalid("`config.recursion_limit` must be a whole number above 0"));
    }
    if wrong("tags", &is_texts) {
        return Err(ApiError::invalid("`config.tags` must be a list of strings"));
    }
    if wrong("configurable", &Value::is_object) {
        return Err(ApiError::invalid("`config.configurable` must be an object"));
    }
    Ok(())
}
