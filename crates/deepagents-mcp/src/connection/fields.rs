//! Form fields of elicitation requests.

use deepagents_core::interrupt::{AnswerForm, FieldKind, FieldOption, FormField};
use serde_json::{Map, Value};

use crate::text;

/// Maximum number of fields in a form.
const MAX_FIELDS: usize = 50;
/// Maximum number of options in a field.
const MAX_OPTIONS: usize = 200;
/// Maximum length of a title or description, in characters.
const MAX_TEXT_CHARS: usize = 300;

/// Converts an object schema to a form, which may have no fields. Returns `None` if it has too many.
pub(super) fn form(schema: &Value) -> Option<AnswerForm> {
    let required = |name: &str| {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
    };
    let none = Map::new();
    let properties = schema.get("properties").map_or(Some(&none), Value::as_object)?;
    let fields: Vec<FormField> = properties
        .iter()
        .take(MAX_FIELDS)
        .map(|(name, field)| FormField {
            name: name.clone(),
            title: words(field, "title"),
            description: about(field),
            required: required(name) && field.get("default").is_none(),
            kind: kind(field),
        })
        .collect();
    // If the form cannot show every field, the answer is given as JSON.
    (properties.len() <= MAX_FIELDS).then_some(AnswerForm::Fields { fields })
}

/// Returns the description of a field, with its constraints.
fn about(field: &Value) -> Option<String> {
    let words = words(field, "description").into_iter().chain(bounds(field));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Describes the constraints of a value.
fn bounds(field: &Value) -> Vec<String> {
    let number = |key: &str| field.get(key).and_then(Value::as_number);
    let between = |least: &str, most: &str, of: &str| match (number(least), number(most)) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}{of}")),
        (Some(least), None) => Some(format!("at least {least}{of}")),
        (None, Some(most)) => Some(format!("at most {most}{of}")),
        (None, None) => None,
    };
    let format = field.get("format").and_then(Value::as_str).map(|format| match format {
        "email" => "an e-mail address".to_owned(),
        "uri" => "an address such as https://example.com".to_owned(),
        "date" => "a date such as 2026-03-31".to_owned(),
        "date-time" => "a time such as 2026-03-31T12:00:00Z".to_owned(),
        other => text::line(other, 40),
    });
    let bounds = [
        format,
        between("minLength", "maxLength", " characters"),
        between("minimum", "maximum", ""),
        between("minItems", "maxItems", " of them"),
    ];
    bounds.into_iter().flatten().collect()
}

/// Returns a text of a field, cleaned for display.
fn words(field: &Value, key: &str) -> Option<String> {
    let words = field.get(key)?.as_str()?;
    Some(text::line(words, MAX_TEXT_CHARS)).filter(|words| !words.trim().is_empty())
}

fn kind(field: &Value) -> FieldKind {
    let default = field.get("default");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(options) = options(field) {
        return FieldKind::Choice { options, default: default.and_then(text) };
    }
    if let Some(options) = field.get("items").and_then(options) {
        let chosen = default.and_then(Value::as_array).into_iter().flatten();
        return FieldKind::Several { options, default: chosen.filter_map(text).collect() };
    }
    match field.get("type").and_then(Value::as_str) {
        Some("boolean") => FieldKind::Boolean { default: default.and_then(Value::as_bool) },
        Some(kind @ ("number" | "integer")) => {
            FieldKind::Number { integer: kind == "integer", default: default.and_then(Value::as_number).cloned() }
        }
        _ => FieldKind::Text { default: default.and_then(text) },
    }
}

/// Returns the values that a schema enumerates, with their titles. Returns `None` unless all of them are strings.
fn options(schema: &Value) -> Option<Vec<FieldOption>> {
    let option = |value: &Value, title: Option<&str>| {
        let title = title.map(|title| text::line(title, MAX_TEXT_CHARS));
        Some(FieldOption { value: value.as_str()?.to_owned(), title })
    };
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let found: Option<Vec<FieldOption>> = match (list("enum"), list("oneOf").or_else(|| list("anyOf"))) {
        (Some(values), _) => {
            let titles = list("enumNames");
            let title = |at: usize| titles.and_then(|titles| titles.get(at)?.as_str());
            values.iter().enumerate().map(|(at, value)| option(value, title(at))).collect()
        }
        (None, Some(titled)) => {
            titled.iter().map(|one| option(one.get("const")?, one.get("title").and_then(Value::as_str))).collect()
        }
        (None, None) => None,
    };
    found.filter(|options| !options.is_empty() && options.len() <= MAX_OPTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_becomes_fields_of_fillable_kinds() {
        let schema = json!({"type": "object", "required": ["a", "e"], "properties": {
            "a": {"type": "string", "title": "Name", "description": "in\u{1b}full"},
            "b": {"type": "integer", "default": 3},
            "c": {"type": "boolean"},
            "d": {"type": "string", "enum": ["s", "l"], "enumNames": ["small", "large"], "default": "l"},
            "e": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "the X"}]}, "default": ["x"]},
        }});
        let Some(AnswerForm::Fields { fields }) = form(&schema) else { panic!("there is no form") };
        let kinds: Vec<&FieldKind> = fields.iter().map(|field| &field.kind).collect();
        let named = |value: &str, title: &str| FieldOption { value: value.into(), title: Some(title.into()) };
        assert_eq!(
            kinds,
            [
                &FieldKind::Text { default: None },
                &FieldKind::Number { integer: true, default: Some(3.into()) },
                &FieldKind::Boolean { default: None },
                &FieldKind::Choice {
                    options: vec![named("s", "small"), named("l", "large")],
                    default: Some("l".into())
                },
                &FieldKind::Several { options: vec![named("x", "the X")], default: vec!["x".into()] },
            ]
        );
        let required: Vec<bool> = fields.iter().map(|field| field.required).collect();
        assert_eq!(required, [true, false, false, false, false]);
        assert!(fields.iter().all(|field| !field.label().contains('\u{1b}')), "{fields:?}");
    }

    #[test]
    fn a_fields_constraints_are_added_to_its_description() {
        let schema = json!({"properties": {
            "a": {"type": "string", "description": "Where to", "format": "email", "minLength": 3},
            "b": {"type": "integer", "minimum": 1, "maximum": 9},
        }});
        let Some(AnswerForm::Fields { fields }) = form(&schema) else { panic!("there is no form") };
        let about: Vec<&str> = fields.iter().map(|field| field.description.as_deref().unwrap()).collect();
        assert_eq!(about, ["Where to; an e-mail address; at least 3 characters", "1 to 9"]);
    }

    #[test]
    fn a_form_may_have_no_fields_but_not_too_many() {
        let none = Some(AnswerForm::Fields { fields: Vec::new() });
        assert_eq!(form(&json!({"type": "object"})), none);
        assert_eq!(form(&json!({"properties": {}})), none);
        let many: serde_json::Map<String, Value> = (0..60).map(|n| (format!("f{n}"), json!({}))).collect();
        assert_eq!(form(&json!({"properties": many})), None);
    }
}
