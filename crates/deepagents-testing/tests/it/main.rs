//! What must stay true of the whole tree.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod tidy;
