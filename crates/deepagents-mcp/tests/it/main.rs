//! Tests with real servers: programs over pipes, and agents served over HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail loudly, like the tests themselves"
)]

mod beside;
mod cached;
mod calls;
mod cost;
mod described;
mod discovery;
mod grants;
mod issuer;
mod listening;
mod logins;
mod names;
mod odd_http;
mod questions;
mod resources;
mod schemas;
mod script;
mod serve;
mod served_questions;
mod sse;
mod starts;
mod trust;
mod unreadable;
mod wire;
