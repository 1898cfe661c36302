//! Errors of the helper.

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

/// Adds the failed step to an error.
pub(super) trait At<T> {
    fn at(self, step: &'static str) -> Result<T, Failure>;

    /// Adds the failed step and its subject to an error.
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
