//! Conditions of a search on the fields of items.

use deepagents_core::store::{Comparison, Filter, Query};
use serde_json::Value;

use crate::error::{ApiError, Result};

/// Adds the conditions of a client's filter to a query.
pub(super) fn read(query: &mut Query, filter: Value) -> Result<()> {
    match filter {
        Value::Null => Ok(()),
        Value::Object(filter) => filter.into_iter().try_for_each(|(field, wanted)| {
            // Read as a path, a name with dots would not find its field.
            if field.contains('.') && !wanted.is_null() && !compares(&wanted) {
                query.fields.insert(field, wanted);
                return Ok(());
            }
            add_condition(query, field, wanted)
        }),
        other => Err(ApiError::invalid(format!("`filter` must be an object of fields, not {}", kind(&other)))),
    }
}

/// Adds the conditions for one field to a query. The field may be a path into nested objects.
fn add_condition(query: &mut Query, field: String, wanted: Value) -> Result<()> {
    match wanted {
        Value::Object(tests) if tests.keys().any(|key| key.starts_with('$')) => {
            for (word, value) in tests {
                let is = comparison(&field, &word, value)?;
                query.filters.push(Filter::new(field.clone(), is));
            }
        }
        // An object matches if it has these fields; it may have others. A path cannot name fields with dots.
        Value::Object(inner)
            if inner.values().any(compares) || (!inner.is_empty() && !inner.keys().any(|key| key.contains('.'))) =>
        {
            for (name, wanted) in inner {
                add_condition(query, format!("{field}.{name}"), wanted)?;
            }
        }
        Value::Array(list) if list.iter().any(compares) => {
            return Err(ApiError::invalid(format!(
                "`filter` cannot compare inside the list of `{field}`; lists are compared as a whole"
            )));
        }
        // A missing field equals null, and 1.0 equals 1.
        Value::Null => query.filters.push(Filter::new(field, Comparison::Equal(Value::Null))),
        Value::Number(number) => {
            query.filters.push(Filter::new(field.clone(), Comparison::AtLeast(Value::Number(number.clone()))));
            query.filters.push(Filter::new(field, Comparison::AtMost(Value::Number(number))));
        }
        value if field.contains('.') => query.filters.push(Filter::new(field, Comparison::Equal(value))),
        value => {
            query.fields.insert(field, value);
        }
    }
    Ok(())
}

/// Describes the type of a value for error messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Whether a value contains a comparison operator at any depth.
fn compares(wanted: &Value) -> bool {
    match wanted {
        Value::Object(inner) => inner.iter().any(|(key, inner)| key.starts_with('$') || compares(inner)),
        Value::Array(list) => list.iter().any(compares),
        _ => false,
    }
}

fn comparison(field: &str, word: &str, value: Value) -> Result<Comparison> {
    let comparison = match word {
        "$eq" => return Ok(Comparison::Equal(value)),
        "$ne" => return Ok(Comparison::NotEqual(value)),
        "$gt" => Comparison::Above,
        "$gte" => Comparison::AtLeast,
        "$lt" => Comparison::Below,
        "$lte" => Comparison::AtMost,
        other => {
            return Err(ApiError::invalid(format!(
                "`{other}` is not a comparison; use $eq, $ne, $gt, $gte, $lt or $lte"
            )));
        }
    };
    match value {
        Value::Number(_) | Value::String(_) => Ok(comparison(value)),
        other => {
            let what = kind(&other);
            Err(ApiError::invalid(format!("`{word}` of `{field}` takes a number or a string, not {what}")))
        }
    }
}
