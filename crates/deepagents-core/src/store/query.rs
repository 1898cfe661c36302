//! Search queries.

use std::cmp::Ordering;

use serde_json::Value;

/// A search query.
#[derive(Clone, Debug)]
pub struct Query {
    /// Only keys with this prefix.
    pub key_prefix: String,
    /// Only values with these fields, compared as JSON.
    pub fields: serde_json::Map<String, Value>,
    /// Only values that pass all these filters.
    pub filters: Vec<Filter>,
    /// Maximum number of items.
    pub limit: usize,
    /// Number of items to skip.
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
    /// Returns whether an item matches, apart from limit and offset.
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
    /// The comparison.
    pub is: Comparison,
}

/// A comparison with a field. Numbers are ordered among numbers and strings among strings; no other values are ordered.
/// A missing field counts as null.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// Equal to this JSON.
    Equal(Value),
    /// Not equal to this JSON.
    NotEqual(Value),
    /// Less than this.
    Below(Value),
    /// Less than or equal to this.
    AtMost(Value),
    /// Greater than this.
    Above(Value),
    /// Greater than or equal to this.
    AtLeast(Value),
}

impl Filter {
    /// Creates a condition on a field.
    pub fn new(field: impl Into<String>, is: Comparison) -> Self {
        Self { field: field.into(), is }
    }

    /// Returns whether a value passes.
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
