//! Ids as clients see them.

use uuid::Uuid;

use crate::error::{ApiError, Result};

/// A fresh id; later ones are greater.
pub(crate) fn fresh() -> String {
    Uuid::now_v7().to_string()
}

/// The id of the assistant that stands for a graph.
pub(crate) fn system_assistant(graph: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_DNS, graph.as_bytes()).to_string()
}

/// An id that is the same whenever it is worked out from the same words.
pub(crate) fn derived(words: &[&str]) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, words.join("\u{1f}").as_bytes())
}

/// Refuses what is no UUID.
pub(crate) fn check(what: &str, id: &str) -> Result<()> {
    match Uuid::try_parse(id) {
        Ok(_) => Ok(()),
        Err(_) => Err(ApiError::invalid(format!("Invalid {what}: must be a UUID"))),
    }
}
