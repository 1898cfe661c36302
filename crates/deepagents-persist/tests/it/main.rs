//! Tests of the databases.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests may fail loudly, like the tests themselves"
)]

mod approvals;
mod corpus;
mod damaged_log;
mod errors;
mod frozen;
mod in_doubt;
mod memory;
mod places;
mod postgres;
mod postgres_errors;
mod postgres_faults;
mod resume;
mod sqlite;
mod sqlite_faults;
mod unreliable;
