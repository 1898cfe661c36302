//! Calls that failed are made again.
//!
//! The clients of providers repeat requests by themselves, as far as an HTTP status says that it helps; [`ModelRetry`] is
//! for models of an application's own, and for what is left when a client has given up. Another model in the place of one
//! that is away is a model too: `Fallback` of `deepagents-models`.

mod backoff;
mod model;
mod tool;

pub use backoff::{Backoff, BackoffError};
pub use model::{ModelFailure, ModelRetry};
pub use tool::{ToolFailure, ToolRetry};
