//! Runs of scripted models, and what real OTLP receivers get of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail loudly, like the tests themselves"
)]

mod agents;
mod config;
mod export;
mod receiver;
mod spans;
