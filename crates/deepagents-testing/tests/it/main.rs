//! What must stay true of the whole tree.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod checkpoint_list;
mod tidy;
mod usage;
