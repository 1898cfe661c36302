//! What went wrong in the helper, and at which step.

use std::fmt::Display;

/// A step that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) step: &'static str,
    pub(super) reason: String,
}

impl Failure {
    pub(super) fn new(step: &'static str, reason: impl Display) -> Self {
        Self { step, reason: reason.to_string() }
    }
}

/// Names the step of a result.
pub(super) trait At<T> {
    fn at(self, step: &'static str) -> Result<T, Failure>;

    /// The same, with the thing it was about.
    fn on(self, step: &'static str, thing: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> At<T> for Result<T, E> {
    fn at(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, error))
    }

    fn on(self, step: &'static str, thing: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, format!("{thing}: {error}")))
    }
}
