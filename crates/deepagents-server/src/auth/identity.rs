//! Who calls.

use serde::{Deserialize, Serialize};

/// Somebody that calls the server.
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
}

/// How much somebody may ask for. What is not said is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests in a minute; as many may come at once.
    pub requests_per_minute: Option<u32>,
    /// Runs that wait or are under way.
    pub runs_at_once: Option<usize>,
    /// US dollars that the model calls of their runs may cost in a day (UTC), at list prices.
    pub usd_per_day: Option<f64>,
    /// The same in a month (UTC).
    pub usd_per_month: Option<f64>,
}

impl Limits {
    /// These, and where they say nothing the others.
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
    /// Somebody with a name that no other has.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), admin: false, limits: Limits::default() }
    }

    /// Lets them see and change what belongs to others.
    #[must_use]
    pub fn admin(mut self) -> Self {
        self.admin = true;
        self
    }

    /// Limits them.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The name that tells them from others.
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
