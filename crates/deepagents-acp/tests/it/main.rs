//! Tests over a real connection, with the editor's side written as raw JSON lines.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test a failed expectation is the point"
)]

mod commands_and_files;
mod editor;
mod files;
mod forms;
mod lines;
mod questions;
mod sessions;
mod settings;
mod slow;
mod terminals;
mod turns;
