//! The error for what redaction blocks, which middlewares that retry calls know too.

use std::collections::BTreeMap;

/// An error: a text contains data that must not be passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this contains something that must not be passed on: {}", listed(.found))]
#[non_exhaustive]
pub struct RedactionBlocked {
    /// Number of matches by kind, without the matches themselves.
    pub found: BTreeMap<String, usize>,
}

/// Formats kinds with their numbers.
pub(crate) fn listed(found: &BTreeMap<String, usize>) -> String {
    found.iter().map(|(kind, count)| format!("{kind} ({count})")).collect::<Vec<_>>().join(", ")
}
