//! Paging of results: order, range and selected fields.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, Result};

/// The sort order of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SortOrder {
    Asc,
    #[default]
    Desc,
}

/// The maximum number of results.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "usize")]
pub(crate) struct Limit(usize);

impl Limit {
    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(10)
    }
}

impl TryFrom<usize> for Limit {
    type Error = &'static str;

    fn try_from(limit: usize) -> Result<Self, Self::Error> {
        if (1..=1000).contains(&limit) { Ok(Self(limit)) } else { Err("a limit must be 1 to 1000") }
    }
}

/// Whether an object contains all wanted entries, recursively.
pub(crate) fn contains(has: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, wanted)| has.get(key).is_some_and(|has| contains_value(has, wanted)))
}

/// Whether a value equals the wanted one, or contains it if both are objects.
pub(crate) fn contains_value(has: &Value, wanted: &Value) -> bool {
    match (has, wanted) {
        (Value::Object(has), Value::Object(wanted)) => contains(has, wanted),
        // 1 and 1.0 are equal.
        (Value::Number(has), Value::Number(wanted)) => has == wanted || has.as_f64() == wanted.as_f64(),
        (has, wanted) => has == wanted,
    }
}

/// Returns the headers with the total count and the offset of the next page.
pub(crate) fn pagination(total: usize, offset: usize, limit: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("x-pagination-total"), HeaderValue::from(total));
    let next = offset.saturating_add(limit);
    if next < total {
        headers.insert(HeaderName::from_static("x-pagination-next"), HeaderValue::from(next));
    }
    headers
}

/// Returns a page of results with the selected fields and the headers of the page. See [`Fields::new`].
pub(crate) fn page_of(
    found: Vec<impl Serialize>,
    (offset, limit): (usize, Limit),
    select: Option<&[String]>,
    known: &str,
) -> Result<(HeaderMap, Json<Value>)> {
    let fields = Fields::new(select, known)?;
    let headers = pagination(found.len(), offset, limit.get());
    let page = found.into_iter().skip(offset).take(limit.get()).map(|one| fields.of(json!(one)));
    Ok((headers, Json(page.collect())))
}

/// A client's field selection. An empty list selects all fields.
pub(crate) struct Fields<'a>(Option<&'a [String]>);

impl<'a> Fields<'a> {
    /// Creates a selection from a list. The `known` fields are separated by spaces.
    ///
    /// # Errors
    /// Returns an error if a field is unknown.
    pub(crate) fn new(select: Option<&'a [String]>, known: &str) -> Result<Self> {
        let select = select.filter(|select| !select.is_empty());
        match select.into_iter().flatten().find(|field| known.split(' ').all(|known| known != *field)) {
            Some(field) => Err(ApiError::invalid(format!(
                "`select` has `{field}`, which is not a field; the fields are {}",
                known.replace(' ', ", ")
            ))),
            None => Ok(Self(select)),
        }
    }

    pub(crate) fn have(&self, field: &str) -> bool {
        self.0.is_none_or(|select| select.iter().any(|own| own == field))
    }

    /// Returns the object with only the selected fields.
    pub(crate) fn of(&self, mut value: Value) -> Value {
        if let Some(object) = value.as_object_mut() {
            object.retain(|key, _| self.have(key));
        }
        value
    }
}
