//! JSON schemas as providers want them.

use std::borrow::Cow;

use serde_json::Value;

/// The schema with every object closed to further properties, where it does not say so itself.
pub(crate) fn closed(schema: &Value) -> Cow<'_, Value> {
    if all_objects(schema, &|object| object.contains_key("additionalProperties")) {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    close(&mut schema);
    Cow::Owned(schema)
}

/// Whether every object is closed and requires all its properties, as OpenAI's strict mode wants.
pub(crate) fn is_strict(schema: &Value) -> bool {
    all_objects(schema, &|object| {
        let required = object.get("required").and_then(Value::as_array);
        let properties = object.get("properties").and_then(Value::as_object);
        object.get("additionalProperties") == Some(&Value::Bool(false))
            && properties.is_none_or(|properties| {
                properties.keys().all(|key| required.is_some_and(|list| list.iter().any(|name| name == key)))
            })
    })
}

type Object = serde_json::Map<String, Value>;

fn is_object(schema: &Object) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => schema.contains_key("properties"),
    }
}

/// Keys whose values are instances or names, not schemas.
const DATA: [&str; 5] = ["enum", "const", "default", "examples", "required"];
/// Keys that hold schemas by name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

fn all_objects(schema: &Value, test: &dyn Fn(&Object) -> bool) -> bool {
    match schema {
        Value::Object(object) => {
            (!is_object(object) || test(object))
                && object.iter().all(|(key, value)| match value {
                    _ if DATA.contains(&key.as_str()) => true,
                    Value::Object(named) if NAMED.contains(&key.as_str()) => {
                        named.values().all(|schema| all_objects(schema, test))
                    }
                    value => all_objects(value, test),
                })
        }
        Value::Array(list) => list.iter().all(|schema| all_objects(schema, test)),
        _ => true,
    }
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    _ if DATA.contains(&key.as_str()) => {}
                    Value::Object(named) if NAMED.contains(&key.as_str()) => named.values_mut().for_each(close),
                    value => close(value),
                }
            }
            if is_object(object) && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_at_every_depth_are_closed_and_data_is_left_alone() {
        let open = json!({
            "type": "object",
            "properties": {"type": {"type": "array", "items": {"type": "object", "properties": {}}}},
            "default": {"properties": 1},
        });
        let shut = closed(&open);
        assert_eq!(shut["additionalProperties"], false);
        assert_eq!(shut["properties"]["type"]["items"]["additionalProperties"], false);
        assert_eq!(shut["properties"].get("additionalProperties"), None);
        assert_eq!(shut["default"], json!({"properties": 1}));
        assert!(matches!(closed(&shut), Cow::Borrowed(_)));
    }

    #[test]
    fn strict_means_closed_and_all_required() {
        let mut schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
        assert!(!is_strict(&schema));
        schema["required"] = json!(["a"]);
        assert!(is_strict(&schema));
    }
}
