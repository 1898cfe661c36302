//! A note of each request that changes something or was refused.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// What is noted of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When it was answered, RFC 3339.
    pub at: String,
    /// Who called; none where they were not let in, or nobody is asked.
    pub identity: Option<String>,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
}

/// Where notes go.
#[derive(Clone)]
pub(crate) struct AuditLog(pub(crate) Arc<dyn Fn(&AuditEntry) + Send + Sync>);

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}
