//! Errors of stores, and checks before writing.

use serde_json::Value;

use super::Namespace;
use crate::message::{MAX_VALUE_DEPTH, is_deeper};
use crate::state::too_deep;

/// The error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The namespace is not valid.
    #[error("the namespace {namespace:?} cannot be used: {reason}")]
    Namespace {
        /// The namespace.
        namespace: Namespace,
        /// The reason.
        reason: &'static str,
    },
    /// The key is not valid.
    #[error("the key {key:?} cannot be used: it contains NUL")]
    Key {
        /// The key.
        key: String,
    },
    /// The value cannot be stored.
    #[error("the value of {key:?} cannot be stored: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The reason.
        reason: String,
    },
    /// The item does not have the expected version.
    #[error("`{key}` in {namespace:?} was changed by somebody else; read it again")]
    Conflict {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
    },
    /// The storage failed.
    #[error("the store's storage failed: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Checks the place of an item to be written: the namespace as [`check_namespace`] does, and the key for NUL.
///
/// # Errors
/// Returns an error if either is not valid.
pub fn check_place(namespace: &[String], key: &str) -> Result<(), StoreError> {
    check_namespace(namespace)?;
    if key.contains('\0') { Err(StoreError::Key { key: key.to_owned() }) } else { Ok(()) }
}

/// Checks that a value can be parsed as JSON again: it may be nested at most 96 levels deep.
///
/// # Errors
/// Returns an error if it is nested deeper.
pub fn check_value(key: &str, value: &Value) -> Result<(), StoreError> {
    if is_deeper(value, MAX_VALUE_DEPTH) {
        return Err(StoreError::Value { key: key.to_owned(), reason: too_deep() });
    }
    Ok(())
}

/// Checks a namespace to be written to: it must not be empty, and its labels must not be empty or contain NUL.
///
/// # Errors
/// Returns an error if it is not valid.
pub fn check_namespace(namespace: &[String]) -> Result<(), StoreError> {
    let reason = if namespace.is_empty() {
        "it is empty"
    } else if namespace.iter().any(String::is_empty) {
        "a label is empty"
    } else if namespace.iter().any(|label| label.contains('\0')) {
        "a label contains NUL"
    } else {
        return Ok(());
    };
    Err(StoreError::Namespace { namespace: namespace.to_vec(), reason })
}
