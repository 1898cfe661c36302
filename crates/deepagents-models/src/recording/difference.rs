//! Finds the first difference between two requests.

use std::fmt;

use serde_json::Value;

/// Number of characters shown of a value.
const MAX_SHOWN_CHARS: usize = 60;

/// The first difference from a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path of the field, as in `messages[2].content[0].text`.
    pub path: String,
    /// The recorded value, shortened; `nothing` if there is no such field.
    pub expected: String,
    /// The current value, shortened; `nothing` if there is no such field.
    pub got: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, got } = self;
        let path = if path.is_empty() { "the top" } else { path };
        write!(f, "{path}: expected {expected}, got {got}")
    }
}

/// Returns the first difference between two values, depth-first in the order of the expected one's fields. The order of
/// keys does not matter.
pub fn first_difference(expected: &Value, got: &Value) -> Option<Difference> {
    walk(&mut String::new(), Some(expected), Some(got))
}

fn walk(path: &mut String, expected: Option<&Value>, got: Option<&Value>) -> Option<Difference> {
    let length = path.len();
    match (expected, got) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                let found = walk(path, left.get(key), right.get(key));
                if found.is_some() {
                    return found;
                }
                path.truncate(length);
            }
            None
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                path.push_str(&format!("[{index}]"));
                let found = walk(path, left.get(index), right.get(index));
                if found.is_some() {
                    return found;
                }
                path.truncate(length);
            }
            None
        }
        (Some(Value::String(left)), Some(Value::String(right))) if left != right => {
            // Long texts usually start the same, so show them from shortly before the difference.
            let same = left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
            let from = if same < MAX_SHOWN_CHARS / 2 { 0 } else { same - MAX_SHOWN_CHARS / 4 };
            Some(Difference { path: path.clone(), expected: quoted(left, from), got: quoted(right, from) })
        }
        _ if expected == got => None,
        _ => Some(Difference { path: path.clone(), expected: shown(expected), got: shown(got) }),
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => quoted(text, 0),
        Some(other) => shortened(&other.to_string(), 0),
    }
}

fn quoted(text: &str, from: usize) -> String {
    Value::String(shortened(text, from)).to_string()
}

fn shortened(text: &str, from: usize) -> String {
    let mut rest = text.chars().skip(from);
    let mut out = if from > 0 { "…".to_owned() } else { String::new() };
    out.extend(rest.by_ref().take(MAX_SHOWN_CHARS));
    if rest.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    use crate::recording::request::fingerprint;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c\"\\[é,]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c]{1,2}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_difference_is_found_exactly_when_values_differ(a in any_json(), b in any_json()) {
            prop_assert_eq!(first_difference(&a, &b).is_none(), a == b);
            prop_assert_eq!(fingerprint(&a) == fingerprint(&b), a == b);
            prop_assert!(first_difference(&a, &a.clone()).is_none());
        }
    }

    #[test]
    fn the_path_points_to_the_first_difference_and_the_excerpts_are_short() {
        let long = "x".repeat(500);
        let found = first_difference(
            &json!({"a": 1, "b": [{"t": format!("{long}left")}]}),
            &json!({"b": [{"t": format!("{long}right{long}")}], "a": 1}),
        )
        .unwrap();
        assert_eq!(found.path, "b[0].t");
        assert_eq!(found.expected, format!("\"…{}left\"", "x".repeat(15)));
        assert!(found.got.chars().count() < 70);
        assert_eq!(first_difference(&json!([1]), &json!([])).unwrap().to_string(), "[0]: expected 1, got nothing");
    }
}
