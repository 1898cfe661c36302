//! The screens as a person sees them: real agents on real files, a scripted model, no terminal.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "in a test a failed expectation is the point"
)]

mod approvals;
mod cards;
mod commands;
mod cost;
mod editing;
mod forms;
mod fuzz;
mod goals;
mod hooks;
mod models;
mod pictures;
mod policy;
mod preferences;
mod reading;
mod stopping;
mod talk;
mod threads;
mod waiting;
mod windows;
mod world;
