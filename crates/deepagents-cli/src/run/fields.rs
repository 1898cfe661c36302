//! Filling in the fields of a form from input lines.

use deepagents::{FieldKind, FieldOption, FormField};
use serde_json::{Value, json};

use crate::render::escaped;

/// Returns a field's numbered options, and its prompt.
pub(super) fn asked(field: &FormField) -> (Vec<String>, String) {
    let numbered = |options: &[FieldOption]| -> Vec<String> {
        (1..).zip(options).map(|(number, option)| format!("{number}. {}", escaped(option.label()))).collect()
    };
    let (options, takes, default) = match &field.kind {
        FieldKind::Number { default, .. } => (Vec::new(), "", default.as_ref().map(ToString::to_string)),
        FieldKind::Boolean { default } => {
            (Vec::new(), ", y or n", default.map(|yes| if yes { "y" } else { "n" }.to_owned()))
        }
        FieldKind::Choice { options, default } => (numbered(options), ", a number", default.clone()),
        FieldKind::Several { options, default } => {
            (numbered(options), ", numbers separated by commas", (!default.is_empty()).then(|| default.join(", ")))
        }
        FieldKind::Text { default } => (Vec::new(), "", default.clone()),
        _ => (Vec::new(), "", None),
    };
    let rest = match default {
        Some(default) => format!(" [{}]", escaped(&default)),
        None if field.required => String::new(),
        None => " (may be left empty)".to_owned(),
    };
    (options, format!("{}{takes}{rest}: ", escaped(&field.label())))
}

/// Parses a line as a field's value; `None` if the field is left out.
///
/// # Errors
/// Returns a message for the user if the line is not a valid value.
pub(super) fn value(field: &FormField, line: &str) -> Result<Option<Value>, String> {
    let line = line.trim();
    if line.is_empty() {
        return match default(&field.kind) {
            None if field.required => Err("this is required".to_owned()),
            default => Ok(default),
        };
    }
    Ok(Some(match &field.kind {
        FieldKind::Number { integer, .. } => {
            let number: Result<serde_json::Number, _> = serde_json::from_str(line);
            let fits = |number: &serde_json::Number| !integer || number.is_i64() || number.is_u64();
            match number.ok().filter(fits) {
                Some(number) => number.into(),
                None => return Err(format!("`{line}` is not a {}number", if *integer { "whole " } else { "" })),
            }
        }
        FieldKind::Boolean { .. } => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => json!(true),
            "n" | "no" | "false" => json!(false),
            _ => return Err("answer with y or n".to_owned()),
        },
        FieldKind::Choice { options, .. } => json!(option(options, line)?),
        FieldKind::Several { options, .. } => {
            let parts = line.split(',').map(str::trim).filter(|part| !part.is_empty());
            json!(parts.map(|part| option(options, part)).collect::<Result<Vec<_>, _>>()?)
        }
        _ => json!(line),
    }))
}

fn default(kind: &FieldKind) -> Option<Value> {
    match kind {
        FieldKind::Text { default } | FieldKind::Choice { default, .. } => default.as_ref().map(|text| json!(text)),
        FieldKind::Number { default, .. } => default.clone().map(Value::Number),
        FieldKind::Boolean { default } => default.map(Value::Bool),
        FieldKind::Several { default, .. } => (!default.is_empty()).then(|| json!(default)),
        _ => None,
    }
}

/// Returns the value of an option given by its number, value or label.
fn option<'a>(options: &'a [FieldOption], said: &str) -> Result<&'a str, String> {
    let named = options.iter().find(|option| option.value == said || option.label() == said);
    let numbered = || said.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
    let found = named.or_else(numbered);
    found.map(|option| option.value.as_str()).ok_or_else(|| format!("there is no choice `{said}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: FieldKind, required: bool) -> FormField {
        FormField { name: "f".to_owned(), title: None, description: None, required, kind }
    }

    fn options() -> Vec<FieldOption> {
        let option =
            |value: &str, title: Option<&str>| FieldOption { value: value.to_owned(), title: title.map(str::to_owned) };
        vec![option("s", Some("small")), option("l", None)]
    }

    #[test]
    fn an_input_line_is_parsed_by_field_type() {
        let read = |kind: FieldKind, line: &str| value(&field(kind, true), line);
        assert_eq!(read(FieldKind::Text { default: None }, " Ada "), Ok(Some(json!("Ada"))));
        assert_eq!(read(FieldKind::Number { integer: true, default: None }, "3"), Ok(Some(json!(3))));
        assert!(read(FieldKind::Number { integer: true, default: None }, "3.5").is_err());
        assert_eq!(read(FieldKind::Boolean { default: None }, "Yes"), Ok(Some(json!(true))));
        for line in ["1", "s", "small"] {
            assert_eq!(read(FieldKind::Choice { options: options(), default: None }, line), Ok(Some(json!("s"))));
        }
        let several = || FieldKind::Several { options: options(), default: Vec::new() };
        assert_eq!(read(several(), "2, small"), Ok(Some(json!(["l", "s"]))));
        assert_eq!(read(several(), "3"), Err("there is no choice `3`".to_owned()));
    }

    #[test]
    fn an_empty_line_gives_the_default_or_omits_an_optional_field() {
        let text = |default: Option<&str>| FieldKind::Text { default: default.map(str::to_owned) };
        assert_eq!(value(&field(text(Some("x")), true), ""), Ok(Some(json!("x"))));
        assert_eq!(value(&field(text(None), false), " "), Ok(None));
        assert!(value(&field(text(None), true), "").is_err());
    }
}
