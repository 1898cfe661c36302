//! Rows of results from either database.

use std::sync::Arc;

use crate::blob::Hash;
use crate::convert::{time, unsigned};
use crate::error::DatabaseError;

/// A column's value.
#[derive(Debug, Default)]
pub(crate) enum Value {
    #[default]
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row, with the database's name for messages.
#[derive(Debug)]
pub(crate) struct Row {
    values: Vec<Value>,
    database: Arc<str>,
}

impl Row {
    pub(crate) fn new(values: Vec<Value>, database: Arc<str>) -> Self {
        Self { values, database }
    }

    /// Takes a column's value out of the row.
    pub(crate) fn take<T: Column>(&mut self, at: usize) -> Result<T, DatabaseError> {
        let value = self.values.get_mut(at).map(std::mem::take).unwrap_or_default();
        T::from_value(value).ok_or_else(|| DatabaseError::Damaged {
            database: self.database.to_string(),
            reason: format!("column {at} of a row does not have a value of its type"),
        })
    }

    /// Takes a blob's text out of the row.
    pub(crate) fn take_blob_text(&mut self, at: usize) -> Result<String, DatabaseError> {
        let text = match self.values.get_mut(at) {
            Some(Value::Bytes(bytes)) => String::from_utf8(std::mem::take(bytes)).ok(),
            _ => return self.take(at),
        };
        text.ok_or_else(|| DatabaseError::Damaged {
            database: self.database.to_string(),
            reason: "a text that is stored separately is not UTF-8".to_owned(),
        })
    }

    /// Takes an item's time out of the row, as RFC 3339.
    pub(crate) fn take_item_time(&mut self, at: usize) -> Result<String, DatabaseError> {
        match self.values.get(at) {
            Some(Value::Int(ms)) => Ok(time(*ms).to_string()),
            _ => self.take(at),
        }
    }
}

/// Types that a column can be read as.
pub(crate) trait Column: Sized {
    fn from_value(value: Value) -> Option<Self>;
}

impl Column for i64 {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Int(number) = value { Some(number) } else { None }
    }
}

impl Column for u64 {
    fn from_value(value: Value) -> Option<Self> {
        i64::from_value(value).map(unsigned)
    }
}

impl Column for String {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
}

impl Column for Vec<u8> {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Bytes(bytes) = value { Some(bytes) } else { None }
    }
}

impl Column for Hash {
    fn from_value(value: Value) -> Option<Self> {
        Vec::from_value(value)?.try_into().ok()
    }
}

impl<T: Column> Column for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        if matches!(value, Value::Null) { Some(None) } else { T::from_value(value).map(Some) }
    }
}
