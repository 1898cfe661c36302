//! The audit log of requests that change something or were rejected.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// An audit record of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When the response was sent, RFC 3339.
    pub at: String,
    /// The id of the caller. `None` if the caller was not admitted or authentication is off.
    pub identity: Option<String>,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The status of the response.
    pub status: u16,
}

/// The callback that receives audit records.
#[derive(Clone)]
pub(crate) struct AuditLog(pub(crate) Arc<dyn Fn(&AuditEntry) + Send + Sync>);

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}
