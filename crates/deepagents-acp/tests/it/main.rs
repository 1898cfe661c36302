//! The agent of an editor: a real connection, with the editor's side played over raw lines of JSON.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test a failed expectation is the point"
)]

mod editor;
mod files;
mod forms;
mod lines;
mod questions;
mod sessions;
mod settings;
mod terminals;
mod turns;
