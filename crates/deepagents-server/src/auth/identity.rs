//! Caller identities.

use std::future::Future;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// An authenticated caller.
///
/// ```
/// use deepagents_server::{Identity, Limits};
///
/// let limits = Limits { runs_at_once: Some(4), ..Limits::default() };
/// let ada = Identity::new("ada").limits(limits);
/// assert_eq!(ada.id(), "ada");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    id: String,
    admin: bool,
    limits: Limits,
    expires_at: Option<SystemTime>,
}

/// Limits on a caller's use of the server. Unset fields are unlimited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests per minute. As many may arrive in one burst.
    pub requests_per_minute: Option<u32>,
    /// Pending and running runs at a time.
    pub runs_at_once: Option<usize>,
    /// US dollars that the model calls of the caller's runs may cost per day (UTC), at list prices.
    pub usd_per_day: Option<f64>,
    /// US dollars per month (UTC), likewise.
    pub usd_per_month: Option<f64>,
}

impl Limits {
    pub(crate) fn has_budget(&self) -> bool {
        self.usd_per_day.is_some() || self.usd_per_month.is_some()
    }

    /// Fills unset fields from `others`.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            requests_per_minute: self.requests_per_minute.or(others.requests_per_minute),
            runs_at_once: self.runs_at_once.or(others.runs_at_once),
            usd_per_day: self.usd_per_day.or(others.usd_per_day),
            usd_per_month: self.usd_per_month.or(others.usd_per_month),
        }
    }
}

impl Identity {
    /// Creates an identity. The id must be unique to the caller.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), admin: false, limits: Limits::default(), expires_at: None }
    }

    /// Lets the caller see and change what belongs to others.
    #[must_use]
    pub fn admin(mut self) -> Self {
        self.admin = true;
        self
    }

    /// Sets the caller's limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets when what the caller presented expires. Streams and WebSockets end then, so that the caller must present
    /// something valid again.
    #[must_use]
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.expires_at = Some(at);
        self
    }

    /// Waits until what the caller presented expires, or for ever if it does not.
    pub(crate) fn expired(&self) -> impl Future<Output = ()> + Send + use<> {
        #[allow(clippy::disallowed_methods, reason = "an issuer means the time of the world")]
        let left = self.expires_at.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }

    pub(crate) fn can_expire(&self) -> bool {
        self.expires_at.is_some()
    }

    /// Returns the unique id.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.admin
    }

    pub(crate) fn own_limits(&self) -> &Limits {
        &self.limits
    }
}
