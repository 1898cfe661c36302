//! What items are searched for by.

use std::cmp::Ordering;

use serde_json::Value;

/// What to search for.
#[derive(Clone, Debug)]
pub struct Query {
    /// Only keys that begin so.
    pub key_prefix: String,
    /// Only values with these fields, compared as JSON.
    pub fields: serde_json::Map<String, Value>,
    /// Only values that pass all of these.
    pub filters: Vec<Filter>,
    /// At most so many.
    pub limit: usize,
    /// Leaving out so many first.
    pub offset: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            key_prefix: String::new(),
            fields: serde_json::Map::new(),
            filters: Vec::new(),
            limit: usize::MAX,
            offset: 0,
        }
    }
}

impl Query {
    /// Whether an item is one of those, limit and offset aside.
    pub fn matches(&self, key: &str, value: &Value) -> bool {
        key.starts_with(&self.key_prefix)
            && self.fields.iter().all(|(field, wanted)| value.get(field) == Some(wanted))
            && self.filters.iter().all(|filter| filter.passes(value))
    }
}

/// A condition on a field of a value.
///
/// ```
/// use deepagents_core::store::{Comparison, Filter};
/// use serde_json::json;
/// let filter = Filter::new("size", Comparison::AtLeast(json!(10)));
/// assert!(filter.passes(&json!({"size": 12})));
/// assert!(!filter.passes(&json!({"size": "large"})));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The field; `a.b` is the field `b` of the field `a`.
    pub field: String,
    /// What it is compared with.
    pub is: Comparison,
}

/// What a field is compared with. Numbers are compared with numbers and texts with texts; nothing else has an order. A
/// field that is missing counts as null.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// The same JSON.
    Equal(Value),
    /// Other JSON.
    NotEqual(Value),
    /// Before this.
    Below(Value),
    /// Before this, or the same.
    AtMost(Value),
    /// After this.
    Above(Value),
    /// After this, or the same.
    AtLeast(Value),
}

impl Filter {
    /// A condition on a field.
    pub fn new(field: impl Into<String>, is: Comparison) -> Self {
        Self { field: field.into(), is }
    }

    /// Whether a value passes.
    pub fn passes(&self, value: &Value) -> bool {
        let found = self.field.split('.').try_fold(value, |value, name| value.get(name)).unwrap_or(&Value::Null);
        match &self.is {
            Comparison::Equal(other) => found == other,
            Comparison::NotEqual(other) => found != other,
            Comparison::Below(other) => order(found, other).is_some_and(Ordering::is_lt),
            Comparison::AtMost(other) => order(found, other).is_some_and(Ordering::is_le),
            Comparison::Above(other) => order(found, other).is_some_and(Ordering::is_gt),
            Comparison::AtLeast(other) => order(found, other).is_some_and(Ordering::is_ge),
        }
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        _ => None,
    }
}
