//! Behaviour of the databases.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests may fail loudly, like the tests themselves"
)]

mod corpus;
mod errors;
mod memory;
mod postgres;
mod resume;
mod sqlite;
