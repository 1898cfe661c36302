//! Adapts JSON schemas to providers.

use serde_json::Value;

/// Sets `additionalProperties` to false in every object that does not set it.
pub(crate) fn closed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    each_object(&mut schema, &mut |object| {
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    });
    schema
}

/// Returns whether every object is closed and requires all its properties, as OpenAI's strict mode demands.
pub(crate) fn is_strict(schema: &Value) -> bool {
    let mut strict = true;
    each_object(&mut schema.clone(), &mut |object| {
        let required = object.get("required").and_then(Value::as_array);
        let mut properties = object.get("properties").and_then(Value::as_object).into_iter().flat_map(Object::keys);
        strict &= object.get("additionalProperties") == Some(&Value::Bool(false))
            && properties.all(|key| required.is_some_and(|list| list.iter().any(|name| name == key)));
    });
    strict
}

/// Reduces a schema to the keywords that Gemini accepts. It rejects others, and those would only restrict values
/// further.
pub(crate) fn gemini(schema: &Value) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut kept = Object::new();
    for (key, value) in object {
        let (key, value) = match (key.as_str(), value) {
            (key @ ("properties" | "$defs" | "definitions"), Value::Object(named)) => {
                let named = named.iter().map(|(name, schema)| (name.clone(), gemini(schema))).collect();
                (if key == "definitions" { "$defs" } else { key }, Value::Object(named))
            }
            (key @ ("anyOf" | "oneOf" | "prefixItems"), Value::Array(list)) => (key, list.iter().map(gemini).collect()),
            (key @ ("items" | "additionalProperties"), value) => (key, gemini(value)),
            (key @ "$ref", Value::String(target)) => (key, target.replace("#/definitions/", "#/$defs/").into()),
            ("const", value) => ("enum", Value::Array(vec![value.clone()])),
            (key, value) if GEMINI.contains(&key) => (key, value.clone()),
            _ => continue,
        };
        kept.insert(key.to_owned(), value);
    }
    Value::Object(kept)
}

/// Keywords that Gemini accepts, apart from those that contain schemas.
const GEMINI: [&str; 14] = [
    "$anchor",
    "$id",
    "description",
    "enum",
    "format",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "propertyOrdering",
    "required",
    "title",
    "type",
    "nullable",
];

type Object = serde_json::Map<String, Value>;

fn is_object(schema: &Object) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => schema.contains_key("properties"),
    }
}

/// Keywords whose values are data, not schemas.
const DATA: [&str; 5] = ["enum", "const", "default", "examples", "required"];
/// Keywords that contain schemas by name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Visits every object schema at any depth.
fn each_object(schema: &mut Value, visit: &mut dyn FnMut(&mut Object)) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut().filter(|(key, _)| !DATA.contains(&key.as_str())) {
                match value {
                    Value::Object(named) if NAMED.contains(&key.as_str()) => {
                        named.values_mut().for_each(|schema| each_object(schema, visit));
                    }
                    value => each_object(value, visit),
                }
            }
            if is_object(object) {
                visit(object);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|schema| each_object(schema, visit)),
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
        assert_eq!(closed(&shut), shut);
    }

    #[test]
    fn gemini_gets_only_the_schema_keywords_it_supports() {
        let schema = json!({
            "$schema": "x", "type": "object", "required": ["kind"], "additionalProperties": false,
            "properties": {
                "kind": {"const": "a"},
                "pattern": {"type": "string", "pattern": "^a", "default": "b"},
                "next": {"$ref": "#/definitions/Next"},
            },
            "definitions": {"Next": {"type": ["integer", "null"], "exclusiveMinimum": 0}},
        });
        let taken = json!({
            "type": "object", "required": ["kind"], "additionalProperties": false,
            "properties": {
                "kind": {"enum": ["a"]}, "pattern": {"type": "string"}, "next": {"$ref": "#/$defs/Next"},
            },
            "$defs": {"Next": {"type": ["integer", "null"]}},
        });
        assert_eq!(gemini(&schema), taken);
    }

    #[test]
    fn a_strict_schema_is_closed_and_requires_every_property() {
        let mut schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
        assert!(!is_strict(&schema));
        schema["required"] = json!(["a"]);
        assert!(is_strict(&schema));
    }
}
