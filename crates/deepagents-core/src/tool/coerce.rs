//! Arguments that are right but for how a model wrote them: a number or a truth value in quotes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::DynTool;
use crate::message::PendingCall;

/// The arguments with numbers and truth values as their schema wants them; nothing where that changes nothing.
///
/// Only what has one meaning is read: `"5"` and `5.0` for an integer, `"0.5"` for a number, `"true"`, `1` for a truth
/// value. A text is never made of anything else.
pub(super) fn coerced(schema: &Value, args: &Value) -> Option<Value> {
    let mut coerced = args.clone();
    fit(schema, schema, &mut coerced).then_some(coerced)
}

/// How often a schema may lead to another before one names a type; more is a circle.
const HOPS: usize = 8;

/// The schema that names the type: behind references, and what may be there besides null.
fn plain<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..HOPS {
        let Some(next) = referred(root, schema).or_else(|| only(schema)) else { break };
        schema = next;
    }
    schema
}

fn referred<'a>(root: &'a Value, schema: &Value) -> Option<&'a Value> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

/// The one alternative that is not null.
fn only(schema: &Value) -> Option<&Value> {
    let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    let mut others = alternatives.iter().filter(|other| other.get("type").is_none_or(|kind| kind != "null"));
    others.next().filter(|_| others.next().is_none())
}

/// Fits a value in place and says whether anything was changed.
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
            for (name, schema) in properties.into_iter().flatten() {
                changed |= fields.get_mut(name).is_some_and(|field| fit(root, schema, field));
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

/// What a scalar means under a schema that does not take it as it is.
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

/// A number without a fraction as an integer.
fn integer(value: &Value) -> Option<Value> {
    if value.is_i64() || value.is_u64() {
        return Some(value.clone());
    }
    // The digits of a whole number, so that no rounding comes in.
    value.as_f64().filter(|float| float.fract() == 0.0)?.to_string().parse().ok().map(Value::Number)
}

/// Whether a schema names a type.
fn takes(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    }
}

/// A call with the arguments that its tool makes of what the model wrote.
pub(crate) fn coerce_call(mut call: PendingCall, tool: Option<&Arc<dyn DynTool>>) -> PendingCall {
    if let (PendingCall::Valid(call), Some(tool)) = (&mut call, tool) {
        // A tool that cannot say answers when it is called.
        let coerced = std::panic::catch_unwind(AssertUnwindSafe(|| tool.coerced(&call.args)));
        if let Ok(Some(args)) = coerced {
            call.args = args;
        }
    }
    call
}
