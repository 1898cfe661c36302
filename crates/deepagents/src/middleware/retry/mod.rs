//! Retries of failed calls.
//!
//! The clients of providers retry requests themselves if the HTTP status suggests it. [`ModelRetry`] is for an
//! application's own models, and for errors that remain after a client has given up. To switch to another model when
//! one is unavailable, use `Fallback` of `deepagents-models`.

mod backoff;
mod model;
mod tool;

pub use backoff::{Backoff, BackoffError};
pub use model::{ModelFailure, ModelRetry};
pub use tool::{ToolFailure, ToolRetry};
