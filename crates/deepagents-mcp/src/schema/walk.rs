//! Traverses a schema.

use serde_json::{Map, Value};

/// Keywords whose value is a schema.
const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is an array of schemas. `items` is one in older drafts.
const LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose value maps names to schemas.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Calls `change` for a schema and all its subschemas, the outermost first. Values that merely look like schemas, such
/// as defaults, are skipped.
pub(super) fn visit(schema: &mut Map<String, Value>, change: &mut impl FnMut(&mut Map<String, Value>)) {
    change(schema);
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        match value {
            Value::Object(part) if ONE.contains(&keyword) => visit(part, change),
            Value::Object(parts) if NAMED.contains(&keyword) => {
                parts.values_mut().filter_map(Value::as_object_mut).for_each(|part| visit(part, change));
            }
            Value::Array(parts) if LISTS.contains(&keyword) => {
                parts.iter_mut().filter_map(Value::as_object_mut).for_each(|part| visit(part, change));
            }
            _ => {}
        }
    }
}

/// Returns the nesting depth of objects and arrays.
pub(super) fn depth<'a>(values: impl Iterator<Item = &'a Value>) -> usize {
    let below = values.map(|value| match value {
        Value::Object(fields) => depth(fields.values()),
        Value::Array(items) => depth(items.iter()),
        _ => 0,
    });
    1 + below.max().unwrap_or_default()
}
