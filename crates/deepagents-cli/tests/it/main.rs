//! The real program in real processes, against real files and a real server on loopback.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "in a test a failed expectation is the point"
)]

mod approve;
mod choice;
mod delegation;
mod demo;
mod doctor;
mod endings;
mod json;
mod program;
mod runs;
mod server;
mod threads;
mod tools;
