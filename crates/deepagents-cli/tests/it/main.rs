//! The real program in child processes, with real files and a real server on loopback.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "in a test a failed expectation is the point"
)]

mod acp;
mod approve;
mod artifacts;
mod artifacts_kept;
mod book;
mod budgets;
mod choice;
mod config;
mod context_files;
mod delegation;
mod demo;
mod doctor;
mod endings;
#[cfg(target_os = "linux")]
mod execute;
mod goal;
mod hooks;
mod import;
mod json;
mod mcp;
mod mcp_serve;
mod own_files;
mod program;
mod replay;
mod rewind;
mod runs;
mod schema;
mod screens;
mod serve;
mod serve_settings;
mod server;
mod serving;
mod slash;
#[cfg(target_os = "linux")]
mod storage_troubles;
mod stream;
mod terminal;
mod threads;
mod tools;
mod tracing;
mod trust;
mod usage;
