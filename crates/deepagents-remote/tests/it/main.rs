//! Remote agents through the public interface, against real servers over real HTTP.
#![allow(clippy::disallowed_methods, reason = "tests start processes and look at files")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly, like the tests themselves"
)]

mod a2a;
mod background;
mod crashes;
mod cuts;
mod delegation;
mod hostile;
mod langgraph;
mod support;
