//! A note of each request that changes something or was refused.

use std::fmt;
use std::sync::Arc;

use axum::http::{Method, StatusCode};
use serde::Serialize;

use super::Identity;
use crate::ids;

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

impl AuditLog {
    /// Notes a request that changed something or was refused.
    pub(crate) fn note(&self, request: (Method, String), identity: Option<&Identity>, status: StatusCode) {
        let (method, path) = request;
        if method.is_safe() && status.is_success() {
            return;
        }
        (self.0)(&AuditEntry {
            at: ids::now(),
            identity: identity.map(|identity| identity.id().to_owned()),
            method: method.to_string(),
            path,
            status: status.as_u16(),
        });
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}
