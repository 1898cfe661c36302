//! Invariants of the whole source tree.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "helpers of tests fail the test"
)]

mod checkpoint_list;
mod claims;
mod crash;
mod examples;
mod layers;
mod source;
mod tidy;
mod usage;
mod vocabulary;
