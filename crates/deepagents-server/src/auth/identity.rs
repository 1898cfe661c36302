//! Who calls.

/// Somebody that calls the server.
///
/// ```
/// use deepagents_server::{Identity, Limits};
///
/// let limits = Limits { runs_at_once: Some(4), ..Limits::default() };
/// let ada = Identity::new("ada").limits(limits);
/// assert_eq!(ada.id(), "ada");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    id: String,
    admin: bool,
    limits: Limits,
}

/// How much somebody may ask for at a time. What is not said is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a minute; as many may come at once.
    pub requests_per_minute: Option<u32>,
    /// Runs that wait or are under way.
    pub runs_at_once: Option<usize>,
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
