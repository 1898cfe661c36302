//! Conversion of arguments that a model wrote with the wrong JSON type, such as a number in quotes or a needless null.

use serde_json::{Map, Value};

use super::DynTool;
use crate::message::ToolCall;
use crate::panics::caught;
use crate::schema::target;

/// Returns the arguments as the schema means them, or `None` if nothing changes.
///
/// Only unambiguous values are converted: `"5"` and `5.0` for an integer, `"0.5"` for a number, `"true"` and `1` for a
/// boolean. A null for an optional property that does not accept it is removed. Nothing is ever converted to a string.
pub(super) fn coerced(schema: &Value, args: &Value) -> Option<Value> {
    let mut coerced = args.clone();
    fit(schema, schema, &mut coerced).then_some(coerced)
}

/// Maximum number of schemas to follow until one names a type; more indicates a cycle.
const MAX_HOPS: usize = 8;

/// Returns the schema that names the type, following references and the single non-null alternative.
fn plain<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MAX_HOPS {
        let referred = schema.get("$ref").and_then(Value::as_str).and_then(|reference| target(root, reference));
        let Some(next) = referred.or_else(|| only(schema)) else { break };
        schema = next;
    }
    schema
}

/// Returns the only alternative that is not null.
fn only(schema: &Value) -> Option<&Value> {
    let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    let mut others = alternatives.iter().filter(|other| other.get("type").is_none_or(|kind| kind != "null"));
    others.next().filter(|_| others.next().is_none())
}

/// Converts a value in place. Returns whether anything changed.
fn fit(root: &Value, schema: &Value, value: &mut Value) -> bool {
    let schema = plain(root, schema);
    if let Some(other) = scalar(schema, value) {
        *value = other;
        return true;
    }
    let mut changed = false;
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array);
            let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|own| own == name));
            for (name, schema) in properties.into_iter().flatten() {
                let Some(field) = fields.get_mut(name) else { continue };
                if field.is_null() && !is_required(name) && !takes_null(root, schema, MAX_HOPS) {
                    fields.shift_remove(name);
                    changed = true;
                } else {
                    changed |= fit(root, schema, field);
                }
            }
        }
        Value::Array(items) => {
            let schema = schema.get("items");
            for item in items {
                changed |= schema.is_some_and(|schema| fit(root, schema, item));
            }
        }
        _ => {}
    }
    changed
}

/// Returns whether a schema may accept null.
fn takes_null(root: &Value, schema: &Value, hops: usize) -> bool {
    let Some(hops) = hops.checked_sub(1) else { return true };
    if let Some(referred) = schema.get("$ref").and_then(Value::as_str) {
        return target(root, referred).is_none_or(|schema| takes_null(root, schema, hops));
    }
    if let Some(alternatives) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        return alternatives.iter().any(|schema| takes_null(root, schema, hops));
    }
    match (schema.as_object(), schema.get("enum").and_then(Value::as_array)) {
        (Some(_), Some(values)) => values.iter().any(Value::is_null),
        (Some(schema), None) => !schema.contains_key("type") || takes(schema, "null"),
        (None, _) => true,
    }
}

/// Returns the meaning of a scalar under a schema that does not accept it as it is.
fn scalar(schema: &Value, value: &Value) -> Option<Value> {
    let schema = schema.as_object()?;
    match value {
        Value::String(_) if takes(schema, "string") => None,
        Value::String(text) => {
            let text = text.trim();
            let number = || text.parse().ok().map(Value::Number);
            let whole = || number().and_then(|number| integer(&number));
            let integer = takes(schema, "integer").then(whole).flatten();
            integer.or_else(|| takes(schema, "number").then(number).flatten()).or_else(|| {
                let word = takes(schema, "boolean").then(|| text.to_ascii_lowercase())?;
                word.parse().ok().map(Value::Bool)
            })
        }
        Value::Number(_) if takes(schema, "number") => None,
        Value::Number(number) if takes(schema, "integer") => number.is_f64().then(|| integer(value)).flatten(),
        Value::Number(number) if takes(schema, "boolean") => match number.as_u64()? {
            0 => Some(Value::Bool(false)),
            1 => Some(Value::Bool(true)),
            _ => None,
        },
        _ => None,
    }
}

/// Converts a number without a fraction to an integer.
fn integer(value: &Value) -> Option<Value> {
    if value.is_i64() || value.is_u64() {
        return Some(value.clone());
    }
    // Goes through the decimal digits, to avoid rounding.
    value.as_f64().filter(|float| float.fract() == 0.0)?.to_string().parse().ok().map(Value::Number)
}

/// Returns whether a schema names a type.
fn takes(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    }
}

/// Coerces the arguments of a call as its tool does.
pub(crate) fn coerce_call(call: &mut ToolCall, tool: &dyn DynTool) {
    // If `coerced` panics, the call reports the problem.
    if let Ok(Some(args)) = caught(|| tool.coerced(&call.args)) {
        call.args = args;
    }
}
