//! Why a store fails, and what it checks before it writes.

use serde_json::Value;

use super::Namespace;
use crate::message::{DEEPEST, is_deeper};

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The namespace cannot be used.
    #[error("the namespace {namespace:?} cannot be used: {reason}")]
    Namespace {
        /// The namespace.
        namespace: Namespace,
        /// Why.
        reason: &'static str,
    },
    /// The key cannot be used.
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
        /// Why.
        reason: String,
    },
    /// The item is not at the version that was expected.
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

/// Checks where an item is to be written: the namespace as [`check_namespace`] does, the key for NUL.
///
/// # Errors
/// When either cannot be used.
pub fn check_place(namespace: &[String], key: &str) -> Result<(), StoreError> {
    check_namespace(namespace)?;
    if key.contains('\0') { Err(StoreError::Key { key: key.to_owned() }) } else { Ok(()) }
}

/// Checks a value to be written: readers of JSON have to take it, so it may be nested 96 levels deep.
///
/// # Errors
/// When it is nested deeper.
pub fn check_value(key: &str, value: &Value) -> Result<(), StoreError> {
    if is_deeper(value, DEEPEST) {
        let reason = format!("it is nested more than {DEEPEST} levels deep");
        return Err(StoreError::Value { key: key.to_owned(), reason });
    }
    Ok(())
}

/// Checks a namespace to be written to: not empty, labels not empty and without NUL.
///
/// # Errors
/// When it is not so.
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
