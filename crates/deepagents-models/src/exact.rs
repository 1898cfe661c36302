//! Call arguments with numbers that a [`Value`] does not preserve: integers of more than 64 bits, more digits than a
//! double has, and forms such as `1e5`.
//!
//! A provider's own item holds such arguments as text in place of the object. [`Exact`] writes that text verbatim, so
//! the provider gets back every digit. Tools get the nearest number that a `Value` holds.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::args;

/// Returns the arguments as text if `parsed`, which was read from `raw`, does not preserve all numbers. The provider's
/// own item has to be kept for their sake then, with this text.
pub(crate) fn verbatim(raw: &str, parsed: &Value) -> Option<Value> {
    (parsed.is_object() && changes_numbers(raw) && args::is_json(raw)).then(|| Value::String(raw.to_owned()))
}

/// Parses arguments that are held as text in place of the object. Returns `None` for any other field.
pub(crate) fn read(field: &Value) -> Option<Value> {
    let text = field.as_str().filter(|text| changes_numbers(text))?;
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Returns the arguments as JSON, with the digits that the provider wrote.
pub(crate) fn text(field: &Value) -> String {
    match field {
        Value::String(text) if read(field).is_some() => text.clone(),
        other => other.to_string(),
    }
}

/// Replaces arguments by their text if parsing changed a number in them. `value` was parsed from `json`; `path` leads
/// to the arguments and passes through the elements of lists. It is empty if there are none.
pub(crate) fn keep(value: &mut Value, json: &[u8], path: &[&str]) {
    let Ok(json) = std::str::from_utf8(json) else { return };
    if !path.is_empty() && changes_numbers(json) {
        keep_within(value, json, path);
    }
}

fn keep_within(value: &mut Value, json: &str, path: &[&str]) {
    match (value, path) {
        (Value::Array(items), _) => {
            let Ok(texts) = serde_json::from_str::<Vec<&RawValue>>(json) else { return };
            items.iter_mut().zip(texts).for_each(|(item, text)| keep_within(item, text.get(), path));
        }
        (Value::Object(fields), [name, rest @ ..]) => {
            let Some(field) = fields.get_mut(*name) else { return };
            let Ok(texts) = serde_json::from_str::<HashMap<String, &RawValue>>(json) else { return };
            if let Some(text) = texts.get(*name) {
                keep_within(field, text.get(), rest);
            }
        }
        (arguments @ Value::Object(_), []) if changes_numbers(json) => *arguments = Value::String(json.to_owned()),
        _ => {}
    }
}

/// Returns whether parsing and writing a JSON text would change the form of a number.
fn changes_numbers(json: &str) -> bool {
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let found = rest.get(at..).unwrap_or_default();
        rest = match found.strip_prefix('"') {
            Some(quoted) => behind_quote(quoted),
            None => {
                let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
                let (number, rest) = found.split_at(found.find(|c| !is_part(c)).unwrap_or(found.len()));
                if is_changed(number) {
                    return true;
                }
                rest
            }
        };
    }
    false
}

/// Returns what follows the closing quote of a string.
fn behind_quote(quoted: &str) -> &str {
    let mut rest = quoted;
    while let Some(at) = rest.find(['"', '\\']) {
        let (ends, behind) = (rest.get(at..).is_some_and(|rest| rest.starts_with('"')), rest.get(at + 1..));
        rest = behind.unwrap_or_default();
        if ends {
            return rest;
        }
        let mut escape = rest.chars();
        escape.next();
        rest = escape.as_str();
    }
    ""
}

fn is_changed(number: &str) -> bool {
    // Fast path: nearly all numbers are short integers.
    let is_short = number.len() <= 18 && number.bytes().all(|byte| byte.is_ascii_digit());
    !is_short && serde_json::from_str::<Number>(number).is_ok_and(|read| read.to_string() != number)
}

/// Part of a request body; serialises the arguments at `path` as their provider wrote them.
pub(crate) struct Exact<'a> {
    pub(crate) item: Cow<'a, Value>,
    pub(crate) path: &'a [&'a str],
}

impl<'a> Exact<'a> {
    pub(crate) fn new(item: &'a Value, path: &'a [&'a str]) -> Self {
        Self { item: Cow::Borrowed(item), path }
    }
}

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (&*self.item, self.path) {
            (Value::Array(items), [_, ..]) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(&Exact::new(item, self.path)))?;
                list.end()
            }
            (Value::Object(fields), [name, rest @ ..]) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, item) in fields {
                    if key == name {
                        map.serialize_entry(key, &Exact::new(item, rest))?;
                    } else {
                        map.serialize_entry(key, item)?;
                    }
                }
                map.end()
            }
            (item @ Value::String(text), []) if read(item).is_some() => match RawValue::from_string(text.clone()) {
                Ok(text) => text.serialize(serializer),
                Err(_) => item.serialize(serializer),
            },
            (item, _) => item.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_are_written_in_another_way_are_told_from_those_that_are_not() {
        for same in ["{\"a\": 1, \"b\": [-2, 0.5, 18446744073709551615, -9223372036854775808]}", "[\"1e5 \\\" 1e5\"]"] {
            assert!(!changes_numbers(same), "{same}");
        }
        for changed in ["12345678901234567890123", "{\"é\\\\\":0.1000000000000000055511151231257827}", "[1e5]", "1.50"]
        {
            assert!(changes_numbers(changed), "{changed}");
        }
    }

    #[test]
    fn what_is_kept_is_written_as_it_came_and_nothing_else_is_touched() {
        let json = "{\"a\":[{\"b\":{\"n\":1e5,\"s\":\"{\\\"x\\\":1e5}\"}},{\"c\":1},{\"b\":{\"n\":1}}],\"b\":\"{}\"}";
        let mut value: Value = serde_json::from_str(json).unwrap();
        keep(&mut value, json.as_bytes(), &["a", "b"]);
        assert_eq!(read(&value["a"][0]["b"]).unwrap()["n"], json!(100_000.0));
        assert!(value["a"][2]["b"].is_object());
        let written = serde_json::to_string(&Exact::new(&value, &["a", "b"])).unwrap();
        assert_eq!(written, json);
    }
}
